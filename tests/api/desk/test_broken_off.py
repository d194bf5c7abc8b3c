"""An error that nobody foresaw: every door still gives the triage and one sentence, and counts it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argus.agent.stub_llm.scripts import SCRIPTS
from argus.agent.stub_llm.server import StubServer
from argus.api.memory import Memory
from argus.api.slack.double import SlackDouble
from tests.api.desk.served import Lived, lived
from tests.api.desk.test_ears import post, pressed, root, said, setup
from tests.api.desk.test_investigations import ended

pytest.importorskip("slack_sdk", reason="needs the extra slack")
pytestmark = pytest.mark.slow

LEFT = "Without the model: the agent broke off (KeyError)"


def breaks(*_: Any, **__: Any) -> Any:
    raise KeyError("nobody foresaw this: s3cret-in-the-log-only")


@pytest.fixture(scope="module")
def double() -> Iterator[SlackDouble]:
    with SlackDouble(rate_per_s=0) as double:
        yield double


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory, double: SlackDouble) -> Iterator[Lived]:
    with StubServer(SCRIPTS["confirm"]) as model:
        settings: dict[str, Any] = {"model_url": model.url, "model": "m", "investigate_from": "off"}
        folder: Path = tmp_path_factory.mktemp("broken")
        with lived(folder, notify=setup(double), **settings) as one:
            one.reopen()
            one.desk.dispatcher.turn(one.clock.now_s)
            yield one


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argus.api.agent.chat_turn", breaks)
    monkeypatch.setattr("argus.api.agent.investigate", breaks)


@pytest.mark.usefixtures("broken")
def test_a_chat_has_the_triage_and_the_sentence(at: Lived, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, logger="argus.agent"):
        answer = at.client.post("/v1/chat", json={"question": "Which rank?"})
    body = answer.json()
    assert answer.status_code == 200 and body["answer"]["note"].startswith(LEFT)
    assert body["answer"]["failure"] == "error" and body["diagnosis"]["root_causes"][0]["node"] == "rank:2"
    assert "s3cret" not in answer.text and "s3cret" in caplog.text
    assert 'argus_agent_failures_total{kind="error"' in at.client.get("/metrics").text


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("stream", [True, False])
def test_a_completion_has_the_triage_and_the_sentence(at: Lived, stream: bool) -> None:
    question = {"model": "argus", "messages": [{"role": "user", "content": "Which rank?"}], "stream": stream}
    answer = at.client.post("/v1/chat/completions", json=question)
    assert answer.status_code == 200 and LEFT in answer.text and "rank 2" in answer.text


@pytest.mark.usefixtures("broken")
def test_an_investigation_ends_with_the_triage_and_the_sentence(at: Lived) -> None:
    begun = at.client.post("/v1/investigations", json={"question": "Why?"}).json()
    done = ended(at, begun["id"])
    outcome = done["outcome"]
    assert done["status"] == "done" and outcome["root_causes"] == begun["triage"]["root_causes"]
    assert outcome["agent"]["note"].startswith(LEFT) and outcome["agent"]["failure"] == "error"


def test_a_step_that_cannot_be_kept_costs_no_outcome(at: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    from argus.analytics.store import investigations

    add = investigations.add_event

    def adds(connection: Any, investigation_id: str, *, what: str, **more: Any) -> Any:
        return breaks() if what == "step" else add(connection, investigation_id, what=what, **more)

    monkeypatch.setattr(investigations, "add_event", adds)
    begun = at.client.post("/v1/investigations", json={"question": "Why?"}).json()
    assert ended(at, begun["id"])["outcome"]["agent"]["stance"] == "agrees"


def test_an_answer_that_cannot_be_kept_is_given(at: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Memory, "_keep", breaks)
    body = at.client.post("/v1/chat", json={"question": "Which rank?"}).json()
    assert body["answer"]["text"] and body["conversation"] is None
    assert "not kept in the conversation (KeyError)" in body["answer"]["note"]


@pytest.mark.usefixtures("broken")
def test_a_question_in_slack_has_the_triage_and_the_sentence(at: Lived, double: SlackDouble) -> None:
    assert post(at, said(double, "why?", ts="20.1")) == 200
    shown = str(double.messages[-1])
    assert double.messages[-1]["thread_ts"] == root(double)["ts"]
    assert LEFT in shown and "rank 2" in shown and "s3cret" not in shown


def test_a_question_that_breaks_anywhere_is_answered_in_slack(
    at: Lived, double: SlackDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("argus.api.asking.Asking.turn", breaks)
    assert post(at, said(double, "why?", ts="21.1")) == 200
    shown = str(double.messages[-1])
    assert LEFT in shown and "rank 2" in shown
    monkeypatch.setattr("argus.api.slack.ears.why_lines", breaks)
    num = len(double.messages)
    assert post(at, said(double, "why?", ts="21.2")) == 200
    assert len(double.messages) == num + 1 and LEFT in str(double.messages[-1])


def test_a_button_that_breaks_is_told_to_who_pressed_it(
    at: Lived, double: SlackDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("argus.api.slack.ears.why_lines", breaks)
    assert post(at, pressed(double, "argus_details", value=at.incident, at="22.0"), is_form=True) == 200
    assert "That did not work (KeyError)" in str(double.rooms.whispers[-1])
