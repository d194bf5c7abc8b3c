"""What the store lets go of: old raw windows part by part, what is not analysed never, a window's numbers later."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from argus.analytics.store import orders, queries
from argus.analytics.store.retention import ROWS_AT_ONCE
from argus.analytics.store.tables import CAPTURES, FINDINGS, RANK_WINDOWS, WINDOWS
from argus.api.service import Service
from argus.collectors.records.order import Order
from tests.api.kit import FakeClock, layouts_body, make_window, service_at, upload

KEEP_S = 1000.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def service(tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    with service_at(
        tmp_path / "a.sqlite", clock=clock, keep_windows_s=KEEP_S, keep_numbers_s=10 * KEEP_S, grace_s=1e6
    ) as service:
        yield service


def turn(service: Service, clock: FakeClock, *, after_s: float = 1.0) -> None:
    clock.now_s += after_s
    while service.worker.turn(clock.now_s):
        pass


def raw(service: Service) -> dict[int, int]:
    """Parts that are kept of each window."""
    statement = select(RANK_WINDOWS.c.window, func.count()).group_by(RANK_WINDOWS.c.window)
    with service.store.read() as connection:
        return {row[0]: row[1] for row in connection.execute(statement)}


def kept_bytes(service: Service) -> list[int]:
    with service.store.read() as connection:
        return list(connection.execute(select(WINDOWS.c.num_bytes).order_by(WINDOWS.c.window)).scalars())


def send(service: Service, window: int, *, ranks: int) -> None:
    service.receive_windows(
        upload(*(make_window(rank, window, factor=2.0 if rank == 1 else 1.0) for rank in range(ranks)))
    )


def test_raw_windows_go_with_time_and_their_numbers_stay(service: Service, clock: FakeClock) -> None:
    ranks = ROWS_AT_ONCE + 10
    service.receive_layouts(layouts_body(ranks))
    send(service, 0, ranks=ranks)
    turn(service, clock)
    turn(service, clock, after_s=KEEP_S / 2)
    send(service, 1, ranks=ranks)
    turn(service, clock)
    assert raw(service) == {0: ranks, 1: ranks} and min(kept_bytes(service)) > 0
    turn(service, clock, after_s=KEEP_S * 0.6)
    assert raw(service) == {1: ranks}
    assert [number > 0 for number in kept_bytes(service)] == [False, True]
    with service.store.read() as connection:
        found = queries.windows(connection, 1, status="analysed", limit=10, offset=0)
        findings = connection.execute(select(func.count()).select_from(FINDINGS)).scalar_one()
    assert found.total == 2 and findings == 2


def test_numbers_and_findings_go_later_and_incidents_stay(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    send(service, 0, ranks=4)
    turn(service, clock)
    turn(service, clock, after_s=11 * KEEP_S)
    with service.store.read() as connection:
        numbers = connection.execute(select(WINDOWS.c.numbers)).scalar_one()
        findings = connection.execute(select(func.count()).select_from(FINDINGS)).scalar_one()
        incidents = queries.incidents(connection, run="job", status=None, fault_class=None, limit=9, offset=0)
    assert numbers is None and findings == 0 and incidents.total == 1


def test_a_window_that_waits_for_its_analysis_is_never_let_go(service: Service, clock: FakeClock) -> None:
    service.receive_layouts(layouts_body())
    send(service, 0, ranks=3)
    turn(service, clock, after_s=5 * KEEP_S)
    assert raw(service) == {0: 3}


def test_the_oldest_go_when_there_are_too_many_bytes(tmp_path: Path, clock: FakeClock) -> None:
    with service_at(tmp_path / "b.sqlite", clock=clock, keep_windows_bytes=1, keep_windows_s=40.0) as service:
        service.receive_layouts(layouts_body())
        for window in range(3):
            send(service, window, ranks=4)
            turn(service, clock)
        assert raw(service) == {0: 4, 1: 4, 2: 4}
        turn(service, clock, after_s=10.0)
        assert raw(service) == {}


def captured(service: Service) -> list[tuple[str, int]]:
    """Captures that are kept, with their ranks' number."""
    with service.store.read() as connection:
        rows = connection.execute(select(CAPTURES.c.id).order_by(CAPTURES.c.created_s)).scalars().all()
        found = [orders.capture(connection, row) for row in rows]
    return [(one["id"], len(one["bytes"])) for one in found if one is not None]


def capture(service: Service, clock: FakeClock, name: str, *, ranks: int) -> None:
    order = Order(
        id=0, kind="capture", run="job", attempt=0, ranks=tuple(range(ranks)), end_step=9, capture=name
    )
    with service.store.write() as connection:
        orders.add_capture(connection, 1, order, incident=None, now_s=clock.now_s)
        for rank in range(ranks):
            assert orders.add_part(connection, name, rank, body=bytes(100), now_s=clock.now_s)


def test_captures_go_with_time_though_nobody_asks_for_another(tmp_path: Path, clock: FakeClock) -> None:
    with service_at(tmp_path / "d.sqlite", clock=clock, keep_observations_s=KEEP_S) as service:
        service.receive_layouts(layouts_body())
        for name in ("c-1", "c-2"):
            capture(service, clock, name, ranks=40)
            turn(service, clock, after_s=0.7 * KEEP_S)
        turn(service, clock, after_s=1.0)
        assert captured(service) == [("c-2", 40)]
        turn(service, clock, after_s=KEEP_S)
        assert captured(service) == []


def test_the_oldest_captures_go_when_there_are_too_many_bytes(tmp_path: Path, clock: FakeClock) -> None:
    with service_at(tmp_path / "d.sqlite", clock=clock, keep_captures_bytes=5000) as service:
        service.receive_layouts(layouts_body())
        for name in ("c-1", "c-2", "c-3"):
            capture(service, clock, name, ranks=20)
            clock.now_s += 1
        turn(service, clock, after_s=700.0)
        assert captured(service) == [("c-2", 20), ("c-3", 20)]


def test_a_restart_sees_again_what_is_kept(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "c.sqlite"
    for number in range(2):
        with service_at(path, clock=clock, keep_windows_s=40.0) as service:
            if not number:
                service.receive_layouts(layouts_body())
                send(service, 0, ranks=4)
                turn(service, clock)
                turn(service, clock, after_s=60.0)
                assert raw(service) == {}
            send(service, number + 1, ranks=4)
            turn(service, clock)
            assert service.published.troubles_now() == ()
