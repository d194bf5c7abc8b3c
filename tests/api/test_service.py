"""The service without HTTP: windows close, are analysed in order, and a restart goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from argus.analytics.store import progress, queries
from argus.api import analysis
from argus.api.service import NothingTaken, Service
from argus.collectors.records.layout import Layout
from argus.topology.layout import Topology, build
from tests.api.kit import (
    FakeClock,
    beats_body,
    layouts_body,
    make_beat,
    make_window,
    new_service,
    service_at,
    upload,
)
from tests.api.process import wait_for

OPEN = {"level": 0, "from_step": 0}
"""No channel is off."""


def send(service: Service, window: int, *, slow: int = -1, ranks: range = range(4), attempt: int = 0) -> None:
    rows = [make_window(r, window, factor=2.0 if r == slow else 1.0, attempt=attempt) for r in ranks]
    service.receive_windows(upload(*rows))


def turn(service: Service, clock: FakeClock, *, after_s: float = 1.0) -> None:
    clock.now_s += after_s
    while service.worker.turn(clock.now_s):
        pass


def statuses(service: Service, run: str = "job") -> dict[int, str]:
    with service.store.read() as connection:
        which = queries.attempt_of(connection, run, attempt=None)
        assert which is not None
        found = queries.windows(connection, which.id, status=None, limit=1000, offset=0)
    return {item["window"]: item["status"] for item in found.items}


def incidents(service: Service, status: str | None = None) -> list[queries.Json]:
    with service.store.read() as connection:
        return queries.incidents(
            connection, run="job", status=status, fault_class=None, limit=100, offset=0
        ).items


def test_a_window_closes_when_every_rank_is_in(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    send(service, 0, ranks=range(3))
    turn(service, clock)
    assert statuses(service) == {0: "open"}
    send(service, 0, ranks=range(3, 4))
    turn(service, clock)
    assert statuses(service) == {0: "analysed"}


def test_a_window_closes_incomplete_after_the_grace_time(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    send(service, 0, ranks=range(3))
    turn(service, clock, after_s=service.settings.grace_s - 1)
    assert statuses(service) == {0: "open"}
    turn(service, clock, after_s=1)
    with service.store.read() as connection:
        window = queries.window(connection, 1, 0)
    assert window is not None and window["coverage"]["missing_ranks"] == [3]
    assert window["coverage"]["ratio"] == 0.75


def test_late_summaries_are_kept_and_not_analysed(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    send(service, 1)
    turn(service, clock)
    send(service, 0)
    turn(service, clock, after_s=60)
    assert statuses(service) == {0: "late", 1: "analysed"}
    with service.store.read() as connection:
        assert progress.bodies_of(connection, 1, 0) == []


@pytest.mark.parametrize("pauses", [analysis.REBUILD_PAUSES, 1e9])
def test_windows_wait_for_the_first_layout(
    service: Service, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, pauses: float
) -> None:
    """Also on a machine so slow that a look at no layouts takes long."""
    monkeypatch.setattr(analysis, "REBUILD_PAUSES", pauses)
    send(service, 0)
    turn(service, clock, after_s=60)
    assert statuses(service) == {0: "open"}
    service.receive_layouts(layouts_body())
    turn(service, clock)
    assert statuses(service) == {0: "analysed"}


def test_a_repeated_upload_counts_as_duplicate(service: Service) -> None:
    service.receive_layouts(layouts_body())
    body = upload(make_window(0, 0), make_window(1, 0))
    assert service.receive_windows(body)["accepted"] == 2
    again = service.receive_windows(upload(make_window(0, 0), make_window(2, 0), make_window(2, 0)))
    assert again == {"accepted": 1, "duplicates": 2, "rejected": []}


def test_one_bad_item_does_not_spoil_the_others(service: Service) -> None:
    service.receive_layouts(layouts_body())
    service.receive_windows(upload(make_window(0, 0)))
    answer = service.receive_windows(
        upload(make_window(1, 0), make_window(2, 0, num_steps=7), make_window(9, 0), make_window(3, 0))
    )
    assert answer["accepted"] == 2
    rejected = answer["rejected"]
    assert isinstance(rejected, list) and [item["index"] for item in rejected] == [1, 2]
    assert "7 from 0" in rejected[0]["reason"] and "rank 9" in rejected[1]["reason"]
    with pytest.raises(NothingTaken):
        service.receive_windows(upload(make_window(9, 0)))


def test_a_window_far_ahead_cannot_make_the_true_ones_late(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    send(service, 0)
    with pytest.raises(NothingTaken, match="the job is at"):
        service.receive_windows(upload(make_window(0, 1 << 40)))
    send(service, 1)
    turn(service, clock, after_s=60)
    assert statuses(service) == {0: "analysed", 1: "analysed"}


def test_an_incident_opens_and_resolves_with_its_diagnosis(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    for window in range(5):
        send(service, window, slow=2 if 1 <= window <= 3 else -1)
        turn(service, clock)
    (incident,) = incidents(service)
    assert (incident["status"], incident["suspects"], incident["onset_step"]) == ("resolved", [2], 10)
    assert incident["end_step"] == 40
    assert incident["diagnosis"]["headline"] == "rank 2" and len(incident["diagnosis"]["findings"]) == 1
    with service.store.read() as connection:
        whole = queries.incident(connection, incident["id"])
    assert whole is not None and [event["what"] for event in whole["events"]] == ["opened", "resolved"]


def test_a_detector_that_raises_fails_its_window_only(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    rows = [make_window(rank, 0, num_steps=13) for rank in range(4)]
    service.receive_windows(upload(*rows))
    turn(service, clock)
    assert statuses(service) == {0: "failed"}
    assert any("thirteen steps" in trouble for trouble in service.published.troubles_now())
    send(service, 2)
    turn(service, clock)
    assert statuses(service)[2] == "analysed"
    assert service.published.troubles_now() == ()


def test_a_layout_that_cannot_be_built_stops_no_other_job(
    service: Service, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(layouts: list[Layout]) -> Topology:
        if layouts[0].run == "bad":
            raise ValueError("no such layout")
        return build(layouts)

    monkeypatch.setattr("argus.api.analysis.build", refuse)
    service.receive_layouts(layouts_body(run="bad"))
    service.receive_layouts(layouts_body())
    send(service, 0)
    turn(service, clock)
    assert statuses(service) == {0: "analysed"}
    assert service.published.troubles_now() == ("attempt of 'bad': no such layout",)


@pytest.mark.parametrize("stop_after", [3, pytest.param(70, marks=pytest.mark.slow)])
def test_a_restart_goes_on_where_it_was(tmp_path: Path, clock: FakeClock, stop_after: int) -> None:
    path = tmp_path / "a.sqlite"
    with service_at(path, clock=clock) as before:
        before.receive_layouts(layouts_body())
        for window in range(stop_after):
            send(before, window, slow=1 if window >= 1 else -1)
            turn(before, clock)
        (opened,) = incidents(before, "open")
        send(before, stop_after, slow=1)
    with service_at(path, clock=clock) as after:
        turn(after, clock)
        assert statuses(after)[stop_after] == "analysed"
        (still,) = incidents(after)
        assert (still["id"], still["onset_step"]) == (opened["id"], opened["onset_step"])
        send(after, stop_after + 1)
        turn(after, clock)
        (closed,) = incidents(after)
        assert closed["status"] == "resolved" and closed["id"] == opened["id"]
        with after.store.read() as connection:
            whole = queries.incident(connection, opened["id"])
    assert whole is not None and [event["what"] for event in whole["events"]] == ["opened", "resolved"]


def test_a_silent_host_loses_its_ranks_and_an_uploading_one_does_not(
    service: Service, clock: FakeClock
) -> None:
    service.receive_layouts(layouts_body())
    service.receive_heartbeats(beats_body(*(make_beat(rank, ts_s=clock.now_s) for rank in range(4))))
    turn(service, clock, after_s=10)
    assert incidents(service) == []
    send(service, 0, ranks=range(2))  # host h-0 uploads, h-1 says nothing
    turn(service, clock, after_s=10)
    (incident,) = incidents(service)
    assert (incident["class"], incident["suspects"]) == ("stop.lost", [2, 3])


def test_silence_while_the_service_was_down_is_nobodys_loss(tmp_path: Path, clock: FakeClock) -> None:
    with service_at(tmp_path / "a.sqlite", clock=clock) as before:
        before.receive_layouts(layouts_body())
        before.receive_heartbeats(beats_body(*(make_beat(rank, ts_s=clock.now_s) for rank in range(4))))
        turn(before, clock)
    clock.now_s += 3600
    with service_at(tmp_path / "a.sqlite", clock=clock) as after:
        turn(after, clock)
        assert incidents(after) == []
        turn(after, clock, after_s=20)
        assert [item["class"] for item in incidents(after)] == ["stop.lost"]


def test_an_attempt_whose_ranks_all_said_goodbye_is_finished(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    send(service, 0, slow=3)
    turn(service, clock)
    assert len(incidents(service, "open")) == 1
    beats = [make_beat(rank, ts_s=clock.now_s, state="ended", step=9) for rank in range(4)]
    service.receive_heartbeats(beats_body(*beats))
    turn(service, clock)
    (incident,) = incidents(service)
    assert (incident["status"], incident["end_step"]) == ("resolved", 9)
    turn(service, clock, after_s=service.settings.grace_s)
    with service.store.read() as connection:
        (attempt,) = queries.attempts(connection, "job")
    assert (attempt["status"], attempt["end_reason"]) == ("ended", "finished")
    send(service, 1)
    assert statuses(service)[1] == "late"


def test_a_newer_attempt_ends_a_lost_one_with_its_incident(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    send(service, 0, slow=3)
    turn(service, clock)
    service.receive_layouts(layouts_body(attempt=1))
    send(service, 0, attempt=1)
    turn(service, clock, after_s=60)
    with service.store.read() as connection:
        newer, older = queries.attempts(connection, "job")
    assert (newer["status"], older["status"], older["end_reason"]) == ("live", "ended", "superseded")
    (incident,) = incidents(service)
    assert (incident["status"], incident["attempt"], incident["end_step"]) == ("resolved", 0, 9)


@pytest.mark.parametrize("how", ["ended", "exited", "silent", "replaced"])
def test_a_run_started_again_under_its_name_is_a_job_of_its_own(
    service: Service, clock: FakeClock, how: str
) -> None:
    service.receive_layouts(layouts_body(pid=100, began_ns=1))
    send(service, 0, slow=3)
    turn(service, clock)
    if how in ("ended", "exited"):
        gone = [make_beat(rank, ts_s=clock.now_s, state=how) for rank in range(4)]
        service.receive_heartbeats(beats_body(*gone))
    turn(service, clock, after_s=20 if how == "silent" else 1)
    again = layouts_body(pid=100 if how == "replaced" else 500, began_ns=2)
    service.receive_layouts(again)
    service.receive_layouts(again)
    for window in range(2):
        send(service, window)
    turn(service, clock)
    assert statuses(service) == {0: "analysed", 1: "analysed"}
    with service.store.read() as connection:
        found = queries.runs(connection, limit=10, offset=0).items
        every = queries.incidents(connection, run=None, status=None, fault_class=None, limit=9, offset=0)
    assert {(item["run"], item["status"]) for item in found} == {
        ("job", "live"),
        (next(item["run"] for item in found if item["run"] != "job"), "ended"),
    }
    assert [item["status"] for item in every.items if item["class"] == "compute.slow"] == ["resolved"]


def test_two_jobs_side_by_side_under_one_name_do_not_oust_each_other(
    service: Service, clock: FakeClock
) -> None:
    for pid in (100, 500, 100, 500):
        service.receive_layouts(layouts_body(pid=pid))
        service.receive_heartbeats(beats_body(*(make_beat(rank, ts_s=clock.now_s) for rank in range(4))))
        turn(service, clock)
    with service.store.read() as connection:
        assert queries.runs(connection, limit=10, offset=0).total == 1


def test_a_forgotten_attempt_wakes_when_it_speaks(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    send(service, 0)
    turn(service, clock)
    turn(service, clock, after_s=service.settings.forget_s + 1)
    with service.store.read() as connection:
        assert queries.attempts(connection, "job")[0]["status"] == "silent"
    send(service, 1)
    turn(service, clock)
    assert statuses(service) == {0: "analysed", 1: "analysed"}
    with service.store.read() as connection:
        (told,) = queries.attempts(connection, "job")
    assert (told["status"], told["end_reason"], told["ended_s"]) == ("live", None, None)


def test_the_plan_is_chosen_once_and_kept(tmp_path: Path, clock: FakeClock) -> None:
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        plans = service.receive_layouts(layouts_body())["plans"]
        assert plans == [{"run": "job", "attempt": 0, "first": 10, "switch": 0, "then": 0, **OPEN}]
        beats = [make_beat(rank, ts_s=clock.now_s, step=50, p50_s=0.1) for rank in range(4)]
        service.receive_heartbeats(beats_body(*beats))
        turn(service, clock)
        answer = service.receive_heartbeats(beats_body(*beats))
    expected = [{"run": "job", "attempt": 0, "first": 10, "switch": 350, "then": 150, **OPEN}]
    assert answer["plans"] == expected
    with service_at(tmp_path / "a.sqlite", clock=clock) as again:
        assert again.receive_layouts(layouts_body())["plans"] == expected


def test_a_fixed_window_has_no_switch(tmp_path: Path, clock: FakeClock) -> None:
    with service_at(tmp_path / "a.sqlite", clock=clock, window_steps=20) as service:
        service.receive_layouts(layouts_body())
        beats = [make_beat(rank, ts_s=clock.now_s, step=500, p50_s=0.001) for rank in range(4)]
        service.receive_heartbeats(beats_body(*beats))
        turn(service, clock)
        plans = service.receive_heartbeats(beats_body(*beats))["plans"]
    assert plans == [{"run": "job", "attempt": 0, "first": 20, "switch": 0, "then": 0, **OPEN}]


def test_a_window_too_large_to_hold_fails_alone(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body(1).replace(b'"world_size":1', b'"world_size":1048576'))
    service.receive_windows(upload(make_window(0, 0, num_steps=1000)))
    turn(service, clock, after_s=60)
    assert statuses(service) == {0: "failed"}


def rename(service: Service, old: str, new: str) -> None:
    with service.store.write() as connection:
        connection.exec_driver_sql(f"ALTER TABLE {old} RENAME TO {new}")


def test_the_worker_outlives_a_database_that_fails(tmp_path: Path) -> None:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        service.receive_layouts(layouts_body())
        rename(service, "windows", "lost_windows")
        service.worker.start()
        wait_for(lambda: any("no such table" in trouble for trouble in service.published.troubles_now()))
        rename(service, "lost_windows", "windows")
        send(service, 0)
        wait_for(lambda: statuses(service) == {0: "analysed"})
        wait_for(lambda: service.published.troubles_now() == ())
        assert service.worker.is_alive
        service.worker.stop()


def test_a_last_word_is_heard_although_the_database_failed_just_then(
    tmp_path: Path, clock: FakeClock
) -> None:
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        service.receive_layouts(layouts_body())
        send(service, 0)
        turn(service, clock)
        beats = [make_beat(rank, ts_s=clock.now_s, state="ended", step=9) for rank in range(4)]
        service.receive_heartbeats(beats_body(*beats))
        rename(service, "windows", "lost_windows")
        with pytest.raises(OperationalError):
            turn(service, clock)
        rename(service, "lost_windows", "windows")
        turn(service, clock, after_s=service.settings.grace_s)
        with service.store.read() as connection:
            (attempt,) = queries.attempts(connection, "job")
        assert (attempt["status"], attempt["end_reason"]) == ("ended", "finished")


def test_the_worker_thread_starts_and_stops(tmp_path: Path) -> None:
    with service_at(tmp_path / "a.sqlite", clock=FakeClock()) as service:
        service.worker.start()
        assert service.worker.is_alive and service.obstacles() == []
        service.worker.stop()
        assert service.obstacles() == ["the analysis thread does not run"]


def test_a_service_on_a_used_store_takes_its_second_start(tmp_path: Path, clock: FakeClock) -> None:
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        service.receive_layouts(layouts_body())
        assert new_service(service.store, clock=clock).receive_layouts(layouts_body())["accepted"] == 4
