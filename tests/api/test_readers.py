"""Reading beside the service: the same answers as here, from when it is much on, whatever becomes of the processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from starlette.testclient import TestClient

from argus.api.http.app import make_app
from argus.api.readers import AGAIN_S, HANG_S, MAX_AGAIN_S, SHARE, TOLD_S, Process, Raised, Readers
from argus.collectors.records.errors import NewerError, WireError
from tests.api.kit import FakeClock, layouts_body, make_window, service_at, upload
from tests.api.process import wait_for


class Ticks:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class FakeBeside:
    """A process that is none: up, gone or yet to come as the test says."""

    def __init__(self) -> None:
        self.num_asked = 0
        self.is_there, self.is_gone, self.is_ended = True, False, False

    def is_up(self) -> bool:
        self._check()
        return self.is_there

    def ask(self, function: Callable[..., object], args: tuple[object, ...]) -> object:
        self._check()
        self.num_asked += 1
        try:
            return function(*args)
        except Exception as error:  # noqa: BLE001 - as the real one
            return Raised(error)

    def end(self) -> None:
        self.is_ended = True

    def _check(self) -> None:
        if self.is_gone:
            raise EOFError


class Street:
    """Where `Readers` finds its processes; `begun` are all of them."""

    def __init__(self, *, size: int = 1, is_there: bool = True) -> None:
        self.ticks, self.begun, self.is_there = Ticks(), list[FakeBeside](), is_there
        self.readers = Readers(size=size, patience_s=1.0, begin=self.begin, ticks=self.ticks)

    def begin(self) -> FakeBeside:
        self.begun.append(FakeBeside())
        self.begun[-1].is_there = self.is_there
        return self.begun[-1]

    def take(self, seconds: float) -> float:
        self.ticks.now_s += seconds
        return seconds

    def read_much(self) -> None:
        self.readers(self.take, 1.5)


def test_little_is_read_here_however_long_it_goes_on() -> None:
    street = Street()
    for _ in range(1000):
        street.readers(street.take, 0.5 * SHARE)
        street.ticks.now_s += 1.0
    assert street.begun == []


def test_much_is_read_beside() -> None:
    street = Street(size=2)
    street.read_much()
    assert street.readers(len, b"abc") == 3
    assert [one.num_asked for one in street.begun] == [1, 0]


def test_what_is_raised_beside_is_raised_here() -> None:
    street = Street()
    street.read_much()
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            street.readers(int, "x")
    assert street.begun[0].num_asked == 2


def test_until_one_is_up_it_is_read_here() -> None:
    street = Street(is_there=False)
    street.read_much()
    assert street.readers(len, b"abc") == 3
    assert [one.num_asked for one in street.begun] == [0]
    assert street.readers.trouble() == ""


def test_one_that_is_gone_is_told_of_and_replaced_and_what_it_had_is_read_here() -> None:
    street = Street()
    street.read_much()
    street.readers(len, b"")
    street.begun[0].is_gone = True
    assert street.readers(len, b"abc") == 3
    assert street.begun[0].is_ended and "1 reader" in street.readers.trouble()
    assert street.readers(len, b"abc") == 3 and len(street.begun) == 1  # not at once
    street.ticks.now_s += AGAIN_S
    assert street.readers(len, b"abc") == 3 and street.begun[1].num_asked == 1
    street.ticks.now_s += TOLD_S
    assert street.readers.trouble() == ""


def test_those_that_end_again_and_again_are_begun_ever_less_often() -> None:
    street = Street()
    street.read_much()
    for _ in range(3600):
        for one in street.begun:
            one.is_gone = True
        assert street.readers(len, b"abc") == 3
        street.ticks.now_s += 1.0
    assert len(street.begun) < 3600 / MAX_AGAIN_S + 10


def test_where_none_can_be_begun_it_is_read_here() -> None:
    def begin() -> FakeBeside:
        raise OSError(11, "no more processes")

    street = Street()
    readers = Readers(size=1, patience_s=0.5, begin=begin, ticks=street.ticks)
    readers(street.take, 1.0)
    assert readers(len, b"abc") == 3 and readers.trouble()


def test_one_that_hangs_is_ended_by_who_comes_next() -> None:
    street = Street(size=2)
    street.read_much()
    street.readers(street.take, 0.0)
    hanging, _ = street.begun

    def ask_next() -> int:
        street.take(HANG_S - 1.0)
        street.readers(len, b"")
        assert not hanging.is_ended
        street.take(2.0)
        return street.readers(len, b"abc")

    assert street.readers(ask_next) == 3
    assert hanging.is_ended


def test_after_the_end_it_is_read_here_and_none_is_begun() -> None:
    street = Street(size=2)
    street.read_much()
    street.readers(len, b"")
    street.readers.close()
    street.read_much()
    assert street.readers(len, b"abc") == 3
    assert len(street.begun) == 2 and all(one.is_ended for one in street.begun)


def kill_beside(pid: int) -> int:
    """Ends the process it is called in, unless that is `pid`."""
    if os.getpid() != pid:
        os.kill(os.getpid(), signal.SIGKILL)
    return 7


def newer() -> None:
    raise NewerError("of a later version")


@contextmanager
def real(*, size: int = 1) -> Iterator[Readers]:
    readers = Readers(size=size, patience_s=0.0)
    try:
        readers(len, b"")
        readers(len, b"")
        wait_for(lambda: bool(readers._all) and all(one.is_up() for one in readers._all))
        yield readers
    finally:
        readers.close()


@pytest.mark.slow
def test_a_process_killed_while_it_reads_costs_nothing() -> None:
    with real() as readers:
        before = readers._all[0]
        assert isinstance(before, Process) and readers(os.getpid) == before.pid
        with pytest.raises(NewerError, match="later"):
            readers(newer)
        assert readers(kill_beside, os.getpid()) == 7
        assert readers(len, b"abc") == 3 and "1 reader" in readers.trouble()
        wait_for(lambda: readers(os.getpid) not in (os.getpid(), before.pid))


@pytest.mark.slow
def test_signals_of_the_group_do_not_end_it_and_the_end_does() -> None:
    with real(size=2) as readers:
        pids = [one.pid for one in readers._all if isinstance(one, Process)]
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGINT)
        assert {readers(os.getpid) for _ in range(2)} <= set(pids)
    assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.slow
def test_a_service_takes_the_same_beside_and_loses_nothing_when_readers_are_killed(tmp_path: Path) -> None:
    clock = FakeClock()
    with service_at(tmp_path / "a.sqlite", clock=clock) as here, real() as readers:
        service = replace(here, readers=readers)
        service.published.watch(readers.trouble)
        service.receive_layouts(layouts_body(4))
        for window in range(4):
            assert service.receive_windows(_windows(window))["accepted"] == 4
            for one in readers._all:
                assert isinstance(one, Process)
                os.kill(one.pid, signal.SIGKILL)
        assert service.receive_windows(_windows(3))["duplicates"] == 4
        with pytest.raises(WireError, match="not zstd"):
            service.receive_windows(b"these are no windows")
        told = TestClient(make_app(service), base_url="http://localhost").get("/readyz")
        assert told.json()["status"] == "unavailable"  # its analysis was not started
        assert any("of uploads ended" in reason for reason in told.json()["reasons"])


def _windows(window: int) -> bytes:
    return upload(*(make_window(rank, window) for rank in range(4)))
