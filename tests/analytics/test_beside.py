"""What is done on a second core comes out as on one, in pieces as in one piece."""

from __future__ import annotations

import threading
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics import beside as module
from argus.analytics import blame, gathered, meetings, route
from argus.analytics.attempt import AttemptState, advance
from argus.analytics.beside import WORTH_ROWS, beside
from argus.analytics.clocks import align
from argus.analytics.gathered import end_to_end, in_columns
from argus.analytics.waits import Waits, waits_of
from argus.analytics.window import assemble
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import RankWindow
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build


def test_much_work_goes_to_another_thread_and_its_error_comes_back() -> None:
    with beside(WORTH_ROWS) as begin:
        assert begin(threading.get_ident).result() != threading.get_ident()
        failed = begin(lambda: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            failed.result()
    with beside(WORTH_ROWS - 1) as begin:
        assert begin(threading.get_ident).result() == threading.get_ident()


@pytest.mark.parametrize("piece_rows", [1, 7, 10_000])
def test_pieces_of_any_size_make_the_same_columns(piece_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathered, "PIECE_ROWS", piece_rows)
    dtype = [("a", "<u4"), ("b", "<i8")]
    tables = [np.array([(10 * n + i, -i) for i in range(n % 5)], dtype) for n in range(20)]
    rows, part_of = end_to_end(tables)
    columns, mine = in_columns(tables, {"a": np.int64, "b": np.float64})
    assert columns["a"].tolist() == rows["a"].tolist() and columns["b"].tolist() == rows["b"].tolist()
    assert mine.tolist() == part_of.tolist() and len(rows) == 40


def test_names_beyond_a_table_are_unknown_and_numbers_go_by_first_use() -> None:
    part = RankWindow(run="job", attempt=0, rank=0, window=0, first_step=0, num_steps=1, names=("b", "a"))
    parts = [part, replace(part, rank=1, names=("c", "b", "d"))]
    reader = gathered.Texts(*gathered.told(parts)).of(np.array([0, 0, 1, 1, 0, 1]))
    texts, code = reader.codes(np.array([1, 0, 0, 1, 2, 9], np.uint32))
    assert [texts[n] for n in code] == ["a", "b", "c", "b", "?", "?"] and texts == ("b", "a", "c", "?")
    owned, number = reader.owned(np.array([1, 0, 0, 1, 2, 9], np.uint32))
    assert [owned[n] for n in number] == [(0, "a"), (0, "b"), (1, "c"), (1, "b"), (-1, "?"), (-1, "?")]


@pytest.mark.parametrize(("tp", "pp"), [(2, 4), (1, 2)])
def test_a_call_of_two_is_settled_like_a_call_of_any_size(
    tp: int, pp: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = simulate(
        Job(ranks=32, tp=tp, pp=pp, micro_batches=pp, steps=10, warmup_steps=3),
        [Fault(kind="compute", ranks=(5,), start_step=0, severity=1.5)],
        rng=np.random.default_rng(3),
    )
    (closed,) = done.windows(WindowPlan(first=10))
    window = align(assemble(closed.parts, build(done.layouts)))

    def settled(waits: Waits) -> list[np.ndarray]:
        told = (waits.late_s, waits.habit_s, waits.waited_s, waits.votes)
        return [*told, waits.guilty, waits.last_rank, waits.max_wait_s, waits.wait_s]

    waits = waits_of(window)
    assert meetings.are_pairs(waits.calls).any()
    monkeypatch.setattr(route, "are_pairs", lambda calls: np.zeros(len(calls.first), np.bool_))
    anew = replace(window, topology=build(done.layouts))
    for apart, together in zip(settled(waits), settled(waits_of(anew)), strict=True):
        np.testing.assert_array_equal(apart, together)


def test_an_attempt_comes_to_the_same_on_one_core_and_on_two(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(ranks=32, tp=2, pp=4, micro_batches=4, steps=80, warmup_steps=0)
    fault = Fault(kind="compute", ranks=(5,), start_step=50, severity=1.5)
    done = simulate(job, [fault], rng=np.random.default_rng(3))

    def judged() -> AttemptState:
        topology = build(done.layouts)
        state = AttemptState.start(job.run, job.attempt)
        for closed in done.windows(WindowPlan(first=10)):
            window = align(assemble(closed.parts, topology))
            state = advance(state, topology=topology, now_s=0.0, window=window).state
        return state

    alone = judged()
    for worth in (module, blame):
        monkeypatch.setattr(worth, "WORTH_ROWS", 1)
    both = judged()
    assert [incident.cause.suspects for incident in alone.incidents] == [(5,)]
    assert alone.incidents == both.incidents and alone.ballots == both.ballots
    for one, two in zip(alone.past, both.past, strict=True):
        for name in ("dev", "own_dev", "late_s", "waited_s", "transfer_sum_s", "unsteady_s"):
            np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_a_window_is_judged_alike_on_one_core_and_on_two(monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(ranks=32, tp=2, pp=4, micro_batches=4, steps=10, warmup_steps=0)
    fault = Fault(kind="compute", ranks=(5,), start_step=0, severity=1.5)
    done = simulate(job, [fault], rng=np.random.default_rng(3))
    (closed,) = done.windows(WindowPlan(first=10))

    def judged() -> list[np.ndarray]:
        window = align(assemble(closed.parts, build(done.layouts)))
        waits = waits_of(window)
        rows = window.collectives
        return [rows.call, rows.entry_s, rows.step, window.dur_s, waits.late_s, waits.guilty, waits.wait_s]

    alone = judged()
    monkeypatch.setattr(module, "WORTH_ROWS", 1)
    for one, two in zip(alone, judged(), strict=True):
        np.testing.assert_array_equal(one, two)
    assert alone[4].argmax() == 5
