"""What the told work explains is taken out of comparisons; what it does not explain stays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.digest import digest_of
from argus.analytics.runtime_events import RuntimeEvent, RuntimeEvents
from argus.analytics.window import Window, assemble
from argus.analytics.work import PIECES, amount, explain, num_pieces, work_units
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build

JOB = Job(ranks=16, steps=20, tells_work=True)


def window(job: Job, *faults: Fault) -> Window:
    done = simulate(job, faults, rng=np.random.default_rng(1))
    parts = [closed.parts for closed in done.windows(WindowPlan())][1]
    return assemble(parts, build(done.layouts))


def lengths(severity: float) -> Fault:
    return Fault(kind="lengths", ranks=tuple(range(16)), severity=severity)


def test_units_of_a_step_are_added_up_over_its_micro_batches() -> None:
    seen = work_units(window(JOB, lengths(1.3)))
    assert set(seen) == {"tokens", "sum_len2"} and np.isfinite(seen["tokens"]).all()
    assert seen["tokens"].std() > 0.2 * seen["tokens"].mean()


def test_a_table_is_made_for_each_unit_and_not_for_each_that_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[int, ...]] = []
    seen, full = window(JOB), np.full

    def counted(shape: tuple[int, ...], value: float) -> np.ndarray:
        made.append(shape)
        return full(shape, value)

    monkeypatch.setattr(np, "full", counted)
    units = work_units(seen)
    assert len(units) == 2 and len(made) <= len(units)


def test_what_no_rank_of_the_window_or_no_step_of_it_told_does_not_count() -> None:
    seen = window(JOB)
    first = seen.first_step
    told = [
        (0, first, 3.0),
        (0, first, 4.0),
        (99, first, 1.0),
        (1, first - 1, 1.0),
        (2, first, np.nan),
        (3, first, -1.0),
    ]
    rows = (
        RuntimeEvent(rank=rank, kind="work:tokens", step=step, start_s=0.0, dur_s=0.0, value=value)
        for rank, step, value in told
    )
    (units,) = work_units(replace(seen, events=RuntimeEvents.of(rows))).values()
    assert units[0, 0] == 7.0 and np.isfinite(units).sum() == 1


def test_even_work_explains_nothing() -> None:
    assert explain(window(JOB)) is None


def test_uneven_work_explains_uneven_times() -> None:
    found = explain(window(JOB, lengths(1.4)))
    assert found is not None and found.balance.explained > 0.8
    assert found.balance.lost_s > 0.2 * JOB.step_s
    assert np.median(found.factor) == pytest.approx(1.0, abs=0.05)


def test_a_slow_rank_stands_out_of_uneven_work_as_if_it_were_even() -> None:
    slow = Fault(kind="compute", ranks=(5,), severity=1.3)
    even = digest_of(window(JOB, slow)).own_dev
    uneven = digest_of(window(JOB, lengths(1.4), slow)).own_dev
    assert int(uneven.argmax()) == 5 and uneven[5] > 0.8 * even[5]
    assert np.abs(np.delete(uneven, 5)).max() < 0.05


def test_more_work_of_one_rank_alone_is_no_excess_and_no_lateness_of_its_own() -> None:
    more = digest_of(window(JOB, Fault(kind="work", ranks=(5,), severity=1.4)))
    assert abs(more.own_dev[5]) < 0.04
    assert more.late_share[5] < 0.05


def test_a_slow_rank_is_not_explained_beyond_proportion_by_a_little_more_work() -> None:
    """One rank that is 50 % slow with 5 % more tokens must not get a slope that makes it usual."""
    both = digest_of(
        window(
            JOB,
            Fault(kind="work", ranks=(5,), severity=1.05),
            Fault(kind="compute", ranks=(5,), severity=1.5),
        )
    )
    assert both.own_dev[5] > 0.25


def test_routed_tokens_are_told_apart_from_lengths() -> None:
    job = Job(ranks=16, ep=8, steps=20, tells_work=True, routing_spread=0.02)
    found = explain(window(job, Fault(kind="routing", ranks=tuple(range(16)), severity=1.4)))
    assert found is not None
    parts = found.balance.by_unit
    assert parts["expert_tokens"] > 0.8 * sum(parts.values())


def test_where_work_becomes_uneven_untold_the_steps_say_how_noisy_it_is() -> None:
    quiet = digest_of(window(Job(ranks=16, steps=20))).unsteady_s
    noisy = digest_of(window(Job(ranks=16, steps=20), lengths(1.3))).unsteady_s
    assert noisy.min() > 5 * quiet.max()


PIPE = Job(ranks=16, pp=2, micro_batches=4, steps=20)


def test_micro_batches_are_counted_where_no_work_is_told() -> None:
    seen = window(PIPE)
    assert num_pieces(seen) == 4.0 and amount(seen) == (PIECES, 4.0)
    assert set(work_units(seen)) == {PIECES} and explain(seen) is None
    told = amount(window(JOB))
    assert told is not None and told[0] == "tokens"
    assert num_pieces(replace(seen, num=None)) == 0.0 and amount(replace(seen, num=None)) is None


def test_a_replica_with_more_micro_batches_is_not_slow() -> None:
    """Twice the micro-batches in every second step: twice the time, and no machine."""
    seen = window(PIPE)
    assert seen.num is not None
    row, rows = 3, [seen.phases.index(name) for name in ("forward", "backward")]
    num, dur_s = seen.num.copy(), seen.dur_s.copy()
    for phase in rows:
        num[phase, row, ::2] *= 2
        dur_s[phase, row, ::2] += seen.self_s[phase, row, ::2]
    found = digest_of(replace(seen, num=num, dur_s=dur_s))
    assert abs(found.own_dev[row]) < 0.04
    assert digest_of(replace(seen, dur_s=dur_s)).own_dev[row] > 0.2


def test_one_hot_rank_among_ranks_with_a_little_more_or_less_is_explained_in_every_window() -> None:
    """Most samples differ by noise alone; where the work differs much decides whether it explains the times."""
    job = Job(ranks=8, ep=8, steps=120, tells_work=True, routing_spread=0.02)
    hot = Fault(kind="work", group="ep", ranks=(4,), severity=1.6)
    done = simulate(job, [hot], rng=np.random.default_rng(1))
    topology = build(done.layouts)
    seen = [digest_of(assemble(closed.parts, topology)) for closed in done.windows(WindowPlan())]
    assert max(abs(one.own_dev[4]) for one in seen) < 0.03
