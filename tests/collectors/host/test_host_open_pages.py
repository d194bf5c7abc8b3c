"""A step that becomes slow is seen while it is open, from the page its rank writes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argus.collectors.hooks.open_step import Page
from argus.collectors.host.counters import Counters
from argus.collectors.host.governor import Governor
from argus.collectors.host.notices import Notices
from argus.collectors.host.observers import Observers
from argus.collectors.host.open_pages import OpenPages
from argus.collectors.host.process import Process
from argus.collectors.host.rank import RankState
from argus.collectors.host.ranks import Member
from argus.collectors.host.stack_plan import MIN_EXCESS_S, OpenStep, StackPlan
from argus.collectors.host.stack_taker import StackTaker
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.records.layout import Layout
from argus.collectors.records.open_step import NUM_BYTES, page_file, parse
from argus.collectors.records.plan import WindowPlan


class Rank:
    """A recorder of steps of 100 ms whose page the test's processor reads."""

    def __init__(self, directory: Path) -> None:
        self.now_ns, self.socket = 10**9, directory / "p.sock"
        self.recorder = Recorder(ring=Ring(), now_ns=lambda: self.now_ns, cpu_ns=lambda: 0)
        self.page = Page(page_file(self.socket, "run", 0, 3), self.recorder)
        self.recorder.on_step.append(self.page.begun)
        self.recorder.on_optimized.append(self.page.optimized)
        layout = Layout(run="run", attempt=0, rank=3, world_size=4, pid=os.getpid())
        state = RankState(layout, plan=WindowPlan(), now_s=0.0)
        self.member = Member(state=state, process=Process(os.getpid()), letter="R")

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.recorder.begin_iteration()
            frame = self.recorder.open(self.recorder.names["forward"])
            self.now_ns += 100_000_000
            self.recorder.close(frame)
            self.recorder.end_candidate()


@pytest.fixture
def rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rank]:
    made = Rank(tmp_path)
    monkeypatch.setattr("time.monotonic_ns", lambda: made.now_ns)
    yield made
    made.page.close()


def test_the_open_step_is_read_from_its_first_moment_on(rank: Rank) -> None:
    pages = OpenPages(rank.socket, clock_ns=lambda: rank.now_ns)
    assert pages.open_steps([rank.member]) == []  # no page yet
    rank.page.tick()
    rank.steps(12)
    rank.page.tick()
    rank.now_ns += 50_000_000  # between the optimizer and the next forward: the loader's time counts
    [step] = pages.open_steps([rank.member])
    assert (step.key, step.step) == (("run", 0, 3), 12) and step.median_s == pytest.approx(0.1)
    assert step.open_s == pytest.approx(0.05) and not step.is_slow
    rank.recorder.begin_iteration()
    rank.now_ns += 150_000_000
    [step] = pages.open_steps([rank.member])
    assert step.step == 12 and step.open_s == pytest.approx(0.2) and step.is_slow
    rank.recorder.mark = "checkpoint"
    rank.page.tick()
    [marked] = pages.open_steps([rank.member])
    assert not marked.is_slow
    pages.close()


def test_a_page_of_the_process_before_is_let_go_and_a_removed_one_made_again(rank: Rank) -> None:
    pages = OpenPages(rank.socket, clock_ns=lambda: rank.now_ns)
    rank.page.tick()
    rank.steps(12)
    assert [step.step for step in pages.open_steps([rank.member])] == [12]
    rank.page.close()  # it ended in order; another process takes its place before it is forgotten
    again = Page(page_file(rank.socket, "run", 0, 3), rank.recorder)
    again.tick()
    again.begun(1)
    rank.now_ns += 2 * 10**9
    assert [step.step for step in pages.open_steps([rank.member])] == [1]
    page_file(rank.socket, "run", 0, 3).unlink()
    again.tick()
    again.begun(2)
    rank.now_ns += 2 * 10**9
    assert [step.step for step in pages.open_steps([rank.member])] == [2]
    pages.close()
    again.close()


def test_steps_that_the_script_ends_begin_there(rank: Rank) -> None:
    pages = OpenPages(rank.socket, clock_ns=lambda: rank.now_ns)
    rank.page.tick()
    for number in range(5):
        rank.steps(2)  # two optimizers a step
        rank.recorder.user_step(number)
    rank.now_ns += 30_000_000
    [step] = pages.open_steps([rank.member])
    assert step.step == rank.recorder.step and step.open_s == pytest.approx(0.03)
    pages.close()


def test_pages_go_with_their_ranks(rank: Rank) -> None:
    pages = OpenPages(rank.socket, clock_ns=lambda: rank.now_ns)
    rank.page.tick()
    rank.steps(3)
    assert pages.open_steps([rank.member]) and pages.open_steps([]) == []
    assert list(rank.socket.parent.iterdir()) == []
    rank.steps(3)  # a page nobody reads any more hurts nobody
    rank.page.close()
    assert list(rank.socket.parent.iterdir()) == []


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_is_no_plain_file_is_not_read(rank: Rank, make: Callable[[Path], object]) -> None:
    make(page_file(rank.socket, "run", 0, 3))
    pages = OpenPages(rank.socket, clock_ns=lambda: rank.now_ns)
    assert pages.open_steps([rank.member]) == []
    pages.close()


@pytest.mark.parametrize("raw", [b"", b"x", bytes(NUM_BYTES), b"\xff" * NUM_BYTES])
def test_what_is_no_page_says_nothing(raw: bytes) -> None:
    assert parse(raw) is None


def step(rank: int, number: int, *, open_s: float, median_s: float = 0.1) -> OpenStep:
    return OpenStep(key=("run", 0, rank), pid=rank, step=number, open_s=open_s, median_s=median_s)


def test_an_excess_of_300_ms_is_dumped_once_with_two_peers_and_a_short_one_is_not() -> None:
    plan, asked = StackPlan(), []
    for tick in range(5):  # rank 3's step 7 lasts 0.44 s instead of 0.1 s, rank 1's 0.18 s
        opens = {3: 0.11 * tick, 1: min(0.09 * tick, 0.18)}
        ranks = [step(r, 7, open_s=opens.get(r, 0.05)) for r in range(8)]
        due = plan.urgent(ranks, now_s=100.0 + 0.1 * tick)
        asked.append([(request.rank.key[2], request.reason) for request in due])
    assert asked == [[], [], [(3, "slow_step"), (2, "peer"), (4, "peer")], [], []]
    assert plan.due([step(3, 7, open_s=0.6)], now_s=100.5) == []  # that step was dumped 0.3 s ago
    assert plan.due([step(3, 7, open_s=1.4)], now_s=101.4)[0].reason == "slow_step"


def test_a_job_whose_steps_are_all_slow_is_dumped_rarely() -> None:
    plan, num = StackPlan(), 0
    for tick in range(600):
        ranks = [step(r, tick // 4, open_s=0.3 if tick % 4 == 3 else 0.05) for r in range(8)]
        num += len(plan.urgent(ranks, now_s=0.1 * tick))
    assert 6 <= num <= 6 + 0.5 * 60


@given(st.floats(0.0, 20.0), st.floats(0.0, 20.0), st.floats(0.0, 0.999))
def test_nothing_is_wanted_before_the_calm_is_over_and_something_right_after(
    open_s: float, median_s: float, part: float
) -> None:
    now = step(3, 7, open_s=open_s, median_s=median_s)
    later_s = open_s + min(part * now.calm_s, 1e6)
    if now.calm_s > 0:
        assert StackPlan().urgent([replace(now, open_s=later_s)], now_s=1.0) == []
    if now.calm_s < math.inf:
        assert StackPlan().urgent([replace(now, open_s=open_s + now.calm_s + 1e-3)], now_s=1.0)


def test_the_processor_asks_again_when_a_step_may_be_slow(rank: Rank) -> None:
    rank.page.tick()
    rank.steps(12)
    rank.page.tick()
    rank.recorder.begin_iteration()
    rank.now_ns += 70_000_000
    taker = StackTaker(host="h", counters=Counters(), program="py-spy", wall_clock=lambda: 0.0)
    pages = OpenPages(rank.socket, clock_ns=lambda: rank.now_ns)
    observers = Observers(
        host="h", stacks=taker, watch=None, pages=pages, counters=Counters(), notices=Notices(print)
    )
    is_off = Governor(counters=Counters()).is_off
    assert observers.watch([], is_off=is_off, now_s=1.0) == math.inf
    calm_s = observers.watch([rank.member], is_off=is_off, now_s=1.0)
    assert calm_s == pytest.approx(0.1 + MIN_EXCESS_S - 0.07)
    rank.now_ns += round(calm_s * 1e9) + 1_000_000
    assert observers.watch([rank.member], is_off=is_off, now_s=1.0 + calm_s) == 0.0
    request = taker._queue.get_nowait()
    assert request is not None and request.reason == "slow_step"
    pages.close()


def test_quiet_ranks_are_left_alone() -> None:
    ranks = [step(r, 7, open_s=0.5 if r == 3 else 0.05) for r in range(4)]
    assert StackPlan().urgent(ranks, now_s=1.0, quiet={("run", 0, 3)}) == []


def test_a_page_that_the_program_closed_is_opened_again_and_its_file_of_that_number_left_alone(
    rank: Rank, tmp_path: Path
) -> None:
    rank.page.tick()
    [number] = [fd for fd in os.listdir("/proc/self/fd") if _links_to(fd, rank.socket)]
    theirs = tmp_path / "theirs"
    with theirs.open("wb", buffering=0) as file:
        os.dup2(file.fileno(), int(number))  # what closing all and opening a file of one's own comes to
    rank.steps(5)
    assert theirs.read_bytes() == b""
    rank.page.tick()
    rank.steps(2)
    pages = OpenPages(rank.socket, clock_ns=lambda: rank.now_ns)
    [step] = pages.open_steps([rank.member])
    assert step.step == rank.recorder.current_step
    pages.close()
    assert os.write(int(number), b"mine") == 4 and theirs.read_bytes() == b"mine"
    os.close(int(number))


def _links_to(fd: str, socket: Path) -> bool:
    path = Path("/proc/self/fd", fd)
    return path.is_symlink() and os.readlink(path).startswith(f"{socket}.step-")
