"""Disks that fill up, turn read-only or are damaged, and clocks that jump: said clearly, and over by themselves."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import Connection, event, select, update
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from argus.analytics.store import queries
from argus.analytics.store.tables import RANK_WINDOWS, WINDOWS
from argus.api.complaints import no_answer
from argus.api.http.app import make_app
from argus.api.service import Service
from argus.collectors.records.upload import CONTENT_TYPE
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, service_at, upload
from tests.api.process import Running, start, wait_for

SMALL = "16m"


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def service(tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    with service_at(tmp_path / "a.sqlite", clock=clock, grace_s=15.0, settle_s=5.0) as service:
        yield service


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "argus-test", str(folder)]
    if os.getuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def ready(service: Running) -> str:
    """What /readyz says, whatever its status."""
    import urllib.error
    import urllib.request

    try:
        with urllib.request.urlopen(f"{service.url}/readyz", timeout=30) as answer:
            return str(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.code} {error.read().decode()}"


@pytest.mark.slow
def test_a_full_disk_is_said_and_over_when_there_is_room(small_disk: Path) -> None:
    service = start(small_disk / "a.sqlite")
    try:
        assert service.post("/v1/ingest/layouts", layouts_body())[0] == 200
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        taken, window = 0, 0
        while (status := service.post("/v1/ingest/windows", body(window))[0]) == 200:
            taken, window = taken + 1, window + 1
            assert window < 10_000
        assert status == 503 and "takes no writes" in ready(service)
        filler.unlink()
        wait_for(lambda: ready(service) == "200")
        assert service.post("/v1/ingest/windows", body(window)) == (
            200,
            {"accepted": 4, "duplicates": 0, "rejected": []},
        )
        wait_for(lambda: service.get("/v1/runs/job")["attempts"][0]["windows"] == window + 1)
    finally:
        service.close()


def body(window: int) -> bytes:
    return upload(*(make_window(rank, window) for rank in range(4)))


@pytest.mark.slow
def test_a_read_only_disk_is_one_sentence_at_the_start(small_disk: Path) -> None:
    service = start(small_disk / "a.sqlite")
    assert service.terminate() == 0
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(AssertionError) as said:
        start(small_disk / "a.sqlite")
    assert "cannot open the database" in str(said.value) and "Traceback" not in str(said.value)
    assert "Error)" not in str(said.value), "the database's own words, not SQLAlchemy's around them"
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    service = start(small_disk / "a.sqlite")
    assert ready(service) == "200" and service.terminate() == 0


@contextmanager
def read_only(service: Service) -> Iterator[None]:
    """The database answers every write as it does on a disk that has turned read-only."""

    def refuse(connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA query_only = ON")

    event.listen(service.store.engine, "begin", refuse)
    try:
        yield
    finally:
        event.remove(service.store.engine, "begin", refuse)
        service.store.engine.dispose()  # connections made before keep the pragma


def test_a_disk_that_turns_read_only_refuses_and_comes_back(service: Service) -> None:
    client = TestClient(make_app(service))
    headers = {"content-type": CONTENT_TYPE}
    assert client.post("/v1/ingest/windows", content=body(0), headers=headers).status_code == 200
    with read_only(service):
        refused = client.post("/v1/ingest/windows", content=body(1), headers=headers)
        told = service.obstacles()
        assert client.get("/v1/runs/job").status_code == 200
    assert refused.status_code == 503 and refused.headers["retry-after"]
    assert any("readonly" in reason for reason in told)
    assert not any("takes no writes" in reason for reason in service.obstacles())
    assert client.post("/v1/ingest/windows", content=body(1), headers=headers).json()["accepted"] == 4


def test_what_kept_the_analysis_is_over_in_the_log_too(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="argus.worker")
    failed = "the analysis could not turn: OperationalError: attempt to write a readonly database"
    with read_only(service):
        with pytest.raises(OperationalError):
            service.receive_layouts(layouts_body())
        service.worker.start()
        wait_for(lambda: failed in caplog.messages)
    wait_for(lambda: f"over: {failed}" in caplog.messages)
    assert caplog.messages.count(failed) == 1


def test_a_damaged_file_is_said_and_a_restored_one_is_found(service: Service, tmp_path: Path) -> None:
    client = TestClient(make_app(service))
    headers = {"content-type": CONTENT_TYPE}
    for window in range(3):
        assert client.post("/v1/ingest/windows", content=body(window), headers=headers).status_code == 200
    service.store.close()
    db, whole = tmp_path / "a.sqlite", (tmp_path / "a.sqlite").read_bytes()
    db.write_bytes(whole[:4096] + b"\xa5" * (len(whole) - 4096))
    refused = client.post("/v1/ingest/windows", content=body(3), headers=headers)
    told = client.get("/readyz")
    assert refused.status_code == 503 and told.status_code == 503
    reasons = [*told.json()["reasons"], refused.json()["detail"]]
    said = [reason for reason in reasons if "the database does not answer" in reason]
    assert len(said) == 2 and all("see the service's disk" in reason for reason in said)
    for name in ("a.sqlite-wal", "a.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "backup").write_bytes(whole)
    (tmp_path / "backup").rename(db)
    assert not any("database" in reason for reason in client.get("/readyz").json()["reasons"])
    assert client.post("/v1/ingest/windows", content=body(3), headers=headers).json()["accepted"] == 4
    assert client.post("/v1/ingest/windows", content=body(1), headers=headers).json()["duplicates"] == 4


def test_of_a_database_server_that_is_away_no_address_is_told_but_what_to_look_at() -> None:
    said = no_answer(OperationalError("SELECT 1", {}, OSError("connection to db-7.internal:5432 refused")))
    assert "db-7" not in said and "SELECT" not in said
    assert "OperationalError" in said and "that it runs" in said and "hosts send" in said


def turn(service: Service, clock: FakeClock, *, after_s: float = 1.0) -> None:
    clock.now_s += after_s
    while service.worker.turn(clock.now_s):
        pass


def statuses(service: Service) -> dict[int, str]:
    with service.store.read() as connection:
        found = queries.windows(connection, 1, status=None, limit=100, offset=0)
    return {item["window"]: item["status"] for item in found.items}


def test_a_window_that_cannot_be_read_back_does_not_hold_up_the_next(
    service: Service, clock: FakeClock
) -> None:
    service.receive_layouts(layouts_body())
    service.receive_windows(body(0))
    with service.store.write() as connection:
        connection.execute(update(RANK_WINDOWS).values(body=b"\x28\xb5\x2f\xfd damaged"))
    service.receive_windows(body(1))
    turn(service, clock)
    assert statuses(service) == {0: "failed", 1: "analysed"}
    with service.store.read() as connection:
        assert "Zstd" in connection.execute(select(WINDOWS.c.error).where(WINDOWS.c.window == 0)).scalar_one()


def test_hosts_that_a_full_disk_refuses_are_not_lost(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())

    def say() -> None:
        service.receive_heartbeats(beats_body(*(make_beat(rank, ts_s=clock.now_s) for rank in range(4))))

    say()
    turn(service, clock)
    with read_only(service):
        for _ in range(60):
            with suppress(OperationalError):
                say()
            with suppress(OperationalError):
                turn(service, clock)
    for _ in range(8):  # until they try again
        turn(service, clock)
    say()
    turn(service, clock)
    with service.store.read() as connection:
        found = queries.incidents(connection, run="job", status=None, fault_class=None, limit=9, offset=0)
    assert found.total == 0
    for _ in range(20):
        turn(service, clock)
    with service.store.read() as connection:
        found = queries.incidents(connection, run="job", status=None, fault_class=None, limit=9, offset=0)
    assert found.total == 1


@pytest.mark.parametrize("jump_s", [86_400.0, -86_400.0, 3600.0, -3600.0, 20.0, -20.0])
def test_a_clock_that_jumps_loses_no_rank_and_goes_on(
    service: Service, clock: FakeClock, jump_s: float
) -> None:
    """The pulse sees the jump; what the analysis does then is done here."""
    service.receive_layouts(layouts_body())
    for window in range(6):
        beats = [make_beat(rank, ts_s=clock.now_s) for rank in range(4)]
        service.receive_heartbeats(beats_body(*beats))
        service.receive_windows(body(window))
        turn(service, clock)
        if window == 2:
            clock.now_s += jump_s
            service.worker.woke(clock.now_s)
            turn(service, clock)
    assert statuses(service) == dict.fromkeys(range(6), "analysed")
    (run,) = service.published.runs_now()
    assert run.ranks_lost == 0 and run.coverage_ratio == 1.0
    with service.store.read() as connection:
        found = queries.incidents(connection, run="job", status=None, fault_class=None, limit=9, offset=0)
    assert found.total == 0


@pytest.mark.parametrize("jump_s", [7200.0, -7200.0])
def test_an_open_window_outlives_a_jump_and_closes_soon_after(
    service: Service, clock: FakeClock, jump_s: float
) -> None:
    service.receive_layouts(layouts_body())
    service.receive_windows(upload(*(make_window(rank, 0) for rank in range(3))))
    turn(service, clock)
    clock.now_s += jump_s
    service.worker.woke(clock.now_s)
    turn(service, clock)
    assert statuses(service) == {0: "open"}
    service.receive_windows(upload(make_window(3, 0)))
    service.receive_windows(upload(*(make_window(rank, 1) for rank in range(3))))
    turn(service, clock)
    assert statuses(service) == {0: "analysed", 1: "open"}
    turn(service, clock, after_s=16.0)
    assert statuses(service) == {0: "analysed", 1: "analysed"}


def test_errors_of_a_write_are_told_until_one_succeeds(service: Service) -> None:
    with read_only(service), pytest.raises(OperationalError):
        service.receive_layouts(layouts_body())
    assert "readonly" in service.store.refusal
    service.receive_layouts(layouts_body())
    assert service.store.refusal == ""
