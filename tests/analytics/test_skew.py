"""Skew of a group's collectives: the late member, the waiting ones, the transfer."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.clocks import align
from argus.analytics.skew import Skew, skew_of
from argus.analytics.window import Window, assemble
from argus.collectors.host.window import cut
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build
from tests.damage import DAMAGE

JOB = Job(ranks=8, tp=2, ranks_per_host=4, steps=10, warmup_steps=0)


def window(*faults: Fault, job: Job = JOB, damage: str = "") -> Window:
    done = simulate(job, faults, rng=np.random.default_rng(0))
    parts = tuple(part for records in done.records for part in cut(records, WindowPlan()))
    return align(assemble(DAMAGE[damage](parts) if damage else parts, build(done.layouts)))


def skew(*faults: Fault, group: str = "dp/1", **how: object) -> Skew | None:
    return skew_of(window(*faults, **how), group)  # type: ignore[arg-type]


def test_the_late_rank_is_last_and_the_others_wait_as_long_as_it_is_late() -> None:
    found = skew(Fault(kind="compute", ranks=(5,), severity=2.0))
    assert found is not None and found.ranks.tolist() == [1, 3, 5, 7]
    late = found.ranks.tolist().index(5)
    assert found.last_share[late] > 0.9 and found.last_share.sum() == pytest.approx(1.0)
    assert found.late_s.argmax() == late and found.wait_s.argmin() == late
    assert np.allclose(found.late_s + found.wait_s, found.spread_s.mean())


def test_lateness_grows_with_the_fault_and_the_transfer_does_not() -> None:
    small, large = (skew(Fault(kind="compute", ranks=(5,), severity=s)) for s in (1.2, 2.0))
    assert small is not None and large is not None
    assert large.late_s.max() > 2 * small.late_s.max()
    assert np.median(large.transfer_s) == pytest.approx(np.median(small.transfer_s), rel=0.2)


def test_a_slow_link_is_a_long_transfer_without_a_late_rank() -> None:
    healthy, slow = skew(), skew(Fault(kind="link", ranks=(5,), severity=2.0))
    assert healthy is not None and slow is not None
    assert np.median(slow.transfer_s) > 3 * np.median(healthy.transfer_s)
    assert slow.late_s.max() < 0.2 * np.median(slow.transfer_s)


def test_an_unknown_group_or_one_without_calls_has_none() -> None:
    assert skew(group="dp/9") is None
    assert skew(damage="without_calls") is None


@pytest.mark.parametrize("damage", list(DAMAGE))
def test_damaged_windows_never_raise(damage: str) -> None:
    found = skew(damage=damage)
    assert found is None or found.num_calls > 0
