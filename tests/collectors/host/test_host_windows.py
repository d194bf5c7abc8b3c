"""Rows become windows: when, with what, and never without bounds."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from argus.collectors.host import buffer
from argus.collectors.host.buffer import GPU_LAG_S, LAG_S, LAST_STEP_LAG_S, WindowBuffer
from argus.collectors.host.check import Checked
from argus.collectors.host.counters import Counters
from argus.collectors.host.fake_rank import NAMES, steps
from argus.collectors.host.rank import RankState
from argus.collectors.host.ranks import Ranks
from argus.collectors.host.window import compact, cut
from argus.collectors.records.events import CLOCK_GPU, DTYPES, RankRecords
from argus.collectors.records.frames import KIND_OF, Frame, Kind
from argus.collectors.records.heartbeat import Status
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import RankWindow

LAYOUT = Layout(run="r", attempt=0, rank=1, world_size=2, host="h", pid=7)
PLAN = WindowPlan(first=10)


def state(plan: WindowPlan = PLAN) -> RankState:
    it = RankState(LAYOUT, plan=plan, now_s=0.0)
    for name in NAMES:
        it.names.intern(name)
    return it


def feed(
    it: RankState, records: RankRecords, *, kinds: Iterable[str] = tuple(DTYPES), now_s: float = 0.0
) -> None:
    for kind in kinds:
        rows = getattr(records, kind)
        if len(rows):
            checked = Checked(kind=KIND_OF[kind], frame=Frame(kind=KIND_OF[kind], rows=rows))
            it.apply(checked, now_s=now_s)


def contents(windows: Iterable[RankWindow]) -> list[bytes]:
    return [window.to_bytes() for window in windows]


@pytest.mark.parametrize("stride", [1, 3, 10, 47])
def test_windows_from_a_stream_are_those_cut_from_all_records(stride: int) -> None:
    it = state()
    for first in range(0, 47, stride):
        feed(it, steps(LAYOUT, first, min(47, first + stride)))
    assert contents(it.cut_all()) == contents(cut(steps(LAYOUT, 0, 47), PLAN))


def test_a_window_waits_for_what_trickles_in() -> None:
    it = state()
    feed(it, steps(LAYOUT, 0, 11), kinds=("steps",))
    assert it.cut(10.0) == []
    feed(it, steps(LAYOUT, 0, 11), kinds=("phases", "collectives"))
    assert it.cut(10.0 + 0.9 * LAG_S) == []
    (window,) = it.cut(10.0 + LAG_S)
    assert (window.window, len(window.steps), len(window.collectives)) == (0, 10, 10)
    feed(it, steps(LAYOUT, 9, 10), kinds=("phases",))
    assert it.take_lost() == {"late": 2}


def on_gpu(first: int, end: int) -> RankRecords:
    records = steps(LAYOUT, first, end)
    records.phases["clock"] = CLOCK_GPU
    return records


def test_a_window_on_a_gpu_waits_until_the_stream_is_past_it() -> None:
    it = state()
    feed(it, on_gpu(0, 11), kinds=("steps",))  # the host is ahead
    feed(it, on_gpu(0, 9), kinds=("phases",))
    assert it.cut(0.0) == [] and it.cut(GPU_LAG_S - 0.1) == []
    feed(it, on_gpu(9, 10), kinds=("phases",))
    assert it.cut(GPU_LAG_S - 0.1) == []  # of step 9 there may be more
    feed(it, on_gpu(10, 11), kinds=("phases",))
    [window] = it.cut(GPU_LAG_S - 0.1)
    assert int(window.cells["step"].max()) == 9 and it.take_lost() == {}


def test_a_gpu_that_says_no_more_is_not_waited_for_beyond_two_steps_of_the_job() -> None:
    it, slow = state(), on_gpu(0, 11)
    slow.steps["end_ns"] = slow.steps["start_ns"] + 20_000_000_000
    feed(it, slow, kinds=("steps",))
    feed(it, on_gpu(0, 9), kinds=("phases",))
    assert it.cut(0.0) == [] and it.cut(39.0) == []
    assert [w.window for w in it.cut(40.0)] == [0]


def test_the_last_step_of_a_window_is_enough_after_a_longer_wait() -> None:
    it = state()
    feed(it, steps(LAYOUT, 0, 10))
    assert it.cut(0.0) == [] and it.cut(LAG_S) == []
    assert [w.window for w in it.cut(LAST_STEP_LAG_S)] == [0]


def test_missing_steps_show_and_a_window_without_steps_is_counted() -> None:
    it = state()
    feed(it, steps(LAYOUT, 5, 8))
    feed(it, steps(LAYOUT, 30, 33))
    feed(it, steps(LAYOUT, 40, 42), kinds=("phases",))
    assert [(w.window, len(w.steps)) for w in it.cut_all()] == [(0, 3), (3, 3)]
    assert it.take_lost() == {"no_step": 4}


def test_a_new_plan_moves_the_open_rows() -> None:
    it = state()
    feed(it, steps(LAYOUT, 0, 25))
    assert [w.window for w in it.cut(0.0) + it.cut(LAG_S)] == [0, 1]
    plan = WindowPlan(first=10, switch=20, then=40)
    it.replan(plan)
    feed(it, steps(LAYOUT, 25, 61))
    windows = it.cut(5.0) + it.cut(5.0 + LAG_S)
    assert [(w.window, w.first_step, w.num_steps, len(w.steps)) for w in windows] == [(2, 20, 40, 40)]


def test_without_a_service_windows_become_as_long_as_it_would_have_them() -> None:
    ranks = Ranks(host="h", first_steps=10, counters=Counters())
    member = ranks.connect(LAYOUT, pid=0, now_s=0.0)
    for step in (5, 40):  # the first steps say nothing of how long they last
        body = Status(ts_ns=0, step=step, step_p50_ns=100_000_000)
        member.state.apply(Checked(kind=Kind.STATUS, status=body), now_s=0.0)
        ranks.choose_plans(ranks.beats(now_s=0.0, wall_s=0.0))
        feed(member.state, steps(LAYOUT, 0, 340) if step == 5 else steps(LAYOUT, 340, 491))
    windows = member.state.cut(0.0) + member.state.cut(LAG_S)
    assert [w.num_steps for w in windows] == [10] * 34 + [150]


def test_drops_are_cumulative_on_the_wire_and_new_ones_in_a_window() -> None:
    it = state()
    it.apply(Checked(kind=Kind.DROPS, drops={"ring_full": 5}), now_s=0.0)
    feed(it, steps(LAYOUT, 0, 10))
    first = it.cut_all()
    it.apply(Checked(kind=Kind.DROPS, drops={"ring_full": 7}), now_s=0.0)
    it.lose({"bad_step": 1})
    feed(it, steps(LAYOUT, 10, 20))
    second = it.cut_all()
    it.apply(Checked(kind=Kind.DROPS, drops={"ring_full": 3}), now_s=0.0)
    feed(it, steps(LAYOUT, 20, 30))
    assert [dict(w.dropped) for w in first + second + it.cut_all()] == [
        {"ring_full": 5},
        {"ring_full": 2, "bad_step": 1},
        {"ring_full": 3},
    ]
    assert it.take_lost() == {"rank": 10, "bad_step": 1}


def test_memory_is_bounded_newest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "MAX_OPEN_BYTES", 50 * DTYPES["steps"].itemsize)
    it = WindowBuffer(WindowPlan(first=100))
    it.add("steps", steps(LAYOUT, 0, 40).steps)
    it.add("steps", steps(LAYOUT, 40, 60).steps)
    it.add("steps", steps(LAYOUT, 60, 70).steps)
    assert it.dropped == {"window_full": 20}
    assert [len(rows["steps"]) for _, rows in it.take_all()] == [50]


def test_the_number_of_open_windows_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffer, "MAX_OPEN_WINDOWS", 4)
    it = WindowBuffer(WindowPlan(first=1))
    it.add("phases", steps(LAYOUT, 0, 10).phases)
    assert [index for index, _ in it.take(0.0)] == list(range(6))


def test_a_repeated_step_counts_once() -> None:
    it = state()
    feed(it, steps(LAYOUT, 0, 5))
    feed(it, steps(LAYOUT, 3, 10), kinds=("steps",))
    (window,) = it.cut_all()
    assert window.steps["step"].tolist() == list(range(10))
    assert window.dropped == {"repeated_step": 2}
    assert RankWindow.from_bytes(window.to_bytes()).key == window.key


def test_a_status_brings_a_rank_back_that_had_said_goodbye() -> None:
    it = state()
    it.apply(Checked(kind=Kind.BYE), now_s=1.0)
    assert it.has_ended
    it.apply(Checked(kind=Kind.STATUS, status=Status(ts_ns=1, step=3)), now_s=2.0)
    assert not it.has_ended and it.status_s == 2.0


def test_notes_say_what_was_not_seen_once() -> None:
    it = state()
    for note in ("functional collectives", "functional collectives", "kernels"):
        it.apply(Checked(kind=Kind.NOTE, note=note), now_s=0.0)
    feed(it, steps(LAYOUT, 0, 3))
    assert it.cut_all()[0].unseen == ("functional collectives", "kernels")


def test_a_window_carries_only_the_names_it_uses() -> None:
    records = steps(LAYOUT, 0, 10)
    (window,) = cut(records, PLAN)
    assert set(window.names) == {"", "forward", "backward", "all_reduce", "default_pg", "grad_sync"}
    assert {window.name(int(i)) for i in window.cells["phase"]} == {"forward", "backward"}
    assert {window.name(int(i)) for i in window.collectives["op"]} == {"all_reduce"}
    assert contents([compact(window)]) == contents([window])


def test_a_number_outside_the_table_stays_unknown() -> None:
    records = steps(LAYOUT, 0, 2)
    rows = records.collectives.copy()
    rows["op"] = 500
    (window,) = cut(RankRecords(layout=LAYOUT, names=NAMES, steps=records.steps, collectives=rows), PLAN)
    assert {window.name(int(i)) for i in window.collectives["op"]} == {"?"}


def test_a_cell_is_named_by_its_longest_phase_and_admits_unobserved_time() -> None:
    phases = np.zeros(3, DTYPES["phases"])
    phases["name"], phases["native"], phases["dur_ns"] = 1, (2, 3, 2), (10, 30, 10)
    phases["cpu_ns"] = (5, -1, 5)
    records = steps(LAYOUT, 0, 1)
    (window,) = cut(RankRecords(layout=LAYOUT, names=NAMES, steps=records.steps, phases=phases), PLAN)
    (cell,) = window.cells
    assert (cell["sum_ns"], cell["max_ns"], cell["count"], cell["cpu_ns"]) == (50, 30, 3, -1)
    assert window.name(int(cell["native"])) == "all_reduce"
