"""Investigations over HTTP: once per key, step by step with resume, asked further, cancelled, called back, over restarts."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from argus.agent.model.message import Ask, Reply
from argus.agent.stub_llm.scripts import SCRIPTS
from argus.agent.stub_llm.server import StubServer
from argus.analytics.store import investigations, queries
from argus.analytics.store.investigations import INTERRUPTED, SENT, WAITING
from argus.api.investigating.asked import LEASE_S, Asked, enter
from argus.api.investigating.callbacks import MAX_TRIES, Callbacks
from argus.api.notify.post import Answer
from tests.api.desk.kit import FakeHttp, an_incident, announce, save
from tests.api.desk.served import Lived, lived
from tests.api.process import wait_for

pytestmark = pytest.mark.slow

CALLBACK: dict[str, Any] = {"callback_secret": "s3cret", "callback_hosts": "ci.example"}


@pytest.fixture(scope="module")
def model() -> Iterator[StubServer]:
    with StubServer(SCRIPTS["confirm"]) as server:
        yield server


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory, model: StubServer) -> Iterator[Lived]:
    folder = tmp_path_factory.mktemp("investigations")
    with lived(folder, model_url=model.url, model="m", **CALLBACK) as one:
        yield one


def ended(at: Lived, investigation: str) -> dict[str, Any]:
    """The investigation once it has ended."""
    last: dict[str, Any] = {}

    def is_over() -> bool:
        last.update(at.client.get(f"/v1/investigations/{investigation}").json())
        return last["status"] not in ("queued", "running")

    wait_for(is_over)
    return last


def events(at: Lived, investigation: str, **ask: Any) -> list[tuple[int, str, Any]]:
    """(number, name, data) of the stream, read to its end."""
    text = at.client.get(f"/v1/investigations/{investigation}/events", **ask).text
    found = []
    for block in text.strip().split("\n\n"):
        fields = dict(line.partition(": ")[::2] for line in block.splitlines())
        if "data" in fields:
            found.append((int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


def test_it_is_accepted_at_once_and_ends_with_an_outcome(at: Lived) -> None:
    answer = at.client.post("/v1/investigations", json={"question": "Why?"})
    begun = answer.json()
    assert answer.status_code == 202 and answer.headers["location"].endswith(begun["id"])
    assert begun["triage"]["root_causes"][0]["node"] == "rank:2" and begun["incident"] == at.incident
    done = ended(at, begun["id"])
    assert (done["status"], done["outcome"]["stage"], done["outcome"]["agent"]["stance"]) == (
        "done",
        "agent",
        "agrees",
    )
    listed = at.client.get("/v1/investigations", params={"incident": at.incident}).json()
    assert begun["id"] in [one["id"] for one in listed["items"]]


def test_its_steps_come_in_order_and_from_any_point(at: Lived) -> None:
    begun = at.client.post("/v1/investigations", json={}).json()
    whole = events(at, begun["id"])
    names = [name for _, name, _ in whole]
    assert names[:2] == ["started", "triage"] and names[-1] == "outcome" and "step" in names
    assert [number for number, _, _ in whole] == list(range(1, len(whole) + 1))
    assert {"what", "text", "details"} == set(next(data for _, name, data in whole if name == "step"))
    later = events(at, begun["id"], headers={"Last-Event-ID": "2"})
    assert later == whole[2:] and events(at, begun["id"], params={"after": len(whole)}) == []
    assert events(at, begun["id"], headers={"Last-Event-ID": "999999"}) == whole  # of another database


def test_the_same_key_asks_once(at: Lived) -> None:
    keyed = {"Idempotency-Key": "k-1"}
    first = at.client.post("/v1/investigations", json={"question": "q"}, headers=keyed).json()
    again = at.client.post("/v1/investigations", json={"question": "q"}, headers=keyed).json()
    assert again["id"] == first["id"] and (first["is_new"], again["is_new"]) == (True, False)
    other = at.client.post("/v1/investigations", json={"question": "another"}, headers=keyed)
    assert other.status_code == 409 and "another request" in other.json()["detail"]


def test_one_may_ask_further(at: Lived, model: StubServer) -> None:
    begun = at.client.post("/v1/investigations", json={}).json()
    ended(at, begun["id"])
    path = f"/v1/investigations/{begun['id']}/messages"
    assert at.client.post(path, json={"text": "And which host?"}).status_code == 202
    done = ended(at, begun["id"])
    assert done["status"] == "done" and done["outcome"]["stage"] == "agent"
    told = events(at, begun["id"])
    assert [name for _, name, _ in told].count("asked") == 1 and told[-1][1] == "answer"
    assert told[-1][2]["text"]
    at.client.post(path, json={"text": "Are you sure?"})
    ended(at, begun["id"])
    sent = [message["content"] for message in model.requests[-1]["messages"]]
    assert any(text == "And which host?" for text in sent)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"run": "jub"}, 404, "no run 'jub'"),
        ({"incident": "i-0"}, 404, "no incident"),
        ({"more": 1}, 422, "Extra inputs"),
        ({"callback_url": "http://evil.example/"}, 422, "callback_hosts"),
        ({"callback_url": "file:///etc/passwd"}, 422, "http"),
        ({"callback_url": "http://user:pw@ci.example/"}, 422, "password"),
    ],
)
def test_what_cannot_be_asked_is_said(at: Lived, body: dict[str, Any], status: int, said: str) -> None:
    answer = at.client.post("/v1/investigations", json=body)
    assert answer.status_code == status and said in answer.json()["detail"]


def to_call_twice(at: Lived) -> tuple[Callbacks, FakeHttp, str]:
    """The calls of a finished investigation whose asker fails at first, and its id."""
    begun = at.client.post("/v1/investigations", json={"callback_url": "https://ci.example/x"}).json()["id"]
    ended(at, begun)
    http = FakeHttp(answers=[Answer(status=500), Answer(status=200)])
    return (
        Callbacks(store=at.service.store, http=http, settings=at.service.settings, clock=at.clock),
        http,
        begun,
    )


def test_who_asked_is_called_back_signed_and_a_few_times(at: Lived) -> None:
    calls, http, begun = to_call_twice(at)
    now_s = at.clock.now_s
    assert calls.turn(now_s) == 0 and kept(at, begun).callback == WAITING
    assert calls.turn(now_s + 1) == 0 and len(http.sent) == 1
    assert calls.turn(now_s + 10) == 1 and kept(at, begun).callback == SENT
    url, body, headers = http.sent[-1]
    assert url == "https://ci.example/x" and body["investigation"]["outcome"]["verdict"]
    assert headers["webhook-id"] == begun and headers["webhook-signature"].startswith("v1,")
    assert calls.turn(now_s + 1000) == 0


def test_a_call_is_tried_again_though_the_clock_was_put_back(at: Lived) -> None:
    calls, _, begun = to_call_twice(at)
    now_s = at.clock.now_s
    assert [calls.turn(now_s), calls.turn(now_s - 3600)] == [0, 1]
    assert kept(at, begun).callback == SENT


def test_a_receiver_that_takes_its_time_is_called_by_one_service(at: Lived) -> None:
    begun = at.client.post("/v1/investigations", json={"callback_url": "https://ci.example/x"}).json()
    ended(at, begun["id"])
    now_s, other = at.clock.now_s, FakeHttp()
    means: dict[str, Any] = {"store": at.service.store, "settings": at.service.settings, "clock": at.clock}

    class Slow(FakeHttp):
        def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
            Callbacks(http=other, **means).turn(now_s + 9)
            return super().post(url, body, headers=headers)

    assert Callbacks(http=Slow(), **means).turn(now_s) == 1
    assert other.sent == [] and kept(at, begun["id"]).callback == SENT


def test_the_second_call_of_a_turn_is_held_on_to_for_as_long_as_the_first(at: Lived) -> None:
    for place in "xy":
        body = {"callback_url": f"https://ci.example/{place}", "question": place}
        ended(at, at.client.post("/v1/investigations", json=body).json()["id"])
    other = FakeHttp()
    means: dict[str, Any] = {"store": at.service.store, "settings": at.service.settings, "clock": at.clock}

    class Slow(FakeHttp):
        def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
            at.clock.now_s += 40.0
            if self.sent:  # the second, for as long as which another service looks, too
                Callbacks(http=other, **means).turn(at.clock.now_s)
            return super().post(url, body, headers=headers)

    assert Callbacks(http=Slow(), **means).turn(at.clock.now_s) == 2
    assert other.sent == []


def test_a_receiver_that_never_answers_is_given_up(at: Lived) -> None:
    begun = at.client.post("/v1/investigations", json={"callback_url": "https://ci.example/x"}).json()
    ended(at, begun["id"])
    http = FakeHttp(answers=[Answer(status=503)] * 50)
    calls = Callbacks(store=at.service.store, http=http, settings=at.service.settings, clock=at.clock)
    now_s = at.clock.now_s
    for _ in range(20):
        now_s += 1000
        calls.turn(now_s)
    assert len(http.sent) == MAX_TRIES and kept(at, begun["id"]).callback == "failed"


def test_what_runs_is_held_on_to_while_a_receiver_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called, answering = threading.Event(), threading.Event()

    class Slow(FakeHttp):
        def post(self, url: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
            called.set()
            answering.wait(30)
            return super().post(url, body, headers=headers)

    with lived(tmp_path, **CALLBACK) as at:
        begun = at.client.post("/v1/investigations", json={"callback_url": "https://ci.example/x"}).json()
        ended(at, begun["id"])
        renewed = threading.Event()
        desk = replace(at.desk, callbacks=replace(at.desk.callbacks, http=Slow()))
        monkeypatch.setattr(desk.runner, "renew", lambda now_s: renewed.set() if called.is_set() else None)
        desk.start()
        assert called.wait(30)
        at.clock.now_s += 60
        assert renewed.wait(30)
        answering.set()
        desk.stop()


def kept(at: Lived, investigation: str) -> investigations.Investigation:
    with at.service.store.read() as connection:
        found = investigations.investigation(connection, investigation)
    assert found is not None
    return found


def test_one_that_runs_can_be_cancelled(tmp_path: Path) -> None:
    holding, asked = threading.Event(), threading.Event()

    def slow(ask: Ask) -> Reply:
        asked.set()
        holding.wait(30)
        return SCRIPTS["confirm"](ask)

    with StubServer(slow) as model, lived(tmp_path, model_url=model.url, model="m") as at:
        begun = at.client.post("/v1/investigations", json={}).json()
        assert asked.wait(30)
        early = at.client.post(f"/v1/investigations/{begun['id']}/messages", json={"text": "?"})
        assert early.status_code == 409
        assert at.client.post(f"/v1/investigations/{begun['id']}/cancel").json()["is_cancelled"]
        assert ended(at, begun["id"])["status"] == "cancelled"
        assert events(at, begun["id"])[-1][1] == "cancelled"
        assert not at.client.post(f"/v1/investigations/{begun['id']}/cancel").json()["is_cancelled"]
        holding.set()


def test_what_runs_when_the_service_ends_is_interrupted(tmp_path: Path) -> None:
    holding, asked = threading.Event(), threading.Event()

    def slow(ask: Ask) -> Reply:
        asked.set()
        holding.wait(30)
        return SCRIPTS["confirm"](ask)

    settings: dict[str, Any] = {"model": "m", "investigations_at_once": 1}
    with StubServer(slow) as model, lived(tmp_path, model_url=model.url, **settings) as at:
        first = at.client.post("/v1/investigations", json={}).json()
        assert asked.wait(30)
        waiting = at.client.post("/v1/investigations", json={"question": "second"}).json()
        assert at.client.get(f"/v1/investigations/{waiting['id']}").json()["status"] == "queued"
        at.desk.runner.stop()
        for one in (first, waiting):
            assert at.client.get(f"/v1/investigations/{one['id']}").json()["status"] == "interrupted"
        holding.set()


def test_what_a_killed_service_left_is_marked_by_the_next(at: Lived) -> None:
    asked = Asked(run="job", incident=None)
    left, _ = enter(at.service.store, asked, owner="dead", now_s=at.clock.now_s)
    at.desk.runner.renew(at.clock.now_s)
    assert kept(at, left.id).status == "queued"
    at.desk.runner.renew(at.clock.now_s + LEASE_S + 1)
    assert kept(at, left.id).status == INTERRUPTED
    assert events(at, left.id)[-1][1] == "interrupted"


def test_a_new_incident_is_looked_into_by_itself_once(tmp_path: Path, model: StubServer) -> None:
    with lived(tmp_path, model_url=model.url, model="m", investigate_from="warning") as at:
        at.reopen()
        for _ in range(3):
            at.desk.tend(at.clock.now_s)
        (one,) = at.client.get("/v1/investigations").json()["items"]
        assert one["asked_by"] == "argus" and ended(at, one["id"])["status"] == "done"


def test_a_model_that_may_not_know_hosts_hears_of_none_of_other_runs_either(
    tmp_path: Path, model: StubServer
) -> None:
    with lived(tmp_path, model_url=model.url, model="m", model_hide_hosts=1) as at:
        announce(at.service, "other")
        with at.service.store.read() as connection:
            attempt = queries.attempt_of(connection, "other", attempt=None)
        assert attempt is not None
        past = an_incident(run="other", status="resolved", fault_class="compute.slow")
        save(at.service.store, past, now_s=at.clock.now_s, attempt_id=attempt.id)
        begun = at.client.post("/v1/investigations", json={}).json()
        assert ended(at, begun["id"])["outcome"]["stage"] == "agent"
        hosts = at.desk.toolbox.facts.hosts()
        assert "h-1" in hosts
        told = "\n".join(message["content"] or "" for message in model.requests[-1]["messages"])
        assert past.id in told, "it was told of the past incident"
        assert [host for host in hosts if re.search(rf"(?<![\w.-]){host}(?![\w-])", told)] == []


def test_without_a_model_the_triage_is_the_outcome(tmp_path: Path) -> None:
    with lived(tmp_path) as at:
        begun = at.client.post("/v1/investigations", json={}).json()
        done = ended(at, begun["id"])
        assert done["outcome"]["stage"] == "triage" and "No model" in done["outcome"]["agent"]["note"]
        at.desk.tend(at.clock.now_s)
        assert at.client.get("/v1/investigations").json()["total"] == 1
