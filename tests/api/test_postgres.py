"""The same store and service on a real PostgreSQL."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, text

from argus.analytics.store import conversations, events, intake, investigations, orders, queries
from argus.analytics.store.conversations import Conversation
from argus.analytics.store.documents import dump
from argus.analytics.store.engine import Store, insert_new
from argus.analytics.store.intake import Arrival
from argus.analytics.store.investigations import Investigation
from argus.analytics.store.kernel_tables import KERNEL_NAMES
from argus.api.ingest import Parsed, parse_windows
from argus.collectors.records.kernel_blob import encode
from argus.collectors.records.kernels import CLUSTER, KernelSummary, name_hash
from argus.collectors.records.order import Order
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.plan import WindowPlan
from tests.api.kit import (
    FakeClock,
    beats_body,
    layouts_body,
    make_beat,
    make_layout,
    make_window,
    new_service,
    upload,
)

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


def test_who_reads_sees_one_state_whatever_others_write_meanwhile(postgres: Store) -> None:
    service = new_service(postgres, clock=FakeClock())
    service.receive_layouts(layouts_body())
    with postgres.read() as connection:
        before = queries.runs(connection, limit=10, offset=0).total
        service.receive_layouts(layouts_body(run="other"))
        assert queries.runs(connection, limit=10, offset=0).total == before == 1
    with postgres.read() as connection:
        assert queries.runs(connection, limit=10, offset=0).total == 2


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
    _until_it_waits(store, done)
    with store.read() as connection:
        return [one["id"] for one in orders.orders_for(connection, "h-0", after=0, now_s=1.0)]


def _until_it_waits(store: Store, done: Future[Any]) -> None:
    """Until the other writer waits for a lock, or has committed."""
    waiting = text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
    while not done.done():
        with store.read() as connection:
            if connection.execute(waiting).scalar_one():
                return
        time.sleep(0.01)


def test_those_who_launch_and_those_who_beat_wait_for_each_other_in_one_order(postgres: Store) -> None:
    service = new_service(postgres, clock=FakeClock())
    for run in "ba":  # the later one stands first by name
        service.receive_layouts(layouts_body(run=run))
    both = dump({"layouts": [make_layout(0, run=run).to_json() for run in "ab"]}).encode()
    with ThreadPoolExecutor(1) as pool:
        with postgres.write() as connection:
            intake.ensure_attempts(connection, [("b", 0)], plan=WindowPlan(), now_s=1.0)
            done = pool.submit(service.receive_layouts, both)
            _until_it_waits(postgres, done)
            intake.ensure_attempts(connection, [("a", 0), ("b", 0)], plan=WindowPlan(), now_s=1.0)
        assert done.result()["accepted"] == 2
    service.worker.stop()


def kernel_blob(name: str) -> bytes:
    """The packed summary of one kernel, with its name alone."""
    clusters = np.ones(1, CLUSTER)
    clusters["kernel"] = 0
    summary = KernelSummary(rank=0, kernels=((name, "compute"),), clusters=clusters)
    return encode([summary], names={name_hash(name): name})


def test_those_who_name_the_same_kernels_wait_for_each_other_in_one_order(postgres: Store) -> None:
    service = new_service(postgres, clock=FakeClock())
    names = sorted(("first", "second"), key=name_hash)

    def arrivals(window: int, name: str) -> Parsed[Arrival]:
        carrying = replace(make_window(0, window), kernels=kernel_blob(name))
        return parse_windows(upload(carrying), max_bytes=1 << 20)

    with ThreadPoolExecutor(1) as pool:
        with postgres.write() as connection:
            define = partial(connection.execute, insert_new(connection, KERNEL_NAMES))
            first, last = ({"hash": f"{name_hash(name):x}", "name": name} for name in names)
            define([first])
            batch = [arrivals(window, name) for window, name in enumerate(reversed(names))]
            done = pool.submit(service.receiving.store_windows, batch)
            _until_it_waits(postgres, done)
            define([last])
        assert [told.received is not None for told in done.result()] == [True, True]
    service.worker.stop()


def test_events_that_two_tell_at_once_are_stored_and_counted_once(postgres: Store) -> None:
    told = [OutsideEvent(time_s=float(n), node="host:h-1", source="ufm", text="port down") for n in range(2)]
    first, last = sorted(told, key=lambda one: one.id)

    def second() -> int:
        with postgres.write() as connection:
            return events.add_events(connection, [last, first], now_s=2.0, before_s=0.0)

    with ThreadPoolExecutor(1) as pool:
        with postgres.write() as connection:
            new = events.add_events(connection, [first], now_s=2.0, before_s=0.0)
            done = pool.submit(second)
            _until_it_waits(postgres, done)
            new += events.add_events(connection, [last], now_s=2.0, before_s=0.0)
        assert (new, done.result()) == (2, 0)


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
