"""The same store and service on a real PostgreSQL."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from argus.analytics.store import queries
from argus.analytics.store.engine import Store
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
