"""Chat over HTTP, in its own form and in OpenAI's, with the real openai client."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Iterator

import openai
import pytest

from argus.agent.model.client import Model
from argus.agent.model.endpoint import Endpoint
from argus.agent.stub_llm.scripts import SCRIPTS
from argus.agent.stub_llm.server import StubServer
from argus.api.http.app import healthz
from argus.api.http.asking import MAX_ASKED
from tests.api.desk.served import Lived, lived
from tests.api.served import listening_on

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model() -> Iterator[StubServer]:
    with StubServer(SCRIPTS["confirm"]) as server:
        yield server


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory, model: StubServer) -> Iterator[Lived]:
    with lived(tmp_path_factory.mktemp("chat"), model_url=model.url, model="m") as one:
        yield one


@pytest.fixture(scope="module")
def client(at: Lived) -> Iterator[openai.OpenAI]:
    with listening_on(at.app) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="none") as client:
        yield client


def test_a_question_is_answered_and_the_conversation_kept(at: Lived) -> None:
    first = at.client.post("/v1/chat", json={"question": "Which rank?"}).json()
    assert first["answer"]["text"] and first["diagnosis"]["root_causes"][0]["node"] == "rank:2"
    again = {"question": "And why?", "conversation": first["conversation"]}
    assert at.client.post("/v1/chat", json=again).json()["conversation"] == first["conversation"]
    told = at.client.get(f"/v1/conversations/{first['conversation']}").json()
    assert [one["role"] for one in told["entries"]] == ["user", "assistant"] * 2


def test_a_stream_has_the_steps_first(at: Lived) -> None:
    answer = at.client.post("/v1/chat", json={"question": "Which rank?", "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    blocks = [block.splitlines() for block in answer.text.strip().split("\n\n") if "data: " in block]
    names = [lines[0].removeprefix("event: ") for lines in blocks]
    assert (names[0], names[-1]) == ("triage", "answer") and set(names[1:-1]) == {"step"}
    assert '"rank:2"' in blocks[0][1]
    body = json.loads(blocks[-1][1].removeprefix("data: "))
    assert body["answer"]["text"] and body["conversation"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("wrong", [{"run": "jub"}, {"incident": "i-0"}, {"conversation": "nobody"}])
def test_what_is_not_there_is_404_before_a_stream_begins(
    at: Lived, stream: bool, wrong: dict[str, str]
) -> None:
    answer = at.client.post("/v1/chat", json={"question": "?", "stream": stream, **wrong})
    assert answer.status_code == 404 and answer.json()["detail"].startswith("no ")


def test_the_openai_client_lists_runs_as_models(client: openai.OpenAI) -> None:
    assert [one.id for one in client.models.list()] == ["argus", "argus/job"]


@pytest.mark.parametrize("name", ["argus", "argus/job"])
def test_the_openai_client_gets_an_answer(client: openai.OpenAI, name: str) -> None:
    answer = client.chat.completions.create(
        model=name, messages=[{"role": "user", "content": "Which rank is slow?"}]
    )
    choice = answer.choices[0]
    assert choice.message.role == "assistant" and choice.message.content and choice.finish_reason == "stop"
    assert (
        choice.message.content.startswith("Triage, ") and "rank 2" in choice.message.content.splitlines()[0]
    )
    assert answer.usage is not None and answer.usage.total_tokens > answer.usage.prompt_tokens > 0


def test_the_openai_client_gets_a_stream_and_its_history_counts(
    client: openai.OpenAI, model: StubServer, at: Lived
) -> None:
    stream = client.chat.completions.create(
        model="argus",
        messages=[
            {"role": "system", "content": "You are a pirate."},
            {"role": "user", "content": "Which rank is slow?"},
            {"role": "assistant", "content": "Rank 2."},
            {"role": "user", "content": [{"type": "text", "text": f"Why, in {at.incident}?"}]},
        ],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(one.choices[0].delta.content or "" for one in chunks if one.choices)
    assert text.startswith("Triage, ") and text.count("Triage, ") == 1 and "[ev-" in text
    assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-1].usage is not None
    sent = [str(message["content"]) for message in model.requests[-1]["messages"]]
    assert "Rank 2." in sent and not any("pirate" in one for one in sent)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "gpt-5", "messages": [{"role": "user", "content": "x"}]}, 404),
        ({"model": "argus/jub", "messages": [{"role": "user", "content": "x"}]}, 404),
        ({"messages": []}, 400),
        ({"messages": [{"role": "assistant", "content": "x"}]}, 400),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, 400),
        ({"messages": "x"}, 400),
        ([], 400),
    ],
)
def test_errors_have_openais_form(at: Lived, body: object, status: int) -> None:
    answer = at.client.post("/v1/chat/completions", json=body)
    assert answer.status_code == status and answer.json()["error"]["message"]


def test_without_a_model_the_triage_answers(tmp_path_factory: pytest.TempPathFactory) -> None:
    with lived(tmp_path_factory.mktemp("nomodel")) as at:
        body = {"model": "argus", "messages": [{"role": "user", "content": "Which rank?"}]}
        text = at.client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
        assert "rank 2" in text and "No model" in text
        said = at.client.post("/v1/chat", json={"question": "Which rank?"}).json()
        assert said["answer"]["failure"] == "no_model" and said["diagnosis"]["headline"]


def test_only_so_many_questions_are_answered_at_once(at: Lived) -> None:
    at.desk.num_asked = MAX_ASKED
    try:
        for path, body in (
            ("/v1/chat", {"question": "?"}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
        ):
            answer = at.client.post(path, json=body)
            assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
    finally:
        at.desk.num_asked = 0
    for stream in (True, False):
        assert at.client.post("/v1/chat", json={"question": "?", "stream": stream}).status_code == 200
    assert at.desk.num_asked == 0


def test_neither_making_a_models_client_nor_a_crowd_holds_up_the_event_loop(
    at: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Endpoint] = []
    init = Model.__init__

    def noted(model: Model, endpoint: Endpoint) -> None:
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        made.append(endpoint)
        init(model, endpoint)

    monkeypatch.setattr(Model, "__init__", noted)
    assert at.client.post("/v1/chat", json={"question": "Which rank?"}).json()["answer"]["text"]
    assert len(made) == 1 and inspect.iscoroutinefunction(healthz)
