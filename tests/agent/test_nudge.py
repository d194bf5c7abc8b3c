"""A model that answers where it should call, or calls what there is not, is told once what it may call."""

from __future__ import annotations

import pytest

from argus.agent.loop.chat import chat_turn
from argus.agent.loop.drive import Surroundings, drive
from argus.agent.model.arguments import objects_in
from argus.agent.model.message import Ask, Reply
from argus.agent.registry import registry
from argus.agent.stub_llm.scripts import confirm
from argus.agent.stub_llm.seen import saying
from tests.agent.talks import Script, Ticks, case_for, desk_for, scripted

STRANGE = '{\n  "name": "compute.slow/look",\n  "arguments": {\n    "rank": 3\n  }\n}'
PROSE = "The findings speak of a slow rank; the stacks and the history should be compared."
ALL_NULL = dict.fromkeys(("run", "incident", "level", "kind", "rank"))
NAMED = "Let me see: <function=list_findings>{"


def once(first: Reply, seen: list[Ask]) -> Script:
    """Says `first`, then confirms the triage as if it had said nothing."""

    def script(ask: Ask) -> Reply:
        seen.append(ask)
        if len(seen) == 1:
            return first
        rest = tuple(
            message for message in ask.messages if message.content not in (first.content, nudge(ask))
        )
        return confirm(Ask(messages=rest, tools=ask.tools))

    return script


def nudge(ask: Ask) -> str:
    """What it was told last."""
    return next((one.content for one in reversed(ask.messages) if one.role == "user"), "")


@pytest.mark.parametrize(
    ("said", "finish", "told"),
    [
        (STRANGE, "stop", "There is no tool compute.slow/look. End by "),
        (STRANGE[:50], "length", "There is no tool compute.slow/look. End by "),
        (PROSE, "length", "End by "),
    ],
)
def test_words_are_no_end_and_what_may_be_called_is_told(said: str, finish: str, told: str) -> None:
    seen: list[Ask] = []
    outcome, _ = scripted(once(Reply(content=said, finish=finish), seen))
    assert nudge(seen[1]).startswith(told) and "submit_diagnosis" in nudge(seen[1])
    assert objects_in(nudge(seen[1]))[0][1] == {"name": "list_findings", "arguments": ALL_NULL}
    assert seen[1].max_tokens == seen[0].max_tokens, "the same again would be the same answer"
    assert (outcome.stance, outcome.spent.num_repairs) == ("agrees", 1)


@pytest.mark.parametrize("said", [NAMED, ""])
def test_a_call_or_a_thought_that_was_cut_has_more_room_instead(said: str) -> None:
    seen: list[Ask] = []
    scripted(once(Reply(content=said, reasoning="Hm.", finish="length"), seen))
    assert seen[1].max_tokens == 2 * seen[0].max_tokens


def test_a_whole_call_at_the_end_of_a_cut_answer_is_made() -> None:
    seen: list[Ask] = []

    def cut(ask: Ask) -> Reply:
        seen.append(ask)
        reply = confirm(ask)
        return Reply(content=reply.content, calls=reply.calls, finish="length")

    outcome, _ = scripted(cut)
    assert outcome.stance == "agrees" and len({ask.max_tokens for ask in seen}) == 1


def test_in_a_chat_a_call_of_what_there_is_not_is_no_answer() -> None:
    seen: list[Ask] = []
    case, context = case_for()
    around = Surroundings(registry=registry(), context=context, clock=Ticks())
    course = chat_turn(case, desk_for(case, context), question="Which rank?")
    answer = drive(course, once(saying(STRANGE), seen), around)
    assert "no tool compute.slow/look" in nudge(seen[1])
    assert answer.num_pointed == 1 and "arguments" not in answer.text


def test_after_a_look_a_model_is_told_how_to_end_and_no_more() -> None:
    seen: list[Ask] = []

    def looks(ask: Ask) -> Reply:
        seen.append(ask)
        return confirm(ask) if len(seen) == 1 else saying(PROSE)

    outcome, _ = scripted(looks)
    assert nudge(seen[2]) == "End by calling the tool submit_diagnosis." and outcome.failure == "prose"


def test_calls_of_what_there_is_not_are_answered_until_they_are_a_circle() -> None:
    seen: list[Ask] = []

    def strange(ask: Ask) -> Reply:
        seen.append(ask)
        return saying(STRANGE)

    outcome, _ = scripted(strange)
    assert (outcome.budget, outcome.failure) == ("repeats", "budget") and not seen[-1].tools
