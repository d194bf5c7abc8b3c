"""Clocks of hosts and of the service that jump or are far off: no stop is made up by them, and none hidden."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from argus.analytics.store import queries
from argus.api.cli.serve import product_analyses
from argus.api.service import Service
from argus.collectors.records.heartbeat import Heartbeat
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, service_at

pytestmark = pytest.mark.slow

RANKS = range(4)
BOTH = "01"
"""Numbers of the hosts."""

BEAT_S = 5.0
JUMPS = (3600.0, -3600.0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def service(tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    with service_at(tmp_path / "a.sqlite", clock=clock, analyses=product_analyses()) as made:
        made.receive_layouts(layouts_body())
        yield made


def beat(rank: int, now_s: float, *, step: int, began_s: float, jump_s: float) -> Heartbeat:
    """A rank's own clock never jumps; that of its processor, which says when it spoke, has jumped by `jump_s`."""
    made = make_beat(rank, ts_s=now_s, step=step)
    is_late = rank == 2 and now_s - began_s > BEAT_S
    groups = {"0": (step - is_late, step - 1)}
    status = replace(made.status, step_since_ns=int(began_s * 1e9), groups=groups, phase="backward")
    return replace(made, ts_s=now_s + jump_s, status=status)


def say(
    service: Service,
    clock: FakeClock,
    *,
    step: int,
    began_s: float,
    jump_s: float = 0.0,
    hosts: str = BOTH,
    hosts_off: str = "1",
) -> None:
    """Heartbeats of `hosts` (h-0 and h-1), the clocks of `hosts_off` off by `jump_s`; and 5 s pass."""
    for host in hosts:
        ranks = [rank for rank in RANKS if rank // 2 == int(host)]
        off_s = jump_s if host in hosts_off else 0.0
        beats = [beat(rank, clock.now_s, step=step, began_s=began_s, jump_s=off_s) for rank in ranks]
        service.receive_heartbeats(beats_body(*beats))
    turn(service, clock)


def train(
    service: Service, clock: FakeClock, *, jump_s: float = 0.0, hosts_off: str = "1", first: int = 10
) -> int:
    """Fifty seconds of steps; the number of the last."""
    for step in range(first, first + 10):
        say(service, clock, step=step, began_s=clock.now_s, jump_s=jump_s, hosts_off=hosts_off)
    return step


def turn(service: Service, clock: FakeClock) -> None:
    for _ in range(int(BEAT_S)):
        clock.now_s += 1.0
        while service.worker.turn(clock.now_s):
            pass


def told(service: Service) -> list[tuple[str, list[int]]]:
    """Class and suspects of every incident."""
    with service.store.read() as connection:
        found = queries.incidents(connection, run="job", status=None, fault_class=None, limit=9, offset=0)
    items: list[Any] = list(found.items)
    return [(str(item["class"]), list(item["suspects"])) for item in items]


@pytest.mark.parametrize("jump_s", (*JUMPS, 90.0, -40.0))
def test_a_host_whose_clock_jumps_is_no_stop(service: Service, clock: FakeClock, jump_s: float) -> None:
    last = train(service, clock)
    train(service, clock, jump_s=jump_s, first=last + 1)
    assert told(service) == []


@pytest.mark.parametrize("jump_s", JUMPS)
def test_a_hang_after_a_jump_is_told_in_its_time(service: Service, clock: FakeClock, jump_s: float) -> None:
    last = train(service, clock, jump_s=jump_s, first=train(service, clock) + 1)
    began_s = clock.now_s
    while not told(service):
        say(service, clock, step=last + 1, began_s=began_s, jump_s=jump_s)
        assert clock.now_s - began_s < 90.0
    assert clock.now_s - began_s >= 50.0  # the step was open before
    assert told(service) == [("stop.hang", [2])]


@pytest.mark.parametrize("jump_s", JUMPS)
def test_a_host_lost_after_a_jump_is_told(service: Service, clock: FakeClock, jump_s: float) -> None:
    last = train(service, clock, jump_s=jump_s, first=train(service, clock) + 1)
    began_s = clock.now_s
    while not told(service):
        say(service, clock, step=last + 1, began_s=began_s, jump_s=jump_s, hosts="0")
        assert clock.now_s - began_s < 60.0
    assert told(service) == [("stop.lost", [2, 3])]


@pytest.mark.parametrize("jump_s", JUMPS)
@pytest.mark.parametrize("is_hosts", [False, True])
def test_a_host_lost_after_the_service_s_clock_jumped_is_told(
    service: Service, clock: FakeClock, jump_s: float, is_hosts: bool
) -> None:
    """The clocks of the hosts jump with it, or stay where they are."""
    last = train(service, clock)
    clock.now_s += jump_s
    service.worker.woke(clock.now_s)
    off_s = 0.0 if is_hosts else -jump_s
    last = train(service, clock, jump_s=off_s, hosts_off=BOTH, first=last + 1)
    began_s = clock.now_s
    assert told(service) == []
    while not told(service):
        say(service, clock, step=last + 1, began_s=began_s, jump_s=off_s, hosts="0", hosts_off=BOTH)
        assert clock.now_s - began_s < 60.0
    assert told(service) == [("stop.lost", [2, 3])]


@pytest.mark.parametrize("is_beating", [False, True])
def test_what_stands_still_in_the_middle_of_a_turn_makes_nobody_silent(
    service: Service, clock: FakeClock, is_beating: bool
) -> None:
    """Its process was stopped, or its store answered nobody; the next turn begins before the hosts have spoken."""
    last = train(service, clock)
    service.worker.pulse.beat()
    clock.now_s += 30.0
    if is_beating:
        service.worker.pulse.beat()
    turn(service, clock)
    assert told(service) == []
    train(service, clock, first=last + 1)
    assert told(service) == []


def test_a_store_that_takes_no_writes_makes_nobody_silent(service: Service, clock: FakeClock) -> None:
    """As where another program holds its lock, or the disk stands still; it is read all the same."""
    pulse, path = service.worker.pulse, service.store.path
    pulse.beat()
    with closing(sqlite3.connect(str(path), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        beating = threading.Thread(target=pulse.beat)
        beating.start()
        beating.join(0.2)
        clock.now_s += 30.0
        assert beating.is_alive() and pulse.take_missed(clock.now_s)
    beating.join()
    assert pulse.take_missed(clock.now_s) and not pulse.take_missed(clock.now_s + 1.0)


def test_a_pulse_says_nothing_of_what_the_disk_takes(service: Service) -> None:
    with pytest.raises(OperationalError), service.store.write() as connection:
        connection.exec_driver_sql("what the database does not understand")
    service.worker.pulse.beat()
    assert service.store.refusal


def test_a_pulse_that_goes_on_hides_no_host_that_is_lost(service: Service, clock: FakeClock) -> None:
    last, began_s = train(service, clock), clock.now_s
    while not told(service):
        service.worker.pulse.beat()
        say(service, clock, step=last + 1, began_s=began_s, hosts="0")
        assert clock.now_s - began_s < 60.0
    assert told(service) == [("stop.lost", [2, 3])]
