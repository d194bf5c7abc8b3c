"""What a processor loses while its service is away, refuses or stalls: nothing, or it is counted."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import NoReturn

import pytest

from argus.collectors.host import delivery
from argus.collectors.host import ranks as ranks_module
from argus.collectors.host.fake_host import FakeHost
from argus.collectors.host.fake_service import FakeService, Reply
from argus.collectors.records.frames import Kind
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import MAX_REASONS

LAYOUT = Layout(run="run", attempt=0, rank=0, world_size=8, host="host-1", pid=os.getpid())
PLAN = WindowPlan()
Start = Callable[..., FakeHost]


@pytest.mark.slow
def test_an_outage_loses_nothing(start: Start, service: FakeService) -> None:
    host = start()
    service.fail = lambda path: Reply(status=503)
    rank = host.connect()
    rank.play(0, 61)
    assert host.wait_for(lambda: host.counters.get("argus_collector_upload_failures_total", "503") > 2)
    assert not service.windows and host.counters.get("argus_collector_spool_bytes") > 0
    service.fail = lambda path: None
    assert service.wait_for(lambda s: len(s.windows) == 6)
    assert service.num_duplicates == 0
    assert host.wait_for(lambda: host.counters.get("argus_collector_spool_bytes") == 0)


@pytest.mark.slow
def test_a_service_that_cuts_connections_after_storing_gets_no_window_twice(
    start: Start, service: FakeService
) -> None:
    host = start()
    left = [2]

    def cut_twice(path: str) -> Reply | None:
        left[0] -= path.endswith("windows")
        return Reply(status=0) if left[0] >= 0 and path.endswith("windows") else None

    service.fail = cut_twice
    host.connect().play(0, 21)
    assert service.wait_for(lambda s: len(s.windows) == 2)


@pytest.mark.slow
def test_windows_lost_on_the_way_are_counted_in_the_next_one(
    start: Start, service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planted(*_args: object, **_kwargs: object) -> NoReturn:
        raise RuntimeError("planted")

    host = start()
    rank = host.connect()
    lost = "argus_collector_dropped_windows_total"
    with monkeypatch.context() as patch:
        patch.setattr(delivery, "pack_hosts", planted)
        rank.play(0, 11)
        assert host.wait_for(lambda: host.counters.get(lost, "error") == 1)
    service.fail = lambda path: Reply(status=422) if path.endswith("windows") else None
    rank.play(11, 21)
    assert host.wait_for(lambda: host.counters.get(lost, "refused") == 1)
    service.fail = lambda path: None
    rank.play(21, 41)
    assert service.wait_for(lambda s: len(s.windows) == 2)
    told = [dict(window.dropped) for _, window in sorted(service.windows.items())]
    assert told == [{"windows_lost": 1}, {}]  # the refused one took along its word of the one before
    assert any("could not be packed" in line for line in host.said)


@pytest.mark.slow
def test_a_window_that_names_all_reasons_it_may_tells_of_those_lost_on_the_way(
    start: Start, service: FakeService
) -> None:
    host = start()
    host.counters.add("argus_collector_dropped_windows_total", "error")
    rank = host.connect()
    for first in (0, 32):
        rank.send(Kind.DROPS, {f"reason {number}": 1 for number in range(first, first + 32)})
    rank.play(0, 21)
    assert service.wait_for(lambda s: len(s.windows) == 2)
    window = min(service.windows.items())[1]
    assert len(window.dropped) == MAX_REASONS and window.dropped["windows_lost"] == 1


@pytest.mark.slow
def test_a_stalled_service_does_not_hold_up_the_ranks(
    start: Start,
) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    host = start(url=f"http://127.0.0.1:{listening.getsockname()[1]}")
    rank = host.connect()
    for first in range(0, 100, 10):
        rank.play(first, first + 10)
    assert host.wait_for(lambda: host.counters.get("argus_collector_rows_total", "steps") == 100)
    assert host.wait_for(lambda: host.counters.get("argus_collector_windows_total") >= 9)
    listening.close()


@pytest.mark.slow
def test_ranks_that_came_and_went_without_a_service_leave_room_for_others(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranks_module, "LEAVE_S", 0.0)
    monkeypatch.setattr(ranks_module, "MAX_UNTOLD", 3)
    host = start(url="http://127.0.0.1:9")
    for attempt in range(8):
        rank = host.connect(attempt=attempt)
        rank.bye()
    living = host.connect(rank=1)
    living.status(1)
    assert host.wait_for(lambda: len(host.ranks) == 4 and host.ranks.find(living.layout) is not None)
    assert sorted(member.state.layout.attempt for member in host.ranks) == [0, 5, 6, 7]
