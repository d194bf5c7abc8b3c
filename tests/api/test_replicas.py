"""Two services on one PostgreSQL: one analyses, the other takes over, nothing is done twice."""

from __future__ import annotations

import time
import urllib.request

import pytest
from sqlalchemy import event, select, text, update
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from argus.analytics.store import intake, queries
from argus.analytics.store.engine import Store, open_store
from argus.analytics.store.leader import Leadership, NotLeading
from argus.analytics.store.tables import FINDINGS, HEARTBEATS, INCIDENT_EVENTS, RANK_WINDOWS
from argus.api.service import Service
from argus.collectors.records.plan import WindowPlan
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, new_service, upload
from tests.api.process import Running, start, wait_for

pytestmark = pytest.mark.slow


def leads(service: Running) -> bool:
    with urllib.request.urlopen(f"{service.url}/metrics", timeout=30) as answer:
        return "argus_leader 1.0" in answer.read().decode()


def send(service: Running, window: int) -> None:
    rows = [make_window(rank, window, factor=2.0 if rank == 1 and window else 1.0) for rank in range(4)]
    status, answer = service.post("/v1/ingest/windows", upload(*rows))
    assert status == 200 and answer["accepted"] == 4


def analysed(store: Store) -> list[int]:
    with store.read() as connection:
        found = queries.windows(connection, 1, status="analysed", limit=100, offset=0)
    return sorted(item["window"] for item in found.items)


@pytest.mark.long
def test_one_leads_and_the_other_takes_over_when_it_is_killed(postgres: Store, postgres_url: str) -> None:
    settings = {"ARGUS_SETTLE_S": "0", "ARGUS_GRACE_S": "60"}
    services = [start(postgres_url, **settings) for _ in range(2)]
    try:
        wait_for(lambda: sum(map(leads, services)) == 1)
        assert services[0].post("/v1/ingest/layouts", layouts_body())[0] == 200
        for window in range(4):
            send(services[window % 2], window)
        wait_for(lambda: analysed(postgres) == [0, 1, 2, 3])
        first = next(service for service in services if leads(service))
        (other,) = (service for service in services if service is not first)
        assert not leads(other)
        first.kill()
        for window in range(4, 8):
            send(other, window)
        wait_for(lambda: analysed(postgres) == list(range(8)) and leads(other))
        assert other.get("/readyz")["status"] == "ok"
        assert other.terminate() == 0
    finally:
        for service in services:
            service.close()
    with postgres.read() as connection:
        incidents = queries.incidents(
            connection, run="job", status=None, fault_class=None, limit=10, offset=0
        ).items
        events = list(connection.execute(select(INCIDENT_EVENTS.c.what)).scalars())
        findings = sorted(connection.execute(select(FINDINGS.c.window)).scalars())
        parts = connection.execute(select(RANK_WINDOWS.c.rank)).all()
    assert [item["suspects"] for item in incidents] == [[1]] and events == ["opened"]
    assert findings == list(range(1, 8)) and len(parts) == 32


def test_who_lost_the_lock_can_write_no_more(postgres: Store) -> None:
    first, second = Leadership(postgres), Leadership(postgres)
    try:
        assert first.hold() and first.hold() and not second.hold()
        with first.store.write() as connection:
            pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with postgres.write() as connection:
            connection.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
        deadline = time.monotonic() + 30
        while not second.hold():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        with pytest.raises(Exception, match=r"terminat|closed"), first.store.write() as connection:
            connection.execute(text("SELECT 1"))
        assert not first.hold()
        with pytest.raises(NotLeading), first.store.write():
            raise AssertionError("no transaction without the lock")
    finally:
        first.release()
        second.release()


def test_the_leader_hears_heartbeats_that_came_to_another_replica(postgres: Store) -> None:
    clock = FakeClock()
    leader, other = new_service(postgres, clock=clock), new_service(postgres, clock=clock)
    leader.receive_layouts(layouts_body())
    try:
        for _ in range(10):
            beats = [make_beat(rank, ts_s=clock.now_s) for rank in range(4)]
            other.receive_heartbeats(beats_body(*beats))
            leader.worker.turn(clock.now_s)
            other.worker.turn(clock.now_s)
            clock.now_s += 5
        assert leader.worker.is_leader and not other.worker.is_leader
        (run,) = leader.published.runs_now()
        assert run.ranks_lost == 0 and run.hosts_silent == 0 and other.published.runs_now() == ()
        for _ in range(10):
            leader.worker.turn(clock.now_s)
            clock.now_s += 5
        assert leader.published.runs_now()[0].ranks_lost == 4
    finally:
        leader.worker.stop()
        other.worker.stop()


def test_a_last_word_whose_commit_took_long_is_heard(postgres: Store) -> None:
    clock = FakeClock()
    leader = new_service(postgres, clock=clock)
    leader.receive_layouts(layouts_body())
    leader.receive_heartbeats(beats_body(*(make_beat(rank, ts_s=clock.now_s) for rank in range(4))))
    turn(leader, clock)
    try:
        with postgres.write() as connection:
            last = [make_beat(rank, ts_s=clock.now_s, state="ended") for rank in range(4)]
            attempts = intake.ensure_attempts(connection, [("job", 0)], plan=WindowPlan(), now_s=clock.now_s)
            intake.add_heartbeats(connection, last, attempts=attempts, now_s=clock.now_s)
            for _ in range(8):
                turn(leader, clock)
        for _ in range(60):
            turn(leader, clock)
        with postgres.read() as connection:
            (told,) = queries.attempts(connection, "job")
        assert told["end_reason"] == "finished" and leader.published.open_now() == ()
    finally:
        leader.worker.stop()


def turn(service: Service, clock: FakeClock) -> None:
    clock.now_s += 1.0
    while service.worker.turn(clock.now_s):
        pass


def refuse(*_: object) -> None:
    raise OperationalError("connect", None, Exception("no route to host"))


def test_who_was_cut_off_and_leads_again_knows_what_the_other_did_meanwhile(
    postgres: Store, postgres_url: str
) -> None:
    clock, mine = FakeClock(), open_store(postgres_url)
    cut, other = new_service(mine, clock=clock), new_service(postgres, clock=clock)
    try:
        turn(cut, clock)
        other.receive_layouts(layouts_body())
        for window, factor in enumerate((1.0, 2.0)):
            rows = [make_window(rank, window, factor=factor if rank == 1 else 1.0) for rank in range(4)]
            other.receive_windows(upload(*rows))
            turn(cut, clock)
        assert len(cut.published.open_now()) == 1
        event.listen(mine.engine, "do_connect", refuse)
        with postgres.write() as connection:
            others = "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            connection.execute(text(f"SELECT pg_terminate_backend(pid) {others}"))
        with pytest.raises(SQLAlchemyError):
            turn(cut, clock)
        other.receive_windows(upload(*(make_window(rank, 2) for rank in range(4))))
        turn(other, clock)
        assert other.worker.is_leader and other.published.open_now() == ()
        other.worker.stop()
        event.remove(mine.engine, "do_connect", refuse)
        turn(cut, clock)
        assert cut.worker.is_leader and cut.published.open_now() == ()
    finally:
        cut.worker.stop()
        other.worker.stop()
        mine.close()


def test_who_leads_no_more_complains_of_no_attempt_that_the_other_looks_at(
    postgres: Store, postgres_url: str
) -> None:
    clock, mine = FakeClock(), open_store(postgres_url)
    cut, other = new_service(mine, clock=clock), new_service(postgres, clock=clock)
    try:
        cut.receive_layouts(layouts_body())
        cut.receive_heartbeats(beats_body(make_beat(0, ts_s=clock.now_s)))
        with postgres.write() as connection:
            connection.execute(update(HEARTBEATS).values(body="{"))
        turn(cut, clock)
        assert cut.worker.is_leader and "'job' cannot be taken up" in "".join(cut.published.troubles_now())
        with postgres.write() as connection:
            held = "FROM pg_locks WHERE locktype = 'advisory' AND granted"
            connection.execute(text(f"SELECT pg_terminate_backend(pid) {held}"))
        wait_for(lambda: other.worker.turn(clock.now_s) or other.worker.is_leader)
        turn(cut, clock)
        assert not cut.worker.is_leader and cut.published.troubles_now() == ()
    finally:
        cut.worker.stop()
        other.worker.stop()
        mine.close()
