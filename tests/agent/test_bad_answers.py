"""Answers of endpoints that are none: each is one plain sentence, and nothing of ours is told in it."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from argus.agent.loop.investigate import Outcome
from argus.agent.model import bounded, failures
from argus.agent.model.arguments import read_arguments
from argus.agent.model.client import RETRY_AFTER_S, Model
from argus.agent.model.doctor import probe
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, Message, ModelError, Reply, Usage
from argus.agent.model.profile import Profile
from argus.agent.model.reading import MAX_TOKENS, read_completion
from argus.agent.model.stream import Accumulator
from argus.agent.model.wire import Dialect, request_of
from argus.agent.registry import registry
from argus.agent.stub_llm.loopback import Loopback
from argus.agent.wording import ended
from tests.agent.talks import case_for, over_http

KEY = "q7Zk0secretkey"
ASK = Ask(messages=(Message(role="user", content="Why?"),), timeout_s=10.0)
GOOD_LIST = json.dumps({"data": [{"id": "m"}]})


@contextmanager
def serving(
    answer: str, *, models: str = GOOD_LIST, status: int = 200, headers: dict[str, str] | None = None
) -> Iterator[str]:
    """A server that says the same to every question; its URL."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on stderr for each request."""

        def do_GET(self) -> None:
            self.send(200, models, {})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send(status, answer, headers or {})

        def send(self, code: int, text: str, more: dict[str, str]) -> None:
            self.send_response(code)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(text)),
                **more,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode("latin-1"))

    server = Loopback(Handler, port=0, name="bad-answers")
    server.start()
    try:
        yield f"{server.url}/v1"
    finally:
        server.stop()


def told(message: dict[str, Any], **more: Any) -> str:
    """A completion as JSON; ASCII, with what cannot be encoded as an escape."""
    return json.dumps({"choices": [{"message": message, "finish_reason": "stop"}], **more})


async def _ask(url: str, key: str, *, on_text: Callable[[str], None] | None = None) -> Reply:
    model = Model(Endpoint(url=url, key=key))
    try:
        return await model.ask(ASK, on_text=on_text)
    finally:
        await model.close()


def asked(url: str, *, key: str = "") -> Reply:
    return asyncio.run(_ask(url, key))


def failed(url: str, *, key: str = "") -> ModelError:
    with pytest.raises(ModelError) as caught:
        asked(url, key=key)
    return caught.value


def investigated(answer: str) -> Outcome:
    with serving(answer) as url:
        return over_http(Endpoint(url=url, context_tokens=16_384))


@pytest.mark.parametrize("models", ['{"data": [', "null", '["a", "b"]', '"m"', "[" * 5000, '{"data": null}'])
def test_a_list_of_models_that_is_none_is_said_to_be_none(models: str) -> None:
    with serving("{}", models=models) as url:
        assert failed(url).kind == "not_an_api"
        (check,) = asyncio.run(probe(Endpoint(url=url)))
    assert not check.ok and "does not list its models" in check.found


@pytest.mark.parametrize("status", [200, 429, 500])
@pytest.mark.parametrize("is_packed", [False, True])
def test_an_answer_in_one_piece_that_does_not_end_is_given_up(
    status: int, is_packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MAX_BYTES", 10_000)
    body = told({"content": "x" * 20_000})
    headers = {"Content-Encoding": "gzip"} if is_packed else {}
    raw = gzip.compress(body.encode()).decode("latin-1") if is_packed else body
    with serving(raw, status=status, headers=headers) as url:
        error = failed(url)
    assert error.kind == "not_an_api" and "answer is longer than" in str(error)
    with serving(told({"content": "x" * 9_000})) as url:
        assert len(asked(url).content) == 9_000


def test_a_list_or_a_line_of_a_stream_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "MAX_BYTES", 10_000)
    monkeypatch.setattr(bounded, "MAX_STREAM_BYTES", 10_000)
    with serving("{}", models=json.dumps({"data": [{"id": "m" * 20_000}]})) as url:
        assert "answer is longer than" in str(failed(url))
    endless = serving("data: " + "x" * 20_000, headers={"Content-Type": "text/event-stream"})
    with endless as url, pytest.raises(ModelError, match="answer is longer than"):
        asyncio.run(_ask(url, "", on_text=lambda _: None))


def test_halves_of_characters_do_not_come_in() -> None:
    call = {"id": "a\ud800", "function": {"name": "stacks\ud800", "arguments": '{"run": "x\\ud800"}'}}
    with serving(told({"content": "rank \ud800 3", "reasoning": "\udfff", "tool_calls": [call]})) as url:
        reply = asked(url)
    (read,) = reply.calls
    assert (reply.content, read.id, read.name, read.arguments) == ("rank ? 3", "a?", "stacks?", {"run": "x?"})
    assert reply.reasoning == "?"


def test_a_tool_named_with_what_cannot_be_kept_is_no_tool_and_the_triage_stands() -> None:
    call = {"id": "a", "function": {"name": "stacks\ud800\u0000", "arguments": "{}"}}
    outcome = investigated(told({"content": "", "tool_calls": [call]}))
    case, _ = case_for()
    assert outcome.diagnosis == case.diagnosis and outcome.failure
    _, context = case_for()
    kept = registry().call("stacks\ud800\u0000", {}, context)
    assert kept.status == "error" and kept.tool.encode() and "\u0000" not in kept.tool


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": -1_000_000, "completion_tokens": 5},
        {"prompt_tokens": 7, "completion_tokens": True},
        {"prompt_tokens": 10**30, "completion_tokens": 5},
        {"prompt_tokens": 12.5, "completion_tokens": "7"},
    ],
)
def test_counts_of_tokens_that_cannot_be_are_counted_by_us(usage: dict[str, Any]) -> None:
    reply = read_completion(json.loads(told({"content": "ok"}, usage=usage)), ASK)
    assert reply.usage.is_estimated and 0 < reply.usage.prompt_tokens < 100


def test_counts_of_tokens_that_can_be_are_taken() -> None:
    usage = {"prompt_tokens": MAX_TOKENS, "completion_tokens": 0}
    reply = read_completion(json.loads(told({"content": "ok"}, usage=usage)), ASK)
    assert reply.usage == Usage(prompt_tokens=MAX_TOKENS, completion_tokens=0)


@pytest.mark.parametrize("status", [200, 400, 429, 500])
@pytest.mark.parametrize("before", ["", "x" * 150, "y" * 190])
def test_a_key_that_the_endpoint_repeats_is_not_told(status: int, before: str) -> None:
    body = json.dumps({"error": {"message": f"{before} not known here: {KEY}; use {KEY}"}})
    with serving(body, status=status, headers={"Retry-After": "60"}) as url:
        sentence = str(failed(url, key=KEY))
    assert KEY[:6] not in sentence, sentence


def test_a_key_in_an_answer_is_not_kept() -> None:
    call = {
        "id": KEY,
        "function": {"name": "stacks", "arguments": json.dumps({"run": f"a {KEY}", KEY: [KEY]})},
    }
    escaped = {"id": "b", "function": {"name": KEY, "arguments": f'{{"run": "\\u0071{KEY[1:]}"}}'}}
    message = {"content": f"Your key {KEY}.", "reasoning": KEY, "tool_calls": [call, escaped]}
    with serving(told(message), models=json.dumps({"data": [{"id": f"m-{KEY}"}]})) as url:
        assert KEY not in repr(asked(url, key=KEY))


def test_a_placeholder_for_a_key_changes_no_answer() -> None:
    with serving(told({"content": "The ollama host is slow."})) as url:
        assert asked(url, key="ollama").content == "The ollama host is slow."


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("key=abcdefgh12345", "***"),
        ("api_key 'SECRETKEYX4'", "api_***'"),
        ("{'token': 'abcdefghij'}", "{'***'}"),
        ("secret = abcdefghij", "***"),
        ("token abc123def refused", "*** refused"),
        ("too many tokens: at most 131072 tokens", "too many tokens: at most 131072 tokens"),
        ("token exceeded", "token exceeded"),
    ],
)
def test_what_looks_like_a_secret_is_masked_and_words_are_not(text: str, shown: str) -> None:
    assert failures.tidy(text) == shown


def test_megabytes_of_an_error_are_read_at_once() -> None:
    """Without a bound each of them takes minutes."""
    for part in ("<", "token=", "key "):
        assert len(failures.tidy(part * 3_000_000)) <= failures.MAX_READ


def test_a_parameter_that_is_refused_as_a_key_is_still_left_out() -> None:
    body = json.dumps({"error": {"message": "unknown key 'temperature'"}})
    with serving(body, status=400) as url:

        async def refused() -> frozenset[str]:
            model = Model(Endpoint(url=url, model="m", profile_name="vllm"))
            with pytest.raises(ModelError):
                await model.ask(ASK)
            await model.close()
            return model.dialect.refused

        assert "temperature" in asyncio.run(refused())


@pytest.mark.parametrize("choices", ["[]", "null", "[null]"])
def test_an_answer_without_an_answer_does_not_blame_the_url(choices: str) -> None:
    with serving(f'{{"id": "x", "choices": {choices}}}') as url:
        error = failed(url)
    assert error.kind == "malformed" and "gave nothing" in str(error)


def test_a_refusal_is_told_as_one_and_not_as_silence() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "I cannot help with that."}
    with serving(told(refused)) as url:
        assert failed(url).kind == "refused"
    with serving(told({**refused, "content": "It is rank 3."})) as url:
        assert asked(url).content == "It is rank 3."
    stream = Accumulator()
    stream.add({"choices": [{"delta": {"refusal": "I cannot"}, "finish_reason": "stop"}]})
    with pytest.raises(ModelError, match="refuses"):
        stream.reply(ASK)


def test_a_sentence_ends_once() -> None:
    for text in ("Is there a proxy?", "at most 4096 tokens.", "and so on …", 'it says "no."'):
        assert ended(text) == text
    assert ended("the endpoint fails (500)") == "the endpoint fails (500)."
    body = json.dumps({"error": {"message": "at most 4096 requests."}})
    with serving(body, status=400) as url:
        outcome = over_http(Endpoint(url=url, context_tokens=16_384))
    assert outcome.note.endswith("requests.") and not outcome.note.endswith("..")


@pytest.mark.parametrize("wait", ["nan", "inf", "-1", "1e999", "soon"])
def test_a_wait_that_is_none_is_the_usual_one(wait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("argus.agent.model.client.asyncio.sleep", sleep)
    with serving('{"error": {"message": "slow"}}', status=429, headers={"Retry-After": wait}) as url:
        assert failed(url).kind == "rate_limit"
    assert RETRY_AFTER_S in waited and all(seconds <= RETRY_AFTER_S for seconds in waited)


@pytest.mark.parametrize("arguments", ["{'ranks': {3, 5}}", "{'a': {1: 2, 'b': 3}}", '{"rank": 1e999}'])
def test_arguments_in_words_of_python_come_as_json_and_go_back_as_json(arguments: str) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "stacks", "arguments": arguments}}
    outcome = investigated(told({"content": "", "tool_calls": [call]}))
    assert outcome.failure in ("budget", "prose") and outcome.spent.turns > 1
    reply = read_completion(json.loads(told({"tool_calls": [call]})), ASK)
    sent = request_of(
        Ask(messages=(Message(role="assistant", calls=reply.calls),)),
        Dialect(profile=Profile(name="x")),
        model="m",
        is_streamed=False,
    )
    (again,) = sent["messages"][0]["tool_calls"]
    assert json.loads(again["function"]["arguments"], parse_constant=pytest.fail)


@pytest.mark.parametrize("arguments", ["{'x': b'ab'}", "{'x': 1j}", "{'x': ...}"])
def test_arguments_that_json_does_not_have_are_told_to_be_none(arguments: str) -> None:
    assert "not a JSON object" in read_arguments(arguments)[1]
