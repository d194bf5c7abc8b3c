"""Kernel findings become incidents: alone for silent faults, beside L2 for loud ones, never for victims."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.clocks import align
from argus.analytics.incident import Incident
from argus.analytics.lifecycle import NAMED_BETTER
from argus.analytics.window import Window, assemble
from argus.collectors.host.compress import summarise
from argus.collectors.records.kernel_blob import encode
from argus.evals.moments import moments
from argus.evals.scenarios import scenarios
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import Topology, build

pytestmark = pytest.mark.slow

RANKS, TP, STEPS, PER_STEP = 16, 2, 80, 8
ONSET = 40

KERNELS = (
    ("ampere_gemm_128", "compute", 60.0),
    ("ampere_gemm_256", "compute", 90.0),
    ("flash_attention_fwd", "compute", 120.0),
    ("layer_norm", "compute", 40.0),
    ("add_elementwise", "compute", 50.0),
    ("Memcpy HtoD", "copy", 45.0),
    ("ncclAllReduce", "comm:tp", 80.0),
    ("ncclReduceScatter", "comm:dp", 80.0),
)
"""Name, stream role and milliseconds a step of ten windows' kernels; they fill the step of a second."""

Slow = Callable[[int, str], float]
"""(rank, kernel) to slowdown, from the onset on."""


def healthy(rank: int, kernel: str) -> float:
    return 1.0


@cache
def flat() -> tuple[Topology, tuple[Window, ...]]:
    """A healthy job as L1 and L2 see it."""
    return played(Job(ranks=RANKS, tp=TP, ranks_per_host=8, steps=STEPS, step_s=1.0), ())


def played(job: Job, faults: Sequence[Fault]) -> tuple[Topology, tuple[Window, ...]]:
    simulation = simulate(job, faults, rng=np.random.default_rng(3))
    topology = build(simulation.layouts)
    parts = [moment.parts for moment in moments(simulation) if moment.parts]
    return topology, tuple(align(assemble(part, topology)) for part in parts)


def kernels_of(window: Window, slow: Slow, *, role: str | None) -> bytes:
    """What all hosts upload for a window; chips differ by half a per cent, the same in every window."""
    rng = np.random.default_rng([window.index, 7])
    device = np.exp(0.005 * np.random.default_rng(99).normal(size=RANKS))
    num = window.num_steps * PER_STEP
    key = np.repeat(np.arange(len(KERNELS)), num)
    pairs = tuple((name, role or own) for name, own, _ in KERNELS)
    summaries = []
    for rank in range(RANKS):
        parts = []
        for name, _, ms in KERNELS:
            factor = slow(rank, name) if window.first_step >= ONSET else 1.0
            per_launch = ms * 1e6 / PER_STEP * device[rank] * factor
            parts.append(per_launch * np.exp(0.02 * rng.normal(size=num)))
        summaries.append(summarise(key, np.rint(np.concatenate(parts)), pairs=pairs, rank=rank))
    return encode(summaries)


def with_kernels(windows: Sequence[Window], slow: Slow, *, role: str | None = None) -> Iterator[Window]:
    for window in windows:
        yield replace(window, kernels=(kernels_of(window, slow, role=role),))


def incidents_of(
    topology: Topology, windows: Sequence[Window], *, later: bool = False
) -> tuple[Incident, ...]:
    """All incidents after all windows; `later` = the kernels come after the rest of their window."""
    state = AttemptState.start("train", 0)
    for window in windows:
        if later:
            state = advance(state, topology=topology, now_s=0.0, window=replace(window, kernels=())).state
        state = advance(state, topology=topology, now_s=0.0, window=window).state
    return state.incidents


def told(slow: Slow, *, later: bool = False) -> tuple[Incident, ...]:
    topology, windows = flat()
    return incidents_of(topology, tuple(with_kernels(windows, slow)), later=later)


def evidence(incident: Incident, name: str) -> float | None:
    return next((item.value for item in incident.cause.evidence if item.name == name), None)


def test_a_healthy_job_opens_nothing() -> None:
    assert told(healthy) == ()


def test_a_group_slow_in_silence_is_the_one_incident() -> None:
    topology, _ = flat()
    group = next(one for one in topology.groups if one.kind == "tp" and 6 in one.ranks)
    (incident,) = told(lambda rank, name: 3.0 if name == "ncclAllReduce" and rank in group.ranks else 1.0)
    assert incident.cause.fault_class == "link.slow"
    assert incident.cause.scope == f"group:{group.id}"
    assert incident.cause.suspects == tuple(sorted(group.ranks))
    assert incident.opened_window - ONSET // 10 <= 2
    assert incident.severity == "critical"  # 160 ms of a second


@pytest.mark.parametrize(
    ("names", "fault_class", "verdict"),
    [
        (("layer_norm", "add_elementwise"), "compute.memory", "LIKELY"),
        (("Memcpy HtoD",), "copy.slow", "LIKELY"),
        (("ampere_gemm_128", "ampere_gemm_256"), "compute.slow", "LIKELY"),
        (("flash_attention_fwd",), "unknown", "INCONCLUSIVE"),
        (tuple(name for name, role, _ in KERNELS if not role.startswith("comm")), "compute.slow", "LIKELY"),
    ],
)
def test_what_the_slow_kernels_have_in_common_says_what_is_sick(
    names: tuple[str, ...], fault_class: str, verdict: str
) -> None:
    (incident,) = told(lambda rank, name: 1.25 if rank == 5 and name in names else 1.0)
    assert (incident.cause.fault_class, incident.cause.verdict) == (fault_class, verdict)
    assert incident.cause.suspects == (5,)
    assert incident.cause.scope == "rank:5"
    ratio = evidence(incident, "kernel_ratio")
    assert ratio is not None and 1.2 < ratio < 1.3


def test_operators_timed_on_a_cpu_open_nothing() -> None:
    topology, windows = flat()
    slow = with_kernels(
        windows, lambda rank, name: 3.0 if rank == 5 and name == "layer_norm" else 1.0, role="cpu"
    )
    state, levels = AttemptState.start("train", 0), set[str]()
    for window in slow:
        step = advance(state, topology=topology, now_s=0.0, window=window)
        state, levels = step.state, levels | {finding.level for finding in step.findings}
    assert "L3" in levels and state.incidents == ()


def test_most_ranks_of_a_host_are_the_host() -> None:
    (incident,) = told(lambda rank, name: 1.2 if rank >= 8 and name == "layer_norm" else 1.0)
    assert incident.cause.suspects == tuple(range(8, 16))
    assert incident.cause.scope == "host:h-0001"


def test_the_wait_of_others_for_a_slow_rank_is_no_slow_group() -> None:
    topology, _ = flat()
    group = next(one for one in topology.groups if one.kind == "tp" and 6 in one.ranks)

    def slow(rank: int, name: str) -> float:
        if rank == 6 and name.startswith("ampere"):
            return 1.5
        return 2.0 if name == "ncclAllReduce" and rank in group.ranks else 1.0

    assert [(one.cause.fault_class, one.cause.suspects) for one in told(slow)] == [("compute.slow", (6,))]


def test_kernels_that_come_later_lead_to_the_same() -> None:
    def slow(rank: int, name: str) -> float:
        return 1.3 if rank == 3 and name == "layer_norm" else 1.0

    assert told(slow, later=True) == told(slow)


def test_a_rank_seen_by_both_levels_is_one_incident_that_kernels_confirm() -> None:
    made = scenarios()["slow_kernel"](seed=0, ranks=8, severity=1.5)
    topology, windows = played(made.job, made.faults)
    (loud,) = incidents_of(topology, windows)
    (quiet,) = incidents_of(topology, [replace(window, kernels=()) for window in windows])
    assert loud.cause.suspects == quiet.cause.suspects == made.truth.ranks
    assert loud.cause.fault_class == made.truth.fault_class and loud.cause.verdict == "CONFIRMED"
    assert evidence(loud, "kernel_ratio") is not None and evidence(loud, "own_self_s") is not None
    assert evidence(quiet, "kernel_ratio") is None
    assert (loud.opened_window, loud.last_window) == (quiet.opened_window, quiet.last_window)


def test_windows_without_kernels_end_no_incident_of_kernels() -> None:
    """Without a GPU one step in fifty has operators: most windows have none."""
    topology, windows = flat()
    sick = list(with_kernels(windows, lambda rank, name: 1.3 if rank == 3 and name == "layer_norm" else 1.0))
    (incident,) = incidents_of(
        topology, [replace(one, kernels=()) if number % 3 == 1 else one for number, one in enumerate(sick)]
    )
    (other,) = incidents_of(
        topology, [replace(one, kernels=()) if number in (6, 7) else one for number, one in enumerate(sick)]
    )
    assert incident.status == other.status == "open"


def test_what_kernels_name_better_was_never_told_or_is_resolved() -> None:
    made = scenarios()["slow_copy"](seed=0, ranks=4, severity=1.5)
    topology, windows = played(made.job, made.faults)
    (at_once,) = incidents_of(topology, windows)
    early, closer = incidents_of(topology, windows, later=True)
    assert early.cause.fault_class == "data.slow_loader" and early.ended == NAMED_BETTER
    assert at_once.cause.fault_class == closer.cause.fault_class == "copy.slow"
    assert at_once.cause.suspects == closer.cause.suspects == made.truth.ranks
    assert closer.onset_step == early.onset_step


def test_an_incident_of_kernels_ends_with_them() -> None:
    topology, windows = flat()
    sick = tuple(
        with_kernels(windows[:6], lambda rank, name: 1.3 if rank == 3 and name == "layer_norm" else 1.0)
    )
    well = tuple(with_kernels(windows[6:], healthy))
    (incident,) = incidents_of(topology, (*sick, *well))
    assert incident.status == "resolved" and incident.end_step == sick[-1].first_step + 9


@pytest.mark.parametrize("later", [False, True])
def test_one_running_mean_of_all_windows_is_carried_on(later: bool) -> None:
    topology, windows = flat()
    state = AttemptState.start("train", 0)
    for window in with_kernels(windows, healthy):
        if later:
            state = advance(state, topology=topology, now_s=0.0, window=replace(window, kernels=())).state
        state = advance(state, topology=topology, now_s=0.0, window=window).state
    kept = [digest.kernels.running for digest in state.past if digest.kernels is not None]
    assert len(kept) > 1 and not any(kept[:-1])
    assert kept[-1] is not None and (kept[-1].times[:2] == len(windows)).all()
