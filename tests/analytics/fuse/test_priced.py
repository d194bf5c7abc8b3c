"""Incidents cost what the step is longer by, whoever is late together, and no second of it is counted twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.call_replay import Remedy, joined
from argus.analytics.cost import share_by_itself
from argus.analytics.finding import Evidence
from argus.analytics.fuse.merge import one_per_suspect
from argus.analytics.fuse.priced import _within_growth
from argus.analytics.incident import Cause, Incident
from argus.evals.play import play
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

SLOW_FROM = 60
FLAT = Job(ranks=16, ranks_per_host=4, steps=140, step_s=0.8)
PIPE = replace(FLAT, tp=2, pp=4, micro_batches=8)


def fault(kind: str, *ranks: int, severity: float, group: str = "dp") -> Fault:
    return Fault(kind=kind, ranks=ranks, group=group, severity=severity, start_step=SLOW_FROM)


def seen(job: Job, *faults: Fault) -> tuple[tuple[Incident, ...], float, float]:
    """The incidents open at the end, what the faults cost a step, and the share of the step that is.

    The same seed draws the same job with and without them.
    """
    sick, well = (simulate(job, some, rng=np.random.default_rng(1)) for some in (faults, ()))
    took = [np.diff(done.end_s.max(axis=1))[SLOW_FROM:] for done in (sick, well)]
    lost_s = float((took[0] - took[1]).mean())
    found = tuple(i for i in play(sick).incidents if i.last_window >= 12)
    return found, lost_s, lost_s / float(took[0].mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "sick"),
    [
        (FLAT, fault("compute", 4, 5, 6, 7, severity=1.5)),
        (FLAT, fault("data", 4, 5, 6, 7, severity=1.5)),
        (FLAT, fault("compute", 3, 9, severity=1.3)),
        (replace(FLAT, ranks=4), fault("compute", 0, 1, severity=1.3)),
        (replace(FLAT, ranks=4), fault("compute", 0, 1, 2, severity=1.3)),
        (replace(FLAT, ranks=3), fault("compute", 1, 2, severity=1.3)),
        (replace(FLAT, ranks=2), fault("compute", 1, severity=1.3)),
        (PIPE, fault("compute", 12, 13, 14, 15, severity=1.5)),
        (PIPE, fault("compute", 4, 5, severity=1.5)),
        (PIPE, fault("data", 0, 1, severity=1.3)),
        (replace(PIPE, ranks=8), fault("compute", 4, 5, severity=1.5)),
        (FLAT, fault("link", 0, severity=1.3)),
        (replace(FLAT, tp=2), fault("link", 0, severity=1.3)),
        (replace(FLAT, tp=4), fault("link", 0, severity=1.3, group="tp")),
    ],
)
def test_incidents_cost_what_the_step_is_longer_by(job: Job, sick: Fault) -> None:
    found, lost_s, share = seen(job, sick)
    hours = sum(incident.cost.gpu_hours_so_far for incident in found)
    assert found and hours == pytest.approx(lost_s * (job.steps - SLOW_FROM) * job.ranks / 3600, rel=0.2)
    assert {i.severity for i in found} == {"critical" if share >= 0.1 else "warning"}


@pytest.mark.slow
def test_paths_that_are_slow_together_share_one_price() -> None:
    """Each of them hides the others: healed alone none is worth anything."""
    job = replace(FLAT, ranks=32, tp=4)
    links = [fault("link", rank, severity=1.3) for rank in range(4)]
    found, lost_s, _ = seen(job, *links)
    assert len(found) == 4 and {i.cause.fault_class for i in found} == {"link.slow"}
    assert sum(i.cost.s_per_step for i in found) == pytest.approx(lost_s, rel=0.2)
    assert {i.severity for i in found} == {"warning"} and max(i.cost.s_per_step for i in found) < 0.5 * lost_s


def cause(*evidence: Evidence, suspects: tuple[int, ...] = (1,)) -> Cause:
    return Cause(
        fault_class="compute.slow",
        verdict="LIKELY",
        suspects=suspects,
        scope="host:a" if len(suspects) > 1 else f"rank:{suspects[0]}",
        evidence=evidence,
        share_of_step=0.06,
    )


def test_a_path_without_replay_costs_no_more_than_the_step_grew_by() -> None:
    step = Evidence(name="step_s", value=1.06, unit="s", baseline=1.0)
    link = replace(cause(step), fault_class="link.slow", s_per_step=0.24, share_of_step=0.24)
    capped = _within_growth(link)
    assert (capped.s_per_step, capped.share_of_step) == pytest.approx((0.06, 0.06))
    small = replace(link, s_per_step=0.03, share_of_step=0.03)
    assert _within_growth(small) is small
    unknown = replace(link, evidence=(replace(step, baseline=None),))
    assert _within_growth(unknown) is unknown


def test_a_fault_is_no_smaller_for_another_that_hides_it() -> None:
    price = (Evidence(name="replay_gain_s", value=0.05), Evidence(name="by_itself_s", value=0.1))
    assert share_by_itself(cause(*price)) == pytest.approx(0.12)
    assert share_by_itself(cause(price[0])) == pytest.approx(0.06)


def test_a_cause_of_more_ranks_takes_in_those_of_some_of_them() -> None:
    one, both = cause(), cause(suspects=(1, 2))
    assert [c.suspects for c in one_per_suspect([one, both])] == [(1, 2)]
    other = replace(one, fault_class="data.slow_loader")
    assert [c.suspects for c in one_per_suspect([other, both])] == [(1,), (1, 2)]


def test_remedies_together_are_as_good_as_the_best_of_each() -> None:
    some = (
        Remedy(as_peers=frozenset({1}), wire_parts={"a": 0.5}),
        Remedy(own_parts={2: 0.9}, wire_parts={"a": 0.7}),
    )
    assert joined(some) == Remedy(as_peers=frozenset({1}), own_parts={2: 0.9}, wire_parts={"a": 0.5})
