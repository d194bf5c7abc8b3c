"""Answers of ten megabytes: read in no time, cut, and the triage stands."""

from __future__ import annotations

import json

import pytest

from argus.agent.loop.chat import CUT, chat_turn
from argus.agent.loop.drive import Surroundings, drive
from argus.agent.model.message import Ask, Message, Reply, ToolCall
from argus.agent.model.reading import MAX_CONTENT, MAX_NAME, read_completion
from argus.agent.registry import registry
from argus.agent.stub_llm.seen import calling, saying
from tests.agent.talks import Ticks, case_for, desk_for, scripted

SIZE = 10_000_000
ASK = Ask(
    messages=(Message(role="user", content="Why?"),),
    tools=({"type": "function", "function": {"name": "stacks", "parameters": {}}},),
)


@pytest.mark.parametrize(
    "part",
    [
        *("a", "[", '{"a":', "[1,", "<think>", "<function=stacks>", "<|tool"),
        *("stacks\n```json\n{", '{"name":"stacks","arguments":{}}'),
    ],
)
def test_ten_megabytes_of_anything_are_read_at_once(part: str) -> None:
    """Without bounds each of them takes minutes or for ever."""
    text = part * (SIZE // len(part))
    reply = read_completion({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}, ASK)
    assert len(reply.content) <= MAX_CONTENT and len(reply.calls) <= 16


def test_a_call_with_a_huge_name_and_huge_arguments_is_cut_and_told() -> None:
    function = {"name": "n" * SIZE, "arguments": {"k" * SIZE: 1}}
    message = {"content": "", "tool_calls": [{"id": "x", "function": function}]}
    (call,) = read_completion({"choices": [{"message": message}]}, ASK).calls
    assert len(call.name) == MAX_NAME and not call.arguments and len(call.error) < 200


def test_a_model_that_says_too_much_leaves_the_triage_and_room_in_the_window() -> None:
    sizes: list[int] = []

    def endless(ask: Ask) -> Reply:
        sizes.append(max(len(message.content) for message in ask.messages if message.role == "assistant"))
        return saying("word " * 20_000)

    def first(ask: Ask) -> Reply:
        if any(message.role == "assistant" for message in ask.messages):
            return endless(ask)
        return calling(ToolCall(id="", name="stacks", arguments={}), content="word " * 20_000)

    outcome, _ = scripted(first)
    case, _ = case_for()
    assert outcome.diagnosis == case.diagnosis and outcome.failure == "prose"
    assert max(sizes) <= 10_000 and len(json.dumps(outcome.to_json())) < 100_000


def test_a_chat_answer_without_an_end_is_cut_and_said_to_be() -> None:
    case, context = case_for()
    around = Surroundings(registry=registry(), context=context, clock=Ticks())
    course = chat_turn(case, desk_for(case, context), question="Which rank?")
    answer = drive(course, lambda ask: saying("word " * 20_000), around)
    assert answer.text.endswith(CUT) and len(answer.text) < 10_000
