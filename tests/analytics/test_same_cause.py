"""Who takes an incident over names why all of its ranks are slow, not why one of them is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.attempt import Advance, AttemptState, advance
from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.lifecycle import NAMED_BETTER, open_incident, update_incident
from argus.analytics.same_cause import is_named_now, that_it_may_name
from argus.collectors.host.compress import summarise
from argus.collectors.records.kernel_blob import encode
from argus.evals.simulator.job import Fault, Job
from tests.analytics.kernels.test_incidents import played
from tests.analytics.test_attempt import course as course_of

RANKS, PER_STEP = 32, 8
SICK = range(16)
KERNELS = (
    ("gemm", "compute", 200.0),
    ("moe_grouped_gemm", "compute", 100.0),
    ("layer_norm", "compute", 50.0),
)


def cause(fault_class: str, *suspects: int, scope: str = "run:train") -> Cause:
    return Cause(fault_class=fault_class, verdict="LIKELY", suspects=suspects, scope=scope, s_per_step=0.1)


@pytest.mark.parametrize(
    ("known", "named", "takes_over"),
    [
        (cause("unknown", *SICK), cause("compute.slow", 3, scope="rank:3"), False),
        (cause("unknown", *SICK), cause("compute.slow", *range(15)), False),
        (cause("unknown", *SICK), cause("compute.slow", *range(20)), True),
        (cause("unknown", 3, scope="rank:3"), cause("compute.slow", 3, scope="rank:3"), True),
        (cause("unknown", *range(8), scope="host:h"), cause("compute.slow", *range(7), scope="host:h"), True),
        (cause("step.slower"), cause("compute.slow", 3, scope="rank:3"), True),
        (cause("compute.slow", 3, scope="rank:3"), cause("host.gc", 3, scope="rank:3"), False),
    ],
)
def test_a_cause_takes_over_what_it_covers(known: Cause, named: Cause, takes_over: bool) -> None:
    assert is_named_now(known, named) is takes_over


def test_a_cause_of_some_ranks_is_no_news_of_the_incident_of_all() -> None:
    all_of_them = open_incident(
        cause("unknown", *SICK), run="train", attempt=0, window=2, steps_done=29, world=RANKS
    )
    assert that_it_may_name([all_of_them], cause("compute.slow", 3, scope="rank:3")) == []
    assert that_it_may_name([all_of_them], cause("unknown", 3, scope="rank:3")) == [all_of_them]


def blobs(index: int, num_steps: int) -> tuple[bytes, ...]:
    """Kernels of eight ranks a blob; those of the experts are slow on the sick ranks."""
    rng = np.random.default_rng([index, 7])
    key = np.repeat(np.arange(len(KERNELS)), num_steps * PER_STEP)
    pairs = tuple((name, role) for name, role, _ in KERNELS)
    out = []
    for rank in range(RANKS):
        slow = {"moe_grouped_gemm": 1.15} if rank in SICK else {}
        took = np.concatenate(
            [
                ms
                * 1e6
                / PER_STEP
                * slow.get(name, 1.0)
                * np.exp(0.02 * rng.normal(size=num_steps * PER_STEP))
                for name, _, ms in KERNELS
            ]
        )
        out.append(summarise(key, np.rint(took), pairs=pairs, rank=rank))
    return tuple(encode(out[at : at + 8]) for at in range(0, RANKS, 8))


def course() -> Iterator[Advance]:
    """Sixteen ranks of two hosts whose experts are slow from the start, one of which waits for its data later."""
    job = Job(ranks=RANKS, tp=1, ep=4, ranks_per_host=8, steps=100, step_s=1.0)
    loader = Fault(kind="data", ranks=(3,), start_step=40, severity=1.3)
    topology, windows = played(job, (loader,))
    state = AttemptState.start("train", 0)
    for window in windows:
        packed = blobs(window.index, window.num_steps)
        step = advance(state, topology=topology, now_s=0.0, window=replace(window, kernels=packed))
        state = step.state
        yield step


@pytest.mark.slow
def test_ranks_slow_in_their_kernels_stay_named_when_one_of_them_has_a_trouble_of_its_own() -> None:
    *_, last = course()
    assert not [one for one in last.state.incidents if one.ended == NAMED_BETTER]
    told = {one.cause.fault_class: one.cause.suspects for one in last.state.incidents if one.status == "open"}
    assert told == {"unknown": tuple(SICK), "data.slow_loader": (3,)}


def sick(kind: str, severity: float, *, start: int, end: int | None = None) -> Fault:
    return Fault(kind=kind, ranks=(5,), start_step=start, end_step=end, severity=severity)


def told_of(*faults: Fault) -> list[tuple[str, str, int]]:
    """Class, status and onset of all incidents of a job in which rank 5 is ill."""
    job = Job(ranks=8, ranks_per_host=4, steps=300, step_s=0.8)
    last = course_of(job, faults, seed=1)[-1]
    return [(i.cause.fault_class, i.ended, i.onset_step) for i in last.state.incidents]


def test_a_rank_that_is_slow_by_something_else_gets_another_incident() -> None:
    compute, loader = sick("compute", 1.3, start=80, end=150), sick("data", 1.5, start=150)
    first, second = told_of(compute, loader)
    assert first[:2] == ("compute.slow", NAMED_BETTER) and 75 <= first[2] <= 85
    assert second[:2] == ("data.slow_loader", "") and 145 <= second[2] <= 160


def test_a_second_fault_that_outweighs_the_first_is_told() -> None:
    compute, loader = sick("compute", 1.2, start=80), sick("data", 1.5, start=150)
    assert [one[0] for one in told_of(compute, loader)] == ["compute.slow", "data.slow_loader"]


@pytest.mark.parametrize("severity", [1.28, 1.32, 1.36])
def test_two_faults_that_weigh_alike_do_not_take_turns(severity: float) -> None:
    compute, loader = sick("compute", 1.3, start=80), sick("data", severity, start=150)
    job = Job(ranks=8, ranks_per_host=4, steps=300, step_s=0.8)
    (incident,) = course_of(job, (compute, loader), seed=1)[-1].state.incidents
    assert incident.cause.fault_class == "compute.slow" and incident.cause.phase != "data"


def test_steps_are_in_the_cost_of_one_of_the_two() -> None:
    job = Job(ranks=8, ranks_per_host=4, steps=300, step_s=0.8)
    faults = sick("compute", 1.3, start=80, end=150), sick("data", 1.5, start=150)
    first, second = course_of(job, faults, seed=1)[-1].state.incidents
    assert (
        first.cost.num_steps + second.cost.num_steps - (first.counted_to - second.onset_step + 1) <= 300 - 80
    )
    assert first.cost.gpu_hours_so_far > 0 < second.cost.gpu_hours_so_far


def test_what_leads_is_not_ruled_out() -> None:
    ruled = (
        RuledOut(fault_class="data.slow_loader", why="little"),
        RuledOut(fault_class="host.gc", why="none"),
    )
    first = replace(
        cause("compute.slow", 3, scope="rank:3"),
        phase="forward",
        ruled_out=ruled,
        evidence=(Evidence(name="self_s", value=0.2, unit="s", note="forward"),),
    )
    known = open_incident(first, run="train", attempt=0, window=2, steps_done=29, world=RANKS)
    loader = replace(
        cause("data.slow_loader", 3, scope="rank:3"),
        phase="data",
        evidence=(Evidence(name="self_s", value=0.4, unit="s", note="data"),),
    )
    later = update_incident(known, loader, window=3, steps_done=39, world=RANKS).cause
    assert [one.fault_class for one in later.ruled_out] == ["host.gc"]
    assert (later.phase, [item.note for item in later.evidence]) == ("forward", ["forward"])
