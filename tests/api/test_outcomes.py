"""Outcomes of incidents: what later attempts show, what people say over HTTP and on the command line, who hears of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update

from argus.analytics.incident import Incident
from argus.analytics.lifecycle import SIGNAL_GONE, STEPS_GO_ON
from argus.analytics.outcome import CALM_WINDOWS, HOST_LEFT, RESTART
from argus.analytics.store import outcomes, queries
from argus.analytics.store.incidents import save_incident
from argus.analytics.store.relaunch import RELAUNCHED, launch_prefix
from argus.analytics.store.tables import ATTEMPTS, WINDOWS
from argus.api.cli import main
from argus.api.past import past_now
from argus.api.service import Service
from argus.api.watch import Watch
from argus.collectors.records.layout import Layout
from tests.analytics.test_outcome import OVER
from tests.api.desk.served import Lived, lived
from tests.api.kit import FakeClock, new_service, new_store
from tests.api.served import listening_on

WORLD = 4
SUSPECT = OVER.cause.suspects[0]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    store = new_store(tmp_path / "a.sqlite")
    yield new_service(store, clock=FakeClock(1000.0))
    store.close()


def begin(service: Service, attempt: int, *, spare: bool = False, windows: int = 0) -> int:
    """An attempt with analysed windows; with a spare, the suspect's rank runs on another host."""
    assert isinstance(service.clock, FakeClock)
    service.clock.now_s += 100.0
    layouts = [
        Layout(run="r", attempt=attempt, rank=rank, world_size=WORLD, pid=attempt + 1,
               host="spare" if spare and rank == SUSPECT else f"h{rank}", device=f"GPU-{rank}{spare and rank == SUSPECT}")
        for rank in range(WORLD)
    ]  # fmt: skip
    service.receive_layouts(json.dumps({"layouts": [one.to_json() for one in layouts]}).encode())
    with service.store.write() as connection:
        which = queries.attempt_of(connection, "r", attempt=attempt)
        assert which is not None
        rows = [
            {"attempt_id": which.id, "window": i, "status": "analysed", "first_step": 10 * i, "num_steps": 10,
             "opened_s": 1.0}
            for i in range(windows)
        ]  # fmt: skip
        if rows:
            connection.execute(insert(WINDOWS), rows)
    return which.id


def keep(service: Service, attempt_id: int, incident: Incident) -> None:
    with service.store.write() as connection:
        save_incident(connection, attempt_id, incident, now_s=service.clock())


def became(service: Service, incident: Incident = OVER) -> list[tuple[str, str]]:
    with service.store.read() as connection:
        found = outcomes.outcomes_of(connection, [incident])
    return [(one.did, one.result) for one in found.get(incident.id, ())]


def test_gone_after_a_restart_once_the_next_attempt_has_run_for_a_while(service: Service) -> None:
    keep(service, begin(service, 0), OVER)
    assert became(service) == []
    begin(service, 1, windows=CALM_WINDOWS - 1)
    assert became(service) == []
    begin(service, 2, windows=CALM_WINDOWS)
    assert became(service) == [(RESTART, "gone")]


def test_gone_with_the_host_that_left(service: Service) -> None:
    keep(service, begin(service, 0), OVER)
    begin(service, 1, spare=True, windows=CALM_WINDOWS)
    assert became(service) == [(HOST_LEFT, "gone")]


@pytest.mark.parametrize(
    ("spare", "expected"), [(False, (RESTART, "did_not_help")), (True, (HOST_LEFT, "gone"))]
)
def test_the_same_rank_is_the_same_place_only_on_the_same_hardware(
    service: Service, spare: bool, expected: tuple[str, str]
) -> None:
    keep(service, begin(service, 0), OVER)
    later = begin(service, 1, spare=spare, windows=CALM_WINDOWS)
    keep(service, later, replace(OVER, attempt=1, status="open", ended=""))
    assert became(service) == [expected]


def test_a_launch_under_the_same_name_is_a_restart_too(service: Service) -> None:
    first = begin(service, 0)
    keep(service, first, OVER)
    with service.store.write() as connection:
        renamed = {"run": f"{launch_prefix('r')}2026-01-01T00:00:00.{first}", "end_reason": RELAUNCHED}
        connection.execute(update(ATTEMPTS).where(ATTEMPTS.c.id == first).values(**renamed))
    begin(service, 0, windows=CALM_WINDOWS)
    assert became(service) == [(RESTART, "gone")]


def test_what_goes_by_itself_may_come_back(service: Service) -> None:
    mine = begin(service, 0)
    gone = replace(OVER, ended=SIGNAL_GONE)
    keep(service, mine, gone)
    assert became(service, gone) == [("", "gone")]
    keep(service, mine, replace(OVER, opened_window=20, last_window=21))
    with service.store.read() as connection:
        (seen,) = outcomes.outcomes_of(connection, [gone])[gone.id]
    assert seen.text.endswith("back later in the attempt")


def test_a_second_stop_in_the_same_window_came_back_and_the_first_did_not(service: Service) -> None:
    mine = begin(service, 0)
    first = replace(OVER, ended=STEPS_GO_ON, opened_window=20, last_window=20)
    stops = [first, replace(first, again=1)]
    for at_s, stop in enumerate(stops, start=5000):
        with service.store.write() as connection:
            save_incident(connection, mine, stop, now_s=float(at_s))
    with service.store.read() as connection:
        seen = outcomes.outcomes_of(connection, stops)
    assert [seen[stop.id][0].text.endswith("back later in the attempt") for stop in stops] == [True, False]


def test_a_new_incident_remembers_and_is_asked_once(service: Service) -> None:
    keep(service, begin(service, 0), OVER)
    later = begin(service, 1, windows=CALM_WINDOWS)
    again = replace(OVER, attempt=1, status="open", ended="")
    keep(service, later, again)
    watch = Watch(live=None, course=None)  # type: ignore[arg-type]
    (told,) = past_now(service.store, watch, again, now_s=service.clock())
    assert told["text"] == "the same GPU: 1 time in 30 days; did not help: a restart"
    assert past_now(service.store, watch, again, now_s=0.0) == [told]
    assert past_now(service.store, Watch(live=None, course=None), again, now_s=1e9) == []  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    with lived(tmp_path_factory.mktemp("outcomes")) as one:
        yield one


@pytest.mark.slow
def test_what_people_say_is_kept_once_and_may_be_corrected(at: Lived) -> None:
    path = f"/v1/incidents/{at.incident}/outcomes"
    (action, *_) = at.client.get(f"/v1/incidents/{at.incident}/diagnosis").json()["remediation"]
    seen = at.client.get(path).json()["items"]
    body = {"action": action["id"], "result": "unclear"}
    for _ in range(2):
        kept = at.client.post(path, json=body)
        assert kept.status_code == 201 and kept.json()["did"] == action["action"][:200]
    assert at.client.get(path).json()["total"] == len(seen) + 1
    at.client.post(path, json={**body, "result": "helped"})
    first = at.client.get(path).json()["items"][0]
    assert (first["result"], first["source"], first["by"] != "") == ("helped", "said", True)
    at.client.post(f"/v1/incidents/{at.incident}/marks", json={"what": "wrong", "text": "it was the switch"})
    assert {"wrong", "helped"} <= {one["result"] for one in at.client.get(path).json()["items"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"did": "x", "result": "maybe"}, 422),
        ({"did": "x"}, 422),
        ({"result": "helped"}, 422),
        ({"did": "   ", "result": "helped"}, 422),
        ({"did": "x" * 201, "result": "helped"}, 422),
        ({"did": "x", "result": "helped", "by": "somebody else"}, 422),
        ({"action": "rm -rf", "result": "helped"}, 404),
    ],
)
def test_what_cannot_be_kept_is_refused(at: Lived, body: dict[str, Any], status: int) -> None:
    assert at.client.post(f"/v1/incidents/{at.incident}/outcomes", json=body).status_code == status
    assert (
        at.client.post("/v1/incidents/i-0/outcomes", json={"did": "x", "result": "helped"}).status_code == 404
    )
    assert at.client.get("/v1/incidents/i-0/outcomes").status_code == 404


@pytest.mark.slow
def test_the_command_lists_shows_and_keeps(
    at: Lived, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening_on(at.app) as url:
        monkeypatch.setenv("ARGUS_SERVER", url)
        assert main(["incident", "list", "--run", "job"]) == 0
        assert at.incident in capsys.readouterr().out
        did = ["incident", "outcome", at.incident, "--did", "drained h-0000", "--helped", "yes"]
        assert main(did) == 0
        assert "kept: drained h-0000: helped" in capsys.readouterr().out
        assert main(["incident", "show", at.incident]) == 0
        shown = capsys.readouterr().out
        assert "Suspect" in shown and "Outcome   drained h-0000: helped" in shown and "Ended" in shown
        assert main(["incident", "show", at.incident, "--json"]) == 0
        assert any(one["did"] == "drained h-0000" for one in json.loads(capsys.readouterr().out)["outcomes"])
        assert main(["incident", "list", "--run", "other"]) == 0
        assert main(["incident", "show", "i-0"]) == 1
        assert "no incident 'i-0'" in capsys.readouterr().err
