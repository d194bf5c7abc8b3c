"""What is done on a second core comes out as on one, in pieces as in one piece."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from argus.analytics import beside as module
from argus.analytics import gathered
from argus.analytics.beside import WORTH_ROWS, beside
from argus.analytics.clocks import align
from argus.analytics.gathered import end_to_end, in_columns
from argus.analytics.waits import waits_of
from argus.analytics.window import assemble
from argus.collectors.records.plan import WindowPlan
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
