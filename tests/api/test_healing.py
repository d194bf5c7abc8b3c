"""Damaged SQLite files: set aside, saved from, replaced; at the start and while the service runs."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, insert, select, update
from sqlalchemy.exc import SQLAlchemyError
from starlette.testclient import TestClient

from argus.analytics.store import queries
from argus.analytics.store.damage import damage_of
from argus.analytics.store.engine import open_store
from argus.analytics.store.gate import Unavailable
from argus.analytics.store.queries import Which
from argus.analytics.store.tables import (
    ATTEMPTS,
    FINDINGS,
    INCIDENTS,
    LAYOUTS,
    RANK_WINDOWS,
    SWITCHES,
    WINDOWS,
)
from argus.api import healing
from argus.api.charts.topologies import Topologies
from argus.api.healing import CannotHeal, heal_at_start, replace_damaged
from argus.api.http.app import make_app
from argus.api.migrate import is_newest
from argus.api.service import Service
from argus.api.store_facts import StoreFacts
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, service_at, upload
from tests.api.process import start

PAGE = 4096
NUM_WINDOWS = 8


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "a.sqlite"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The file of a service that has watched four ranks, of which rank 1 is slow."""
    db, clock = tmp_path_factory.mktemp("job") / "a.sqlite", FakeClock()
    with service_at(db, clock=clock) as service:
        service.receive_layouts(layouts_body())
        for window in range(NUM_WINDOWS):
            feed(service, clock, window)
    return db.read_bytes()


@pytest.fixture
def service(db: Path, clock: FakeClock, job: bytes) -> Iterator[Service]:
    """The same service, on a copy of its file."""
    db.write_bytes(job)
    with service_at(db, clock=clock) as service:
        turn(service, clock)
        yield service


def feed(service: Service, clock: FakeClock, window: int) -> None:
    ranks = (make_window(rank, window, factor=2.0 if rank == 1 else 1.0) for rank in range(4))
    service.receive_windows(upload(*ranks))
    turn(service, clock)


def turn(service: Service, clock: FakeClock) -> None:
    """What the analysis thread does, errors included."""
    clock.now_s += 1.0
    try:
        while service.worker.turn(clock.now_s):
            pass
    except SQLAlchemyError as error:
        service.worker.survive(error)


def count(service: Service) -> dict[str, int]:
    tables = (ATTEMPTS, LAYOUTS, WINDOWS, RANK_WINDOWS, FINDINGS, INCIDENTS)
    with service.store.read() as connection:
        return {
            table.name: connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables
        }


def overwrite(path: Path, first: int, num: int, rng: random.Random) -> None:
    with path.open("r+b") as file:
        file.seek(first)
        file.write(rng.randbytes(num))


def asides(db: Path) -> list[Path]:
    return [one for one in db.parent.glob("*.damaged-*") if not one.name.endswith((".json", "-wal", "-shm"))]


def report(aside: Path) -> dict[str, Any]:
    found = json.loads(Path(f"{aside}.json").read_text())
    assert isinstance(found, dict)
    return found


def heal(service: Service, clock: FakeClock) -> str:
    """Have the service meet the damage and repair it; what it says of it then."""
    for _ in range(3):
        with suppress(SQLAlchemyError):
            count(service)
        turn(service, clock)
    (reason,) = service.published.troubles_now()
    assert "was damaged" in reason
    return reason


def goes_on(service: Service, clock: FakeClock) -> bool:
    """Whether hosts that do what hosts do have their next window analysed."""
    beats = beats_body(*(make_beat(rank, ts_s=clock.now_s) for rank in range(2)))
    with pytest.raises(Unavailable):
        service.receive_heartbeats(beats)  # which is what has them send their layouts again
    service.receive_layouts(layouts_body())
    assert service.receive_heartbeats(beats)["accepted"] == 2
    feed(service, clock, NUM_WINDOWS)
    with service.store.read() as connection:
        statement = select(WINDOWS.c.status).where(WINDOWS.c.window == NUM_WINDOWS)
        return bool(connection.execute(statement).scalar_one() == "analysed")


@pytest.mark.parametrize("seed", [1, 2])
def test_pages_damaged_in_mid_run_cost_what_was_on_them(
    service: Service, db: Path, clock: FakeClock, seed: int
) -> None:
    rng, before = random.Random(seed), count(service)
    service.store.close()  # the log goes into the file
    num_pages = db.stat().st_size // PAGE
    for page in rng.sample(range(2, num_pages), k=num_pages // 10):
        overwrite(db, page * PAGE, PAGE, rng)
    damaged = db.read_bytes()
    told = heal(service, clock)
    (aside,) = asides(db)
    assert aside.read_bytes() == damaged and str(aside) in told
    after, lost = count(service), set(report(aside)["damaged_tables"])
    assert lost and all(after[name] <= num for name, num in before.items())
    if not lost & {"attempts", "windows", "incidents"}:  # else what hangs on them is lost, too
        assert all(after[name] == num for name, num in before.items() if name not in lost)
    assert not damage_of(db, with_tables=True)
    assert goes_on(service, clock)


def test_rows_around_a_damaged_page_are_saved(service: Service, db: Path, clock: FakeClock) -> None:
    """Many rows, and pages in the midst of their table: those before and after stay."""
    with service.store.write() as connection:
        rows = [{"run": f"run-{number:05d}", "is_off": True, "at_s": 1.0} for number in range(4000)]
        connection.execute(insert(SWITCHES), rows)
        statement = "SELECT pageno FROM dbstat WHERE name = 'switches' AND pagetype = 'leaf' ORDER BY path"
        pages = list(connection.exec_driver_sql(statement).scalars())
    service.store.close()
    for page in pages[10:12]:
        overwrite(db, (page - 1) * PAGE, PAGE, random.Random(page))
    with pytest.raises(SQLAlchemyError), service.store.read() as connection:
        connection.execute(select(SWITCHES)).all()
    heal(service, clock)
    with service.store.read() as connection:
        kept = set(connection.execute(select(SWITCHES.c.run)).scalars())
    assert len(pages) > 10 and "switches" in report(asides(db)[0])["damaged_tables"]
    assert {"run-00000", "run-03999"} <= kept and 1 - 3 / len(pages) < len(kept) / 4000 < 1


def test_a_damaged_header_leaves_nothing_to_save_and_the_service_goes_on(
    service: Service, db: Path, clock: FakeClock
) -> None:
    service.store.close()
    overwrite(db, 0, 100, random.Random(7))
    assert "0 rows were saved" in heal(service, clock)
    assert goes_on(service, clock)


def test_layouts_that_were_read_of_the_old_file_are_not_taken_for_those_of_the_new(
    service: Service, db: Path, clock: FakeClock
) -> None:
    """The new file numbers its attempts from 1 again, and other runs may be the first to speak."""
    facts, topologies = StoreFacts.of(service.store), Topologies(store=service.store, live=lambda: ())
    with service.store.read() as connection:
        before = queries.attempt_of(connection, "job", attempt=None)
    assert before is not None and before.id == 1
    assert topologies.of(before) is not None and facts.fleets.of(before.id) is not None
    service.store.close()
    overwrite(db, 0, 100, random.Random(7))
    heal(service, clock)
    service.receive_layouts(layouts_body(run="other", world=2))
    other = Which(id=1, run="other", attempt=0)
    found, fleet = topologies.of(other), facts.fleets.of(other.id)
    assert found is not None and found.world_size == 2
    assert fleet is not None and fleet.topology.world_size == 2


@pytest.mark.parametrize("size", [0, 10 * PAGE])
def test_a_file_that_was_cut_is_replaced(service: Service, db: Path, clock: FakeClock, size: int) -> None:
    service.store.close()
    with db.open("r+b") as file:
        file.truncate(size)
    heal(service, clock)
    assert asides(db)[0].stat().st_size == max(size, PAGE) and goes_on(service, clock)


def test_a_schema_that_is_no_text_any_more_is_damage(
    service: Service, db: Path, clock: FakeClock, job: bytes
) -> None:
    """SQLite quotes it in its message, and then the message is none."""
    service.store.close()
    db.write_bytes(job.replace(b"CREATE TABLE ", b"CREATE \xff\xfeBLE "))
    with pytest.raises(Unavailable):
        count(service)
    heal(service, clock)
    assert goes_on(service, clock)


def test_text_that_is_none_any_more_is_damage_although_every_page_is_whole(
    service: Service, db: Path, clock: FakeClock, job: bytes
) -> None:
    service.store.close()
    db.write_bytes(job.replace(b"compute.slow", b"compute.\xffl\xffw"))
    for _ in range(4):
        with suppress(SQLAlchemyError), service.store.read() as connection:
            connection.execute(select(INCIDENTS)).all()
        turn(service, clock)
    assert "incidents" in report(asides(db)[0])["damaged_tables"]
    assert count(service)[RANK_WINDOWS.name] == 4 * NUM_WINDOWS and goes_on(service, clock)


def test_an_attempt_that_cannot_be_read_does_not_stop_the_others(
    service: Service, db: Path, clock: FakeClock, job: bytes
) -> None:
    with service.store.write() as connection:
        connection.execute(update(INCIDENTS).values(body="{"))
    with service_at(db, clock=clock) as again:
        again.receive_layouts(layouts_body(run="other"))
        again.receive_windows(upload(*(make_window(rank, 0, run="other") for rank in range(4))))
        turn(again, clock)
        (told,) = [told for told in again.published.troubles_now() if "'job' cannot be taken up" in told]
        assert "Error" not in told and told.partition("taken up: ")[2]
        assert [run.run for run in again.published.runs_now()] == ["other"]


def test_a_damaged_log_is_not_written_into_the_file(service: Service, db: Path, clock: FakeClock) -> None:
    feed(service, clock, NUM_WINDOWS)
    main, log = db.read_bytes(), db.with_name("a.sqlite-wal")
    assert log.stat().st_size > 4 * PAGE
    overwrite(log, PAGE, log.stat().st_size - PAGE, random.Random(5))
    with service.store.read(), pytest.raises(SQLAlchemyError):
        count(service)  # on a connection that has not read it before
    heal(service, clock)
    (aside,) = asides(db)
    assert aside.read_bytes() == main and Path(f"{aside}-wal").exists()
    assert count(service)[RANK_WINDOWS.name] == 4 * NUM_WINDOWS and goes_on(service, clock)


def test_while_it_is_repaired_everything_is_answered_503_with_the_reason(service: Service) -> None:
    client = TestClient(make_app(service))
    assert service.store.gate.close(healing.REPAIRING, wait_s=0.0)
    told = client.get("/readyz")
    refused = client.post(
        "/v1/ingest/layouts", content=layouts_body(), headers={"content-type": "application/json"}
    )
    service.store.gate.open()
    assert told.status_code == 503 and healing.REPAIRING in told.json()["reasons"]
    assert refused.status_code == 503 and refused.json()["detail"] == healing.REPAIRING
    assert refused.headers["retry-after"]


def test_a_file_that_was_restored_by_hand_meanwhile_is_kept(
    service: Service, db: Path, clock: FakeClock, job: bytes
) -> None:
    service.store.close()
    overwrite(db, 0, 100, random.Random(7))
    with pytest.raises(SQLAlchemyError):
        count(service)
    (db.parent / "backup").write_bytes(job)
    (db.parent / "backup").rename(db)
    turn(service, clock)
    assert not asides(db) and not service.store.suspicion and count(service)[WINDOWS.name] == NUM_WINDOWS


def test_a_disk_that_damages_one_file_after_another_is_said(
    service: Service, db: Path, clock: FakeClock
) -> None:
    for number in range(healing.MAX_ASIDE):
        db.with_name(f"a.sqlite.damaged-{number}").touch()
    service.store.close()
    overwrite(db, 0, 100, random.Random(7))
    for _ in range(3):
        with suppress(SQLAlchemyError):
            count(service)
        turn(service, clock)
    assert any("look at the disk" in told for told in service.published.troubles_now())
    assert db.read_bytes()[100:] and len(asides(db)) == healing.MAX_ASIDE


def test_no_room_for_a_fresh_file_leaves_the_damaged_one(
    db: Path, job: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    db.write_bytes(job)
    monkeypatch.setattr(healing, "salvage", full)
    with pytest.raises(CannotHeal, match="No space left"):
        replace_damaged(db, reason="test", now_s=0.0)
    assert db.read_bytes() == job and not asides(db)


def test_damage_is_met_at_the_start(db: Path, job: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    db.write_bytes(job)
    assert heal_at_start(db, now_s=0.0) is None
    pages = len(job) // PAGE
    overwrite(db, pages // 2 * PAGE, pages // 4 * PAGE, random.Random(2))
    repair = heal_at_start(db, now_s=0.0)
    assert repair is not None and repair.aside == asides(db)[0]
    assert heal_at_start(db, now_s=0.0) is None
    overwrite(db, 0, 100, random.Random(3))
    monkeypatch.setattr(healing, "LOOK_BYTES", 0)  # as if it were large
    assert heal_at_start(db, now_s=1.0) is not None
    store = open_store(str(db))
    try:
        assert is_newest(store)
    finally:
        store.close()


def test_a_file_that_is_none_of_ours_is_left_alone(db: Path) -> None:
    db.write_bytes(b"step,loss\n" * 1000)
    with pytest.raises(CannotHeal, match="no database of ours"):
        heal_at_start(db, now_s=0.0)
    assert not asides(db) and db.read_bytes().startswith(b"step,loss")


@pytest.mark.slow
def test_a_service_started_on_a_damaged_file_says_so_and_serves(db: Path, job: bytes) -> None:
    db.write_bytes(job)
    overwrite(db, 20 * PAGE, len(job) - 25 * PAGE, random.Random(4))
    service = start(db)
    try:
        told = service.get("/readyz")
        assert told["status"] == "degraded" and any("was damaged" in reason for reason in told["reasons"])
        assert service.post("/v1/ingest/windows", upload(make_window(0, 0)))[0] == 200
    finally:
        service.close()
