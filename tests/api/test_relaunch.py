"""A run launched again under its name: which attempts of the launch before make room for it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient

from argus.analytics.store import asked, attempts, progress, queries
from argus.analytics.store.documents import load
from argus.analytics.store.relaunch import launch_of, launch_prefix
from argus.analytics.store.tables import ATTEMPTS, LAYOUTS, RANK_WINDOWS, STACK_DUMPS
from argus.api.agent import agent_of
from argus.api.http.app import make_app
from argus.api.late import WAIT_S
from argus.api.look_again import look_again_on
from argus.api.service import NothingTaken, Service
from argus.api.settings import Settings
from argus.api.toolbox import toolbox_of
from argus.collectors.records.stacks import StackDump, encode_stacks
from argus.collectors.records.summary import RankWindow
from tests.api.kit import FAKE_ANALYSES, FakeClock, beats_body, layouts_body, make_beat, make_window, upload


def turn(service: Service, clock: FakeClock, *, after_s: float = 1.0) -> None:
    clock.now_s += after_s
    while service.worker.turn(clock.now_s):
        pass


def begin(service: Service, clock: FakeClock, *, attempt: int, pid: int, began_ns: int | None = None) -> None:
    """A launch whose processes begin now, or then, with its first heartbeats and window."""
    began_ns = int(clock.now_s * 1e9) if began_ns is None else began_ns
    service.receive_layouts(layouts_body(attempt=attempt, pid=pid, began_ns=began_ns))
    turn(service, clock)
    beat(service, clock, attempt=attempt)
    service.receive_windows(upload(*(make_window(rank, 0, attempt=attempt) for rank in range(4))))
    turn(service, clock)


def beat(service: Service, clock: FakeClock, *, attempt: int, state: str = "running") -> None:
    beats = [make_beat(rank, ts_s=clock.now_s, attempt=attempt, state=state) for rank in range(4)]
    service.receive_heartbeats(beats_body(*beats))


def rejected_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What of an upload was not taken, and why."""
    return list(answer["rejected"])


def attempts_by_run(service: Service) -> dict[str, list[int]]:
    with service.store.read() as connection:
        names = [item["run"] for item in queries.runs(connection, limit=10, offset=0).items]
        return {
            "job" if name == "job" else "before": sorted(
                item["attempt"] for item in queries.attempts(connection, name)
            )
            for name in names
        }


@pytest.mark.parametrize("how", ["exited", "silent"])
@pytest.mark.parametrize("began_ns", [None, 0], ids=["dated", "undated"])
def test_the_restarts_of_the_launch_before_go_along_under_one_name(
    service: Service, clock: FakeClock, how: str, began_ns: int | None
) -> None:
    for attempt in range(3):
        begin(service, clock, attempt=attempt, pid=100 * (attempt + 1), began_ns=began_ns)
        if how == "exited":
            beat(service, clock, attempt=attempt, state="exited")
    turn(service, clock, after_s=20 if how == "silent" else 2)
    begin(service, clock, attempt=0, pid=900, began_ns=began_ns)
    assert attempts_by_run(service) == {"job": [0], "before": [0, 1, 2]}
    with service.store.read() as connection:
        which = queries.attempt_of(connection, "job", attempt=None)
        assert which is not None
        before = attempts.attempt_before(connection, which)
    assert which.attempt == 0 and before is not None
    assert before.attempt == 2 and before.run.startswith(launch_prefix("job"))


def test_a_restart_that_lives_keeps_its_name(service: Service, clock: FakeClock) -> None:
    begin(service, clock, attempt=0, pid=100)
    beat(service, clock, attempt=0, state="exited")
    begin(service, clock, attempt=1, pid=200)
    turn(service, clock, after_s=4)
    beat(service, clock, attempt=1)
    service.receive_layouts(layouts_body(attempt=0, pid=900, began_ns=int(clock.now_s * 1e9) - 1))
    assert attempts_by_run(service) == {"job": [0, 1], "before": [0]}


def test_a_layout_that_waited_through_an_outage_ousts_no_later_restart(
    service: Service, clock: FakeClock
) -> None:
    began_ns = int(clock.now_s * 1e9)
    clock.now_s += 10
    begin(service, clock, attempt=1, pid=200)
    beat(service, clock, attempt=1, state="ended")
    turn(service, clock, after_s=60)
    service.receive_layouts(layouts_body(attempt=0, pid=100, began_ns=began_ns))
    assert attempts_by_run(service) == {"job": [0, 1]}


LONG = "sweep/" + 220 * "x"


@pytest.mark.parametrize("other", ["job@lr3", "JOB"])
def test_launches_of_a_run_with_a_name_like_it_are_none_of_its_own(
    service: Service, clock: FakeClock, other: str
) -> None:
    for pid in (100, 500):
        clock.now_s += 20
        service.receive_layouts(layouts_body(run=other, pid=pid, began_ns=int(clock.now_s * 1e9)))
        turn(service, clock)
    begin(service, clock, attempt=0, pid=900)
    with service.store.read() as connection:
        names = [item["run"] for item in queries.runs(connection, limit=10, offset=0).items]
        mine, theirs = (queries.attempt_of(connection, run, attempt=None) for run in ("job", other))
        assert len(names) == 3 and mine is not None and theirs is not None
        before = attempts.attempt_before(connection, theirs)
        assert before is not None and before.run.startswith(launch_prefix(other))
        assert attempts.attempt_before(connection, mine) is None
        assert launch_of(connection, "job", attempt_id=mine.id) == 0
    theirs_ns = int((clock.now_s - 15) * 1e9)  # in the time of the other's launches, before this run's own
    with pytest.raises(NothingTaken, match="earlier launch of run job"):
        service.receive_windows(upload(at(make_window(0, 1), theirs_ns)), age_s=15.0)


def test_launches_of_runs_with_long_names_that_begin_alike_are_told_apart(
    service: Service, clock: FakeClock
) -> None:
    for run, pid in ((LONG + "1", 100), (LONG + "2", 300), (LONG + "1", 500)):
        clock.now_s += 20
        service.receive_layouts(layouts_body(run=run, pid=pid, began_ns=int(clock.now_s * 1e9)))
        turn(service, clock)
    with service.store.read() as connection:
        one, two = (queries.attempt_of(connection, LONG + end, attempt=None) for end in "12")
        assert one is not None and two is not None
        before = attempts.attempt_before(connection, one)
        assert before is not None and before.id == 1 and len(before.run) < 256
        assert attempts.attempt_before(connection, two) is None


def test_the_last_window_of_the_launch_before_is_looked_at_and_waits_for_nobody(
    service: Service, clock: FakeClock
) -> None:
    begin(service, clock, attempt=0, pid=100)
    service.receive_windows(upload(*(make_window(rank, 1) for rank in range(3))))
    beat(service, clock, attempt=0, state="exited")
    turn(service, clock, after_s=2)
    begin(service, clock, attempt=0, pid=900)
    turn(service, clock)
    with service.store.read() as connection:
        assert progress.pending_windows(connection) == {}
    turn(service, clock, after_s=WAIT_S + 1)
    with service.store.read() as connection:
        kept = attempts.numbers_of(connection, 1, limit=9)
        (late,) = queries.windows(connection, 1, status="late", limit=9, offset=0).items
    assert [one.ranks.tolist() for one in kept] == [[0, 1, 2, 3]] * 2
    assert late["window"] == 1 and late["analysed_s"] == clock.now_s and late["error"] is None


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_launch_within_seconds_of_one_that_was_killed_with_its_hosts_is_a_job_of_its_own(
    service: Service, clock: FakeClock, attempt: int
) -> None:
    begin(service, clock, attempt=attempt, pid=100)
    turn(service, clock, after_s=5)
    service.receive_layouts(layouts_body(pid=500, began_ns=int(clock.now_s * 1e9)))
    again = service.receive_windows(upload(*(make_window(rank, 0) for rank in range(4))))
    assert (again["accepted"], again["duplicates"]) == (4, 0)
    assert attempts_by_run(service) == {"job": [0], "before": [attempt]}


def test_a_process_that_began_before_the_last_sign_of_life_ousts_nobody(
    service: Service, clock: FakeClock
) -> None:
    begin(service, clock, attempt=0, pid=100)
    began_ns = int(clock.now_s * 1e9)
    turn(service, clock, after_s=3)
    beat(service, clock, attempt=0)
    service.receive_layouts(layouts_body(pid=500, began_ns=began_ns))
    assert attempts_by_run(service) == {"job": [0]}


def test_the_same_fault_in_the_same_window_of_the_next_launch_is_an_incident_of_its_own(
    service: Service, clock: FakeClock
) -> None:
    for pid in (100, 500):
        service.receive_layouts(layouts_body(pid=pid, began_ns=int(clock.now_s * 1e9)))
        for window in range(3):
            slow = (make_window(rank, window, factor=2.0 if rank == 3 else 1.0) for rank in range(4))
            service.receive_windows(upload(*slow))
            turn(service, clock)
        if pid == 100:
            beat(service, clock, attempt=0, state="exited")
            turn(service, clock, after_s=2)
    assert told_of(service) == [("open", "job"), ("resolved", "before")]
    with service.store.read() as connection:
        (one,) = queries.incidents(
            connection, run="job", status=None, fault_class=None, limit=9, offset=0
        ).items
        behind = progress.findings_by_id(connection, one["findings"])
    assert behind and all(found.launch for found in behind.values())
    service.receive_windows(upload(*(make_window(rank, 3) for rank in range(4))))
    turn(service, clock)
    assert told_of(service) == [("resolved", "job"), ("resolved", "before")]


@pytest.mark.parametrize("attempt", [0, 1])
def test_an_incident_of_the_launch_before_is_shown_with_that_launch(
    service: Service, clock: FakeClock, attempt: int
) -> None:
    begin(service, clock, attempt=attempt, pid=100)
    slow = (make_window(rank, 1, attempt=attempt, factor=2.0 if rank == 3 else 1.0) for rank in range(4))
    service.receive_windows(upload(*slow))
    turn(service, clock)
    client = TestClient(make_app(service), raise_server_exceptions=False)
    (one,) = client.get("/v1/incidents").json()["items"]
    captured = client.post("/v1/captures", json={"incident": one["id"]}).json()["id"]
    beat(service, clock, attempt=attempt, state="exited")
    turn(service, clock, after_s=2)
    service.receive_layouts(layouts_body(2, pid=900, began_ns=int(clock.now_s * 1e9)))
    tools = toolbox_of(service)
    case = agent_of(Settings())[0].case(tools, incident=one["id"])
    turn(service, clock)
    listed, shown = (client.get(f"/v1/incidents{path}").json() for path in ("", f"/{one['id']}"))
    for told in (*listed["items"], shown, *tools.incidents(limit=9), tools.incident(one["id"])):
        assert told is not None and told["run"] == case.facts.run
    assert case.facts.run.startswith(launch_prefix("job"))
    seen = client.get(f"/v1/runs/{shown['run']}/windows", params={"attempt": attempt, "status": "analysed"})
    assert [item["window"] for item in seen.json()["items"]] == [1, 0]
    assert client.get(f"/v1/incidents/{one['id']}/card").json()["text"].endswith("of 4")
    (kept,) = client.get("/v1/captures", params={"incident": one["id"]}).json()["items"]
    assert kept["id"] == captured
    again = client.post("/v1/captures", json={"incident": one["id"]})
    assert again.status_code == 409 and "launched again" in again.text
    assert client.get(f"/v1/captures/{captured}/timeline").status_code == 409  # nothing of it is in yet


def test_an_incident_of_the_launch_before_is_judged_again_by_that_launch(
    service: Service, clock: FakeClock
) -> None:
    for pid, factor in ((100, 2.0), (900, 1.0)):
        begin(service, clock, attempt=0, pid=pid)
        service.receive_windows(
            upload(*(make_window(r, 1, factor=factor if r == 3 else 1.0) for r in range(4)))
        )
        turn(service, clock)
        beat(service, clock, attempt=0, state="exited")
        turn(service, clock, after_s=2)
    with service.store.read() as connection:
        (one,) = asked.incidents_of(connection, run=None, fault_class=None, limit=9)
    assert one.run == "job" and one.status == "resolved"
    again = look_again_on(service.store, FAKE_ANALYSES)(one)
    assert again is not None and again["headline"] == "rank 3"
    case = agent_of(Settings())[0].case(toolbox_of(service), incident=one.id)
    assert case.facts.run.startswith(launch_prefix("job"))


def told_of(service: Service) -> list[tuple[str, str]]:
    """Status of every incident with the launch it is of, the latest first."""
    with service.store.read() as connection:
        names = [item["run"] for item in queries.runs(connection, limit=10, offset=0).items]
        return [
            (item["status"], "job" if name == "job" else "before")
            for name in sorted(names)
            for item in queries.incidents(
                connection, run=name, status=None, fault_class=None, limit=9, offset=0
            ).items
        ]


def at(window: RankWindow, start_ns: int) -> RankWindow:
    """The window as if its first step had begun then."""
    steps = window.steps.copy()
    for column in ("start_ns", "end_ns"):
        steps[column] += start_ns - int(window.steps["start_ns"][0])
    return replace(window, steps=steps)


def num_windows(service: Service) -> dict[str, int]:
    """Windows of ranks by launch."""
    with service.store.read() as connection:
        joined = RANK_WINDOWS.join(ATTEMPTS, ATTEMPTS.c.id == RANK_WINDOWS.c.attempt_id)
        counted = select(ATTEMPTS.c.run, func.count()).select_from(joined).group_by(ATTEMPTS.c.run)
        return {"job" if run == "job" else "before": num for run, num in connection.execute(counted)}


def test_windows_that_waited_while_their_run_was_launched_anew_are_of_the_launch_before(
    service: Service, clock: FakeClock
) -> None:
    first_ns = int(clock.now_s * 1e9)
    begin(service, clock, attempt=0, pid=100)
    beat(service, clock, attempt=0, state="exited")
    turn(service, clock, after_s=20)
    second_ns = int(clock.now_s * 1e9)
    service.receive_layouts(layouts_body(pid=500, began_ns=second_ns))
    turn(service, clock, after_s=5)
    left = upload(*(at(make_window(rank, 1), first_ns + 2_000_000_000) for rank in range(4)))
    answer = service.receive_windows(left, age_s=24.0)
    assert (answer["accepted"], answer["duplicates"], answer["rejected"]) == (4, 0, [])
    own = upload(*(at(make_window(rank, 1), second_ns + 1_000_000_000) for rank in range(4)))
    assert service.receive_windows(own, age_s=3.0)["accepted"] == 4
    assert num_windows(service) == {"job": 4, "before": 8}
    turn(service, clock)
    assert attempts_by_run(service) == {"job": [0], "before": [0]}


def test_a_silent_launch_whose_name_was_taken_stays_the_launch_before_when_its_windows_come(
    service: Service, clock: FakeClock
) -> None:
    first_ns = int(clock.now_s * 1e9)
    begin(service, clock, attempt=0, pid=100)
    turn(service, clock, after_s=service.settings.forget_s + 1)
    service.receive_layouts(layouts_body(pid=500, began_ns=int(clock.now_s * 1e9)))
    turn(service, clock, after_s=5)
    left = upload(*(at(make_window(rank, 1), first_ns + 2_000_000_000) for rank in range(4)))
    service.receive_windows(left, age_s=clock.now_s - first_ns * 1e-9 - 3)
    turn(service, clock)
    with service.store.read() as connection:
        which = queries.attempt_of(connection, "job", attempt=None)
        assert which is not None
        before = attempts.attempt_before(connection, which)
        assert before is not None and launch_of(connection, "job", attempt_id=which.id) == which.id
        (kept,) = queries.attempts(connection, before.run)
    assert (kept["status"], kept["end_reason"]) == ("ended", "relaunched")


def test_windows_of_an_earlier_launch_that_nobody_knows_are_refused_in_words(
    service: Service, clock: FakeClock
) -> None:
    now_ns = int(clock.now_s * 1e9)
    service.receive_layouts(layouts_body(pid=500, began_ns=now_ns))
    turn(service, clock, after_s=5)
    windows = (
        at(make_window(0, 0), now_ns - 60_000_000_000),
        at(make_window(1, 0), now_ns + 1_000_000_000),
    )
    answer = service.receive_windows(upload(*windows), age_s=30.0)
    assert answer["accepted"] == 1
    (refused,) = rejected_of(answer)
    assert refused["index"] == 0 and "earlier launch of run job" in refused["reason"]


def test_a_layout_that_waited_takes_no_place_of_one_that_began_later_on_its_host(
    service: Service, clock: FakeClock
) -> None:
    now_ns = int(clock.now_s * 1e9)
    service.receive_layouts(layouts_body(pid=500, began_ns=now_ns))
    service.receive_layouts(layouts_body(pid=100, began_ns=now_ns - 60_000_000_000))
    with service.store.read() as connection:
        pids = {load(body)["pid"] for body in connection.execute(select(LAYOUTS.c.body)).scalars()}
    assert min(pids) == 500


def test_stack_dumps_that_waited_are_of_the_launch_that_they_were_taken_in(
    service: Service, clock: FakeClock
) -> None:
    first_s = clock.now_s
    begin(service, clock, attempt=0, pid=100)
    beat(service, clock, attempt=0, state="exited")
    turn(service, clock, after_s=20)
    service.receive_layouts(layouts_body(pid=500, began_ns=int(clock.now_s * 1e9)))
    times_s = (
        first_s - 60,
        first_s + 3,
        clock.now_s + 1,
    )  # of none that is known, of the first, of the second
    turn(service, clock, after_s=12)
    dumps = [StackDump(run="job", attempt=0, rank=0, host="h-0", ts_s=ts_s, step=3) for ts_s in times_s]
    raw = {"host": "h-0", **encode_stacks(dumps), "samples": []}
    answer = service.receive_observations(json.dumps(raw).encode())
    assert answer["accepted"] == 2
    (refused,) = rejected_of(answer)
    assert "earlier launch of run job" in refused["reason"]
    with service.store.read() as connection:
        joined = STACK_DUMPS.join(ATTEMPTS, ATTEMPTS.c.id == STACK_DUMPS.c.attempt_id)
        found = connection.execute(select(ATTEMPTS.c.run, STACK_DUMPS.c.ts_s).select_from(joined)).all()
    assert {"job" if run == "job" else "before": ts_s for run, ts_s in found} == {
        "before": times_s[1],
        "job": times_s[2],
    }
