"""The replay of a window's calls: as long as recorded, nothing to gain from the healthy, from the slow what they cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.call_replay import StepGain, step_gain, what_if_gains
from argus.analytics.cost import CRITICAL_PATH, REPLAY
from argus.analytics.waits import waits_of
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build
from tests.analytics import test_attempt
from tests.analytics.mesh_kit import STEPS, mesh, slow, windows

SHAPES = {
    "1f1b": mesh(ranks=16, pp=4, micro_batches=6),
    "interleaved": replace(mesh(ranks=16, pp=4, micro_batches=8), schedule="interleaved", virtual=2),
    "zero bubble": replace(mesh(ranks=16, pp=4, micro_batches=6), schedule="zero_bubble"),
    "tensor and expert": mesh(ranks=32, tp=2, pp=2, ep=4, micro_batches=4),
    "data": mesh(ranks=8),
}


def gain(job: Job, *faults: Fault, ranks: tuple[int, ...]) -> StepGain:
    _, seen = windows(job, faults, seed=3)
    window = next(seen)
    found = step_gain(window, waits_of(window), ranks)
    assert found is not None
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_a_replay_of_what_was_recorded_is_as_long(name: str) -> None:
    assert gain(SHAPES[name], ranks=(3,)).error < 0.01


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("factor", [1.3, 2.0])
def test_the_gain_is_what_the_slow_rank_cost(name: str, factor: float) -> None:
    """The same seed draws the same job, with and without the fault."""
    job = SHAPES[name]
    steps = [simulate(job, f, rng=np.random.default_rng(3)) for f in ((), (slow(5, factor),))]
    healthy_s, slow_s = (float((s.end_s - s.start_s)[1:].max(axis=1).mean()) for s in steps)
    found = gain(job, slow(5, factor), ranks=(5,))
    assert found.gain_s == pytest.approx(slow_s - healthy_s, rel=0.2)
    assert gain(job, slow(5, factor), ranks=(2,)).gain_s < 0.1 * found.gain_s


def test_two_slow_ranks_are_worth_more_together_than_either_alone() -> None:
    job, faults = SHAPES["1f1b"], (slow(5, 1.6), slow(6, 1.6))
    both = gain(job, *faults, ranks=(5, 6)).gain_s
    assert both > 2 * max(gain(job, *faults, ranks=(rank,)).gain_s for rank in (5, 6))


def test_of_a_large_window_a_part_is_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("argus.analytics.call_replay.MAX_ROWS", 500)
    some = gain(SHAPES["1f1b"], slow(5, 1.5), ranks=(5,))
    assert 1 <= some.num_steps < 5 and some.error < 0.01 and some.gain_s > 0


def test_without_transfers_a_step_is_shorter_by_what_they_expose() -> None:
    """Tensor-parallel calls lie between pieces of work: all of their transfer is exposed."""
    job = mesh(ranks=8, tp=4, micro_batches=1)
    _, seen = windows(job, (), seed=3)
    window = next(seen)
    found = what_if_gains(window, waits_of(window))
    assert set(found) == {"exposed communication"}
    assert 0.5 * job.tp_comm_ratio * job.step_s < found["exposed communication"].gain_s < 0.4 * job.step_s


def test_even_experts_are_worth_something_where_they_are_crowded() -> None:
    job = mesh(ranks=8, ep=4)
    crowded = Fault(kind="routing", ranks=tuple(range(8)), severity=1.5)
    gains = []
    for faults in ((), (crowded,)):
        _, seen = windows(job, faults, seed=3)
        window = next(seen)
        gains.append(what_if_gains(window, waits_of(window))["expert imbalance"].gain_s)
    assert gains[1] > 3 * gains[0]


@pytest.mark.parametrize("more", [{}, {"ep": 4, "routing_spread": 0.1}])
def test_even_lengths_are_worth_what_uneven_ones_cost(more: dict[str, Any]) -> None:
    """The same seed draws the same job with and without uneven lengths."""
    job = replace(mesh(ranks=16), steps=3 * STEPS, tells_work=True, **more)
    uneven = Fault(kind="lengths", ranks=tuple(range(16)), severity=1.3)
    steps = [simulate(job, f, rng=np.random.default_rng(3)) for f in ((), (uneven,))]
    even_s, uneven_s = (float((s.end_s - s.start_s).max(axis=1).mean()) for s in steps)
    _, seen = windows(job, (uneven,), seed=3)
    found = [what_if_gains(window, waits_of(window))["length imbalance"] for window in seen]
    assert float(np.mean([one.gain_s for one in found])) == pytest.approx(uneven_s - even_s, rel=0.3)
    assert max(one.error for one in found) < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(("pp", "method"), [(4, REPLAY), (1, CRITICAL_PATH)])
def test_the_cost_of_a_live_incident_names_its_method(pp: int, method: str) -> None:
    job = Job(ranks=16, pp=pp, micro_batches=2 * pp if pp > 1 else 1, steps=100)
    done = simulate(job, [slow(5, 1.4, start_step=60)], rng=np.random.default_rng(3))
    topology, state = build(done.layouts), AttemptState.start(job.run, 0)
    for window in test_attempt.windows(done, topology):
        state = advance(state, topology=topology, now_s=0.0, window=window).state
    (incident,) = state.incidents
    steps = (done.end_s - done.start_s).max(axis=1)
    lost_s = float(steps[60:].mean() - steps[20:60].mean())
    assert incident.cause.suspects == (5,) and incident.cost.method == method
    assert incident.cost.s_per_step == pytest.approx(lost_s, rel=0.25)
    assert incident.cost.share_of_step == pytest.approx(lost_s / float(steps[60:].mean()), rel=0.3)
