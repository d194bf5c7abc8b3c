"""Every habit of real servers that breaks trusting clients, over loopback HTTP: an answer, or one plain sentence."""

from __future__ import annotations

import asyncio

import pytest

from argus.agent.loop.limits import Limits
from argus.agent.model.client import TRANSIENT, Model
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, Message, ModelError, Reply, ToolCall
from argus.agent.model.stream import MAX_STREAMED, Accumulator
from argus.agent.stub_llm.protocol import completion
from argus.agent.stub_llm.quirks import HABITS, QUIRKS, REFUSALS, STREAMS, check_quirks
from argus.agent.stub_llm.scripts import confirm
from argus.agent.stub_llm.seen import calling, saying
from argus.agent.stub_llm.server import StubServer
from tests.agent.talks import over_http

TOOL = {
    "type": "function",
    "function": {
        "name": "stacks",
        "description": "",
        "parameters": {"type": "object", "properties": {"rank": {"type": "integer"}}, "required": ["rank"]},
    },
}
TWO_CALLS = (
    ToolCall(id="a", name="stacks", arguments={"rank": 3}),
    ToolCall(id="b", name="stacks", arguments={"rank": 4}),
)
ASK = Ask(messages=(Message(role="user", content="Look at ranks 3 and 4."),), tools=(TOOL,), timeout_s=20.0)


def asked(
    ask: Ask, *quirks: str, profile: str = "openai", is_streamed: bool = False, reply: Reply | None = None
) -> Reply:
    """One request to a server with quirks, whose model calls a tool twice unless told otherwise."""
    answer = calling(*TWO_CALLS, content="I will look.") if reply is None else reply
    with StubServer(lambda _: answer, quirks=quirks) as server:
        endpoint = Endpoint(url=server.url, model="m", profile_name=profile)
        return asyncio.run(_ask(endpoint, ask, is_streamed=is_streamed))


async def _ask(endpoint: Endpoint, ask: Ask, *, is_streamed: bool) -> Reply:
    model = Model(endpoint)
    try:
        return await model.ask(ask, on_text=(lambda text: None) if is_streamed else None)
    finally:
        await model.close()


def arguments(reply: Reply) -> list[dict[str, object]]:
    return [dict(call.arguments) for call in reply.calls]


@pytest.mark.parametrize("said", ["\u200b\u200d\ufeff", "\u2060\xa0\u2800\u3164", "\u0301\ufe0f\u00ad"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_an_answer_of_which_nothing_can_be_seen_is_none(said: str, is_streamed: bool) -> None:
    ask = Ask(messages=ASK.messages, timeout_s=20.0)
    assert asked(ask, is_streamed=is_streamed, reply=saying(said)).content == ""
    assert asked(ask, is_streamed=is_streamed, reply=saying(f"{said}Rank 3.")).content == f"{said}Rank 3."


@pytest.mark.parametrize("quirk", [name for name in HABITS if name not in ("length", "broken-arguments")])
def test_calls_are_read_whatever_form_they_come_in(quirk: str) -> None:
    reply = asked(ASK, quirk)
    assert arguments(reply) == [{"rank": 3}, {"rank": 4}]
    assert len({call.id for call in reply.calls}) == 2 and all(call.id for call in reply.calls)
    assert "tool_call" not in reply.content and "<think>" not in reply.content
    assert reply.usage.is_estimated == (quirk == "bare")


@pytest.mark.parametrize("quirk", list(STREAMS))
def test_streams_give_the_calls_that_were_made(quirk: str) -> None:
    reply = asked(ASK, quirk, is_streamed=True)
    assert arguments(reply) == [{"rank": 3}, {"rank": 4}]
    assert reply.num_retries == (quirk in ("stream-error", "stream-silent-end"))


def test_arguments_that_are_no_json_are_told_and_nothing_is_called() -> None:
    reply = asked(ASK, "broken-arguments")
    assert arguments(reply) == [{}, {}] and all(call.error for call in reply.calls)


def test_an_answer_that_was_cut_says_so() -> None:
    assert asked(ASK, "length").is_cut


@pytest.mark.parametrize(
    ("quirk", "kind"),
    [
        ("html", "not_an_api"),
        ("not-json", "not_an_api"),
        ("drop", "unreachable"),
        ("http-401", "auth"),
        ("http-404", "no_model"),
        ("http-429", "rate_limit"),
        ("http-500", "server"),
        ("context", "context"),
        ("error-body", "server"),
        ("vllm-no-tools", "server"),
        ("llamacpp-no-tools", "server"),
    ],
)
def test_a_failure_has_a_kind_and_one_sentence(quirk: str, kind: str) -> None:
    with pytest.raises(ModelError) as caught:
        asked(ASK, quirk)
    assert caught.value.kind == kind
    sentence = str(caught.value)
    assert (
        "\n" not in sentence
        and 10 < len(sentence) < 300
        and "<h1>" not in sentence
        and "abcdef" not in sentence
    )


@pytest.mark.parametrize("quirk", ["http-500-once", "http-429-short-once", "drop-once", "error-body-once"])
def test_a_failure_that_passes_is_retried_once(quirk: str) -> None:
    assert asked(ASK, quirk).num_retries == 1


def test_a_server_that_asks_for_a_minute_is_not_waited_for() -> None:
    with pytest.raises(ModelError, match="429"):
        asked(ASK, "http-429-once")


def test_a_slow_server_ends_at_the_deadline() -> None:
    with pytest.raises(ModelError, match="within 0.2 s") as caught:
        asked(Ask(messages=ASK.messages, timeout_s=0.2), "slow")
    assert caught.value.kind == "timeout"


def test_nothing_listening_is_unreachable() -> None:
    with pytest.raises(ModelError) as caught:
        asyncio.run(_ask(Endpoint(url="http://ada:pw9@127.0.0.1:9/v1", model="m"), ASK, is_streamed=False))
    assert caught.value.kind == "unreachable"
    assert "http://127.0.0.1:9/v1" in str(caught.value) and "pw9" not in str(caught.value)


@pytest.mark.parametrize(
    ("quirk", "profile"),
    [
        ("refuses-temperature", "vllm"),
        ("refuses-max-tokens", "generic"),
        ("refuses-strict", "openai"),
        ("refuses-parallel", "openai"),
    ],
)
def test_an_optional_parameter_that_is_refused_is_left_out_from_then_on(quirk: str, profile: str) -> None:
    with StubServer(lambda _: calling(*TWO_CALLS), quirks=[quirk]) as server:

        async def twice() -> None:
            model = Model(Endpoint(url=server.url, model="m", profile_name=profile))
            for _ in range(2):
                assert len((await model.ask(ASK)).calls) == 2
            await model.close()

        asyncio.run(twice())
        assert len(server.requests) == 3


REPLY_WITH_REASONING = Message(role="assistant", calls=(TWO_CALLS[0],), reasoning="It could be rank 3.")
SECOND_TURN = Ask(
    messages=(*ASK.messages, REPLY_WITH_REASONING, Message(role="tool", call_id="a", content="{}")),
    tools=(TOOL,),
)


def test_reasoning_goes_back_where_it_must_and_nowhere_else() -> None:
    assert asked(SECOND_TURN, "reasoning-required", profile="deepseek").calls
    assert asked(SECOND_TURN, "refuses-reasoning", profile="generic").calls
    assert asked(SECOND_TURN, "refuses-reasoning", profile="deepseek").calls
    with pytest.raises(ModelError, match="reasoning_content"):
        asked(SECOND_TURN, "reasoning-required", profile="generic")


def test_a_schema_is_never_demanded_beside_tools() -> None:
    schema = {"type": "object"}
    with_tools = Ask(messages=ASK.messages, tools=(TOOL,), schema=schema)
    assert asked(with_tools, "format-with-tools", profile="vllm").calls
    words = saying('{"verdict": "NO_FAULT"}')
    with StubServer(lambda _: words) as server:
        alone = Ask(messages=ASK.messages, schema=schema)
        asyncio.run(_ask(Endpoint(url=server.url, model="m", profile_name="vllm"), alone, is_streamed=False))
        assert server.requests[0]["response_format"]["type"] == "json_schema"


def test_json_of_other_things_stays_text() -> None:
    for text in (
        '{"name": "rank 3", "arguments": 7}',
        '```json\n{"name": "rm", "arguments": {}}\n```',
        "[1, 2]",
    ):
        reply = asked(ASK, reply=saying(text))
        assert not reply.calls and reply.content == text


def test_the_first_model_listed_is_taken_where_none_is_named() -> None:
    with StubServer(lambda _: saying("hello")) as server:
        asyncio.run(_ask(Endpoint(url=server.url), ASK, is_streamed=False))
        assert server.requests[0]["model"] == "argus-stub"


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["generic", "openai"])
@pytest.mark.parametrize("quirk", [*(f"{name}-once" for name in ("length", "broken-arguments")), *HABITS])
def test_an_investigation_comes_to_its_end_on_every_server(quirk: str, profile: str) -> None:
    with StubServer(confirm, quirks=[quirk]) as server:
        outcome = over_http(Endpoint(url=server.url, model="m", profile_name=profile, context_tokens=16_384))
    if quirk == "length":  # every answer is cut: nothing can come of it
        assert outcome.stage == "triage" and outcome.note
    else:  # calls that never arrive whole leave the last words, which need no call
        assert outcome.stance == "agrees", (outcome.note, outcome.dropped)


@pytest.mark.slow
@pytest.mark.parametrize(
    "quirk",
    [
        name
        for name in REFUSALS
        if name.startswith(("http", "html", "not", "context", "drop", "error", "vllm"))
    ],
)
def test_an_investigation_without_a_usable_model_is_the_triage_with_the_reason(quirk: str) -> None:
    with StubServer(confirm, quirks=[quirk]) as server:
        outcome = over_http(
            Endpoint(url=server.url, model="m", context_tokens=16_384), limits=Limits(max_s=20.0)
        )
    assert outcome.stage == "triage" and outcome.failure and outcome.note.startswith("Without the model: ")
    assert outcome.diagnosis["verdict"] in ("CONFIRMED", "LIKELY")


def test_unknown_quirks_are_refused_with_the_known_ones() -> None:
    assert check_quirks([f"{name}-once" for name in QUIRKS])
    with pytest.raises(ValueError, match="finish-stop"):
        check_quirks(["finish-stopp"])


def test_a_completion_is_what_the_protocol_says() -> None:
    whole = completion(calling(*TWO_CALLS), model="m", prompt_tokens=7)
    assert whole["choices"][0]["finish_reason"] == "tool_calls"
    assert whole["usage"]["prompt_tokens"] == 7 and whole["usage"]["completion_tokens"] > 0


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x" * 1000},
        {"reasoning_content": "x" * 1000},
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "x" * 1000}}]},
    ],
)
def test_an_answer_that_does_not_end_is_given_up(delta: dict[str, object]) -> None:
    accumulator = Accumulator()
    with pytest.raises(ModelError, match="longer than") as caught:
        for _ in range(MAX_STREAMED // 1000 + 2):
            accumulator.add({"choices": [{"delta": delta}]})
    assert caught.value.kind not in TRANSIENT
