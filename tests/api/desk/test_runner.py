"""The runner: a further question costs no outcome, and every end is kept however early it comes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from argus.agent.model.message import Ask, Reply
from argus.agent.stub_llm.scripts import SCRIPTS
from argus.agent.stub_llm.server import StubServer
from argus.analytics.store import investigations
from argus.analytics.store.investigations import CANCELLED, INTERRUPTED, RUNNING
from tests.api.desk.served import Lived, lived
from tests.api.desk.test_investigations import ended, events, kept

pytestmark = pytest.mark.slow


@contextmanager
def slow_model(folder: Path, *, at_once: int = 1) -> Iterator[tuple[Lived, threading.Event, threading.Event]]:
    """A service; its model answers while the first event is set, the second says that it was asked meanwhile."""
    gate, is_held = threading.Event(), threading.Event()

    def slow(ask: Ask) -> Reply:
        if not gate.is_set():
            is_held.set()
        gate.wait(30)
        return SCRIPTS["confirm"](ask)

    settings: dict[str, Any] = {"model": "m", "investigations_at_once": at_once}
    with StubServer(slow) as model, lived(folder, model_url=model.url, **settings) as at:
        try:
            yield at, gate, is_held
        finally:
            gate.set()


def test_a_question_that_was_left_behind_costs_no_outcome(tmp_path: Path) -> None:
    with lived(tmp_path) as at:
        begun = at.client.post("/v1/investigations", json={}).json()
        outcome = ended(at, begun["id"])["outcome"]
        with at.service.store.write() as connection:  # as a service that was killed leaves it
            investigations.take_up(
                connection, begun["id"], owner="dead", lease_s=at.clock.now_s + 5, now_s=at.clock.now_s
            )
        at.desk.runner.renew(at.clock.now_s + 6)
        after = ended(at, begun["id"])
        assert after["status"] == "done" and after["outcome"] == outcome
        _, name, body = events(at, begun["id"])[-1]
        assert name == "answer" and body["failure"] == INTERRUPTED and body["note"]


@pytest.mark.parametrize("failure", [CANCELLED, INTERRUPTED])
def test_a_question_that_waits_in_vain_costs_no_outcome(tmp_path: Path, failure: str) -> None:
    with slow_model(tmp_path) as (at, answering, _):
        answering.set()
        begun = at.client.post("/v1/investigations", json={}).json()
        outcome = ended(at, begun["id"])["outcome"]
        loop, gate = at.desk.runner._running_loop(), threading.Event()
        loop.call_soon_threadsafe(gate.wait, 30)
        at.client.post("/v1/investigations", json={"question": "first in the queue"})
        asked = at.client.post(f"/v1/investigations/{begun['id']}/messages", json={"text": "Sure?"})
        assert asked.json()["status"] == RUNNING
        if failure == CANCELLED:
            at.client.post(f"/v1/investigations/{begun['id']}/cancel")
        else:
            threading.Timer(0.1, gate.set).start()
            at.desk.runner.stop()
        gate.set()
        after = ended(at, begun["id"])
        assert after["status"] == "done" and after["outcome"] == outcome
        assert events(at, begun["id"])[-1][2]["failure"] == failure


def test_what_is_cancelled_before_its_first_line_is_cancelled(tmp_path: Path) -> None:
    with slow_model(tmp_path) as (at, *_):
        gate = threading.Event()
        at.desk.runner._running_loop().call_soon_threadsafe(gate.wait, 30)
        begun = at.client.post("/v1/investigations", json={}).json()
        assert at.client.post(f"/v1/investigations/{begun['id']}/cancel").json()["is_cancelled"]
        gate.set()
        assert ended(at, begun["id"])["status"] == CANCELLED
        assert events(at, begun["id"])[-1][1] == "cancelled"


def test_what_is_asked_at_the_very_end_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slow_model(tmp_path, at_once=2) as (at, answering, is_held):
        runner, end = at.desk.runner, at.desk.runner._end
        asked = threading.Event()

        def end_and_be_asked(investigation_id: str, *args: Any, **more: Any) -> None:
            end(investigation_id, *args, **more)
            if not asked.is_set():
                asked.set()
                answering.clear()
                runner.follow_up(kept(at, investigation_id), "And which host?", by="x")

        monkeypatch.setattr(runner, "_end", end_and_be_asked)
        answering.set()
        begun = at.client.post("/v1/investigations", json={}).json()
        assert is_held.wait(30)
        assert at.client.post(f"/v1/investigations/{begun['id']}/cancel").json()["is_cancelled"]
        assert ended(at, begun["id"])["status"] == "done"
        assert events(at, begun["id"])[-1][2]["failure"] == CANCELLED
