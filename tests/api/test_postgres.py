"""The same store and service on a real PostgreSQL."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait

import pytest
from sqlalchemy import Connection, text

from argus.analytics.store import conversations, investigations, orders, queries
from argus.analytics.store.conversations import Conversation
from argus.analytics.store.engine import Store
from argus.analytics.store.investigations import Investigation
from argus.collectors.records.order import Order
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, new_service, upload

pytestmark = pytest.mark.slow


def test_a_job_goes_through(postgres: Store) -> None:
    clock = FakeClock()
    service = new_service(postgres, clock=clock)
    service.receive_layouts(layouts_body())
    service.receive_heartbeats(beats_body(*(make_beat(rank, ts_s=clock.now_s) for rank in range(4))))
    for window in range(5):
        rows = [make_window(r, window, factor=2.0 if r == 2 and 1 <= window < 4 else 1.0) for r in range(4)]
        assert service.receive_windows(upload(*rows))["accepted"] == 4
        assert service.receive_windows(upload(*rows[:2]))["duplicates"] == 2
        clock.now_s += 1
        service.worker.turn(clock.now_s)
    with postgres.read() as connection:
        found = queries.incidents(connection, run="job", status=None, fault_class=None, limit=10, offset=0)
        windows = queries.windows(connection, 1, status="analysed", limit=10, offset=0)
        assert queries.runs(connection, limit=10, offset=0).items[0]["windows"] == 5
    assert [(item["status"], item["suspects"]) for item in found.items] == [("resolved", [2])]
    assert windows.total == 5 and service.published.troubles_now() == ()
    service.worker.stop()


def test_uploads_at_the_same_time_store_each_window_once(postgres: Store) -> None:
    service = new_service(postgres, clock=FakeClock())
    service.receive_layouts(layouts_body())
    body = upload(*(make_window(rank, window) for rank in range(4) for window in range(10)))
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: service.receive_windows(body), range(8)))
    assert sum(int(str(answer["accepted"])) for answer in answers) == 40
    assert sum(int(str(answer["duplicates"])) for answer in answers) == 7 * 40


def test_text_no_database_can_hold_is_refused_before_it(postgres: Store) -> None:
    service = new_service(postgres, clock=FakeClock())
    beat = make_beat(0, ts_s=1.0).to_json()
    beat["exit_reason"] = "signal\x00\ud8009"
    from argus.analytics.store.documents import dump

    answer = service.receive_heartbeats(dump({"host": "h", "heartbeats": [beat]}).encode())
    assert answer["accepted"] == 1
    with postgres.read() as connection:
        (kept,) = queries.heartbeats(connection, 1, limit=10, offset=0).items
    assert kept["exit_reason"] == "signal\x00\ud8009"


def test_an_order_that_is_committed_after_a_later_one_reaches_its_host(postgres: Store) -> None:
    service = new_service(postgres, clock=FakeClock())
    service.receive_layouts(layouts_body())
    service.receive_heartbeats(beats_body(*(make_beat(rank, ts_s=1.0) for rank in range(4))))
    order = Order(id=0, kind="pin", run="job", attempt=0, ranks=(0, 1), first_step=0, end_step=10)

    def second() -> None:
        with postgres.write() as connection:
            orders.add_order(connection, 1, order, now_s=1.0)

    with ThreadPoolExecutor(1) as pool:
        with postgres.write() as connection:
            orders.add_order(connection, 1, order, now_s=1.0)
            done = pool.submit(second)
            seen = _orders_once_it_waits(postgres, done)
        done.result()
    with postgres.read() as connection:
        later = orders.orders_for(connection, "h-0", after=max(seen, default=0), now_s=1.0)
    assert len(seen) + len(later) == 2
    service.worker.stop()


def _orders_once_it_waits(store: Store, done: Future[None]) -> list[int]:
    """Orders of a host once the other writer has committed, or waits for a lock."""
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    while True:
        with store.read() as connection:
            if done.done() or connection.execute(waiting).scalar_one():
                return [one["id"] for one in orders.orders_for(connection, "h-0", after=0, now_s=1.0)]
        time.sleep(0.01)


def test_two_who_speak_in_one_conversation_at_once_are_both_kept(postgres: Store) -> None:
    about = Conversation(id="c", run="job", incident_id=None, title="why", created_s=1.0, updated_s=1.0)
    asked = Investigation(
        id="i", run="job", incident_id=None, question="why", asked_by="me", created_s=1.0, updated_s=1.0
    )
    with postgres.write() as connection:
        conversations.begin(connection, about)
        investigations.add_investigation(connection, asked)

    def speak(connection: Connection) -> tuple[int, int]:
        entry = conversations.add_entry(connection, "c", role="user", body={"text": "why"}, now_s=2.0)
        return entry, investigations.add_event(connection, "i", what="asked", body={}, now_s=2.0)

    def second() -> tuple[int, int]:
        with postgres.write() as connection:
            return speak(connection)

    with ThreadPoolExecutor(1) as pool:
        with postgres.write() as connection:
            first = speak(connection)
            done = pool.submit(second)
            wait([done], timeout=0.2)
        assert (first, done.result()) == ((0, 1), (1, 2))
