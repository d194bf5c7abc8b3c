"""After an outage: what waited on hosts is taken in turn, becomes history, and wakes nobody up."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient
from zstandard import ZstdCompressor

from argus.analytics.history import DAY_S, day_of
from argus.analytics.store import bodies, progress
from argus.analytics.store.history_tables import UNIT_DAYS
from argus.analytics.store.tables import INCIDENT_EVENTS
from argus.api.cli.status import render
from argus.api.http.app import make_app
from argus.api.http.limits import MAX_WAIT_S, Buckets, Queue
from argus.api.ingest import parse_windows
from argus.api.late import MARK
from argus.api.service import Service
from argus.collectors.records.errors import NewerError, WireError
from argus.collectors.records.upload import (
    CONTENT_TYPE,
    OLDEST_WIRE,
    REPLAY_S,
    WIRE_VERSION,
    check_wire,
    encode_windows,
    open_windows,
    parse_age,
)
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, service_at, upload

OLD = {"content-type": CONTENT_TYPE, "argus-wire": "2", "argus-age": str(2 * DAY_S)}
JSON = {"content-type": "application/json"}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def service(tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    with service_at(tmp_path / "a.sqlite", clock=clock, max_replay_s=2.0) as service:
        service.receive_layouts(layouts_body())
        yield service


@pytest.fixture
def client(service: Service) -> TestClient:
    return TestClient(make_app(service), raise_server_exceptions=False)


def bad_window(index: int) -> bytes:
    """Rank 2 is three times as slow: in a window of now it is an incident at once."""
    return upload(*(make_window(rank, index, factor=3.0 if rank == 2 else 1.0) for rank in range(4)))


@pytest.mark.parametrize("first", [0, 1], ids=["the_fresh_first", "the_old_first"])
def test_a_window_is_of_now_or_late_with_all_its_ranks(
    client: TestClient, service: Service, clock: FakeClock, first: int
) -> None:
    halves = [upload(*(make_window(rank, 0) for rank in ranks)) for ranks in ((0, 1), (2, 3))]
    ages = [{**OLD, "argus-age": str(age_s)} for age_s in (REPLAY_S - 5, REPLAY_S + 5)]
    for number in (first, 1 - first):
        answer = client.post("/v1/ingest/windows", content=halves[number], headers=ages[number])
        assert answer.json()["accepted"] == 2
    service.worker.turn(clock.now_s)
    (window,) = client.get("/v1/runs/job/windows").json()["items"]
    assert window["status"] == ("late" if first else "analysed")
    assert window["coverage"]["ratio"] == 1.0 and window["error"] is None


def test_what_waited_becomes_history_and_no_incident(
    client: TestClient, service: Service, clock: FakeClock
) -> None:
    assert client.post("/v1/ingest/windows", content=bad_window(0), headers=OLD).json()["accepted"] == 4
    service.worker.turn(clock.now_s)
    assert client.get("/v1/incidents").json()["total"] == 0
    with service.store.read() as connection:
        assert not connection.execute(select(INCIDENT_EVENTS.c.id)).all()
    (finding,) = client.get("/v1/runs/job/findings").json()["items"]
    (mark,) = [one for one in finding["evidence"] if one["name"] == MARK]
    assert finding["ranks"] == [2] and mark["value"] == pytest.approx(2 * DAY_S)
    (window,) = client.get("/v1/runs/job/windows").json()["items"]
    assert window["status"] == "late" and window["coverage"]["ratio"] == 1.0 and window["error"] is None
    (point,) = client.get("/v1/runs/job/series", params={"rank": [2]}).json()["points"]
    assert point["step_s"]["2"] == pytest.approx(0.3)
    with service.store.read() as connection:
        days = connection.execute(select(UNIT_DAYS.c.host, UNIT_DAYS.c.day, UNIT_DAYS.c.num)).all()
    assert {row.host for row in days} == {"h-0", "h-1"}
    assert {row.num for row in days} == {2}  # two ranks of a host, one window each
    assert {row.day for row in days} == {day_of(clock.now_s) - 2}  # the day it was made, not the one it came


def test_what_still_lasts_is_an_incident_of_now(
    client: TestClient, service: Service, clock: FakeClock
) -> None:
    client.post("/v1/ingest/windows", content=bad_window(0), headers=OLD)
    client.post("/v1/ingest/windows", content=bad_window(1), headers={"content-type": CONTENT_TYPE})
    service.worker.turn(clock.now_s)
    (incident,) = client.get("/v1/incidents").json()["items"]
    assert incident["suspects"] == [2]


def test_a_late_window_waits_for_its_ranks_and_is_looked_at_once(
    client: TestClient, service: Service, clock: FakeClock
) -> None:
    client.post("/v1/ingest/windows", content=upload(make_window(0, 0), make_window(1, 0)), headers=OLD)
    service.worker.turn(clock.now_s)
    assert client.get("/v1/runs/job/windows").json()["items"][0]["analysed_s"] is None
    clock.now_s += 700
    for _ in range(3):
        clock.now_s += 2
        service.worker.turn(clock.now_s)
    (window,) = client.get("/v1/runs/job/windows").json()["items"]
    assert window["coverage"]["missing_ranks"] == [2, 3]
    with service.store.read() as connection:
        assert set(connection.execute(select(UNIT_DAYS.c.num)).scalars()) == {2}  # two ranks, once each


def test_a_late_window_that_cannot_be_read_says_so(service: Service, clock: FakeClock) -> None:
    service.receive_windows(
        upload(*(make_window(rank, 0, run="bare") for rank in range(4))), age_s=REPLAY_S + 1
    )
    clock.now_s += 700
    service.worker.turn(clock.now_s)
    with service.store.read() as connection:
        (error,) = connection.exec_driver_sql("SELECT error FROM windows").scalars()
    assert "no layout record" in error


def test_a_detector_that_raises_on_a_late_window_costs_only_its_findings(
    client: TestClient, service: Service, clock: FakeClock
) -> None:
    thirteen = upload(*(make_window(rank, 0, num_steps=13) for rank in range(4)))
    client.post("/v1/ingest/windows", content=thirteen, headers=OLD)
    service.worker.turn(clock.now_s)
    (window,) = client.get("/v1/runs/job/windows").json()["items"]
    assert "thirteen steps" in window["error"] and window["coverage"]["ratio"] == 1.0
    assert client.get("/v1/runs/job/findings").json()["total"] == 0
    assert not service.published.troubles_now()


def test_replay_is_taken_in_turn_and_what_is_of_now_goes_on(
    client: TestClient, service: Service, clock: FakeClock
) -> None:
    now_s = [0.0]
    client.app.state.guard.ticks = lambda: now_s[0]  # type: ignore[attr-defined]
    answers = [client.post("/v1/ingest/windows", content=bad_window(n), headers=OLD) for n in range(8)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert 0 < len(refused) < 8
    assert all(answer.headers["content-type"] == "application/problem+json" for answer in refused)
    waits = [int(answer.headers["retry-after"]) for answer in refused]
    assert waits == sorted(waits) and waits[-1] > waits[0]
    fresh = client.post("/v1/ingest/windows", content=bad_window(20), headers={"content-type": CONTENT_TYPE})
    beats = client.post(
        "/v1/ingest/heartbeats", content=beats_body(make_beat(0, ts_s=clock.now_s)), headers=JSON
    )
    assert fresh.status_code == beats.status_code == 200
    now_s[0] += 60.0
    assert client.post("/v1/ingest/windows", content=bad_window(7), headers=OLD).status_code == 200


def test_places_in_the_queue_differ() -> None:
    now_s = [100.0]
    queue = Queue(per_s=10.0, ticks=lambda: now_s[0])
    waits = [queue.wait_s() for _ in range(5000)]
    taken = waits.count(0.0)
    assert 1 <= taken <= 11
    places = waits[taken:]
    assert all(0 < wait <= MAX_WAIT_S for wait in places)
    assert max(places.count(place) for place in set(places)) <= 5000 / (10.0 * MAX_WAIT_S) + 1
    assert Queue(per_s=0.0, ticks=lambda: 0.0).wait_s() == 0.0


def test_a_bucket_fills_again_and_the_oldest_names_go() -> None:
    now_s = [0.0]
    buckets = Buckets(per_s=1.0, ticks=lambda: now_s[0], burst_s=2.0, max_names=2)
    assert [buckets.wait_s("a") for _ in range(3)] == [0.0, 0.0, 1.0]
    now_s[0] = 1.0
    assert buckets.wait_s("a") == 0.0 and buckets.wait_s("a") > 0
    for name in "bcd":
        assert buckets.wait_s(name) == 0.0
    assert len(buckets._free_s) == 2
    assert Buckets(per_s=0.0, ticks=lambda: 0.0).wait_s("a") == 0.0


@pytest.mark.parametrize("header", [None, str(OLDEST_WIRE), str(WIRE_VERSION)])
def test_this_version_and_the_one_before_are_read(client: TestClient, header: str | None) -> None:
    assert check_wire(header) in (OLDEST_WIRE, WIRE_VERSION) and WIRE_VERSION - OLDEST_WIRE == 1
    headers = {"argus-wire": header} if header else {}
    for path, body, media in (
        ("layouts", layouts_body(), "application/json"),
        ("windows", bad_window(0), CONTENT_TYPE),
        ("heartbeats", beats_body(make_beat(0, ts_s=1.0)), "application/json"),
    ):
        answer = client.post(f"/v1/ingest/{path}", content=body, headers={"content-type": media, **headers})
        assert answer.status_code == 200


def one_frame(*windows: bytes) -> bytes:
    """What a host of wire 2 sends, and what still lies in the spool of one that was just upgraded."""
    return ZstdCompressor().compress(b"".join(struct.pack("<I", len(one)) + one for one in windows))


@pytest.mark.parametrize("header", ["2", "3"])
def test_windows_in_one_frame_are_stored_like_those_in_frames_of_their_own(
    client: TestClient, service: Service, header: str
) -> None:
    windows = [make_window(rank, 0).to_bytes() for rank in range(4)]
    headers = {"content-type": CONTENT_TYPE, "argus-wire": header}
    for body, part in ((one_frame(*windows[:2]), 2), (encode_windows(windows[2:]), 2)):
        assert client.post("/v1/ingest/windows", content=body, headers=headers).json()["accepted"] == part
    with service.store.read() as connection:
        attempt = progress.live_attempts(connection)[0].row.id
        assert progress.bodies_of(connection, attempt, 0, with_late=True) == windows


def test_a_frame_that_cannot_be_kept_as_it_came_is_made_anew_or_refused() -> None:
    window = make_window(0, 0).to_bytes()
    unsized = ZstdCompressor(write_content_size=False).compress(window)
    framed = [struct.pack("<I", len(frame)) + frame for frame in (unsized, ZstdCompressor().compress(window))]
    assert [bool(frame) for _, frame in open_windows(b"".join(framed))] == [False, True]
    assert [bodies.grow(item.body) for item in parse_windows(framed[0], max_bytes=1 << 20).items] == [window]
    longer = ZstdCompressor().compress(window) + b"more"
    for bad in (struct.pack("<I", len(longer)) + longer, framed[1][:-1], framed[1] + b"\0", b"", b"{}"):
        with pytest.raises(WireError):
            list(open_windows(bad))
    with pytest.raises(WireError, match="left of the limit"):
        list(open_windows(b"".join(framed), max_bytes=2 * len(window) - 1))


def test_versions_that_cannot_be_read_are_told_who_must_be_upgraded() -> None:
    with pytest.raises(NewerError, match="upgrade this side"):
        check_wire(str(WIRE_VERSION + 1))
    with pytest.raises(NewerError, match="upgrade the sender"):
        check_wire("0")
    for odd in ("", "x", "-1", "1.0", "²", "9" * 40):
        with pytest.raises(WireError):
            check_wire(odd)
    assert [parse_age(text) for text in ("nan", "-5", "1e99", "")] == [0.0, 0.0, 1e9, 0.0]


def test_status_shows_who_lags_behind(client: TestClient, clock: FakeClock) -> None:
    beat = make_beat(0, ts_s=clock.now_s).to_json()
    for wire, said in ((None, "upgrade this host"), (WIRE_VERSION + 1, "upgrade the service")):
        report = {"host": "h-0", "version": "0.0.9", **({} if wire is None else {"wire": wire})}
        body = {"host": "h-0", "heartbeats": [beat], "processor": report}
        assert client.post("/v1/ingest/heartbeats", json=body).status_code == 200
        lines = "\n".join(render(client.get("/v1/runs/job/status").json()))
        assert said in lines
