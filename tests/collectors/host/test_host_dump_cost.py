"""What a stack dump costs, from the steps it fell into."""

from __future__ import annotations

import numpy as np
import pytest

from argus.collectors.host.counters import Counters
from argus.collectors.host.dump_cost import KEPT_STEPS, DumpLedger
from argus.collectors.host.governor import Governor
from argus.collectors.host.overhead import Ledger
from argus.collectors.host.stack_plan import BASELINE_S
from argus.collectors.records.channels import ALL
from argus.collectors.records.events import FLAG_CHECKPOINT, STEP, Rows
from argus.collectors.records.summary import RankWindow

STEP_NS = 200_000_000
DUMP_NS = 20_000_000


def steps(first: int, end: int, dumped: set[int]) -> tuple[Rows, dict[int, int]]:
    """Steps of 200 ms, 20 ms longer where a dump was taken; and when each was, halfway into its step."""
    rows, now_ns, at = np.zeros(end - first, STEP), first * 300_000_000, {}
    for i, step in enumerate(range(first, end)):
        dur_ns = STEP_NS + DUMP_NS * (step in dumped)
        rows[i] = (step, -1, now_ns, now_ns + dur_ns, 0, 0)
        if step in dumped:
            at[step] = now_ns + STEP_NS // 2
        now_ns += dur_ns
    return rows, at


@pytest.mark.parametrize("is_told_first", [True, False])
def test_the_planted_cost_is_found_whichever_comes_first(is_told_first: bool) -> None:
    ledger, dumped = DumpLedger(), set(range(5, 200, 10))
    rows, at = steps(0, 200, dumped)
    if is_told_first:
        for ts_ns in at.values():
            ledger.dumped(3, ts_ns)
    for first in range(0, 200, 50):
        ledger.add(3, rows[first : first + 50])
    if not is_told_first:
        for ts_ns in at.values():
            ledger.dumped(3, ts_ns)
    assert np.exp(list(ledger.log_ratios().values())) == pytest.approx([1.1] * 20)
    assert ledger.share == pytest.approx(0.2 / BASELINE_S)


def test_marked_lost_and_forgotten_steps_make_no_pair() -> None:
    ledger = DumpLedger()
    rows, at = steps(0, 60, {5, 15, 25, 35})
    rows["flags"][14] = FLAG_CHECKPOINT
    ledger.add(0, rows[np.arange(60) != 26])
    for ts_ns in at.values():
        ledger.dumped(0, ts_ns)
    assert len(ledger.log_ratios()) == 2
    ledger.dumped(0, -1)  # before everything that is known
    ledger.dumped(1, at[5])  # of a rank nobody heard of: it waits
    later, _ = steps(1000, 1000 + KEPT_STEPS, set())
    ledger.add(0, later)
    ledger.dumped(0, at[35])
    assert len(ledger.log_ratios()) == 2
    ledger.forget()
    ledger.dumped(0, at[5])
    assert not ledger.log_ratios()


def test_it_is_a_channel_of_its_own_and_part_of_the_whole() -> None:
    ledger = Ledger("run")
    rows, at = steps(0, 3000, set(range(7, 3000, 37)))
    for first in range(0, 3000, 50):
        ledger.add(0, rows[first : first + 50])
        for step in range(first, first + 50):
            if step in at:
                ledger.dumps.dumped(0, at[step])
    costs = ledger.costs()
    assert costs["stacks"].ratio == pytest.approx(1 + 0.1 * 0.2 / BASELINE_S, rel=1e-6)
    assert ALL not in costs  # no shadow step: the whole is not known


def test_the_governor_hears_of_steady_dumps() -> None:
    governor = Governor(counters=Counters())
    rows, at = steps(0, 300, set(range(7, 300, 23)))
    for ts_ns in at.values():
        governor.dumped(("run", 0, 2), ts_ns * 1e-9)
    window = RankWindow(run="run", attempt=0, rank=2, window=0, first_step=0, num_steps=300, steps=rows)
    [told] = governor.observe([window])
    assert told.overhead["stacks"].n == len(at)
