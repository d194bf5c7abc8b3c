"""One attempt from its first window to its incidents: found, named, alone, resolved, found again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from argus.analytics.attempt import Advance, AttemptState, advance
from argus.analytics.incident import Incident
from argus.analytics.window import Window, assemble
from argus.collectors.host.window import cut
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import QUIET, SHARED, Fault, Job
from argus.evals.simulator.simulate import Simulation, simulate
from argus.topology.layout import Topology, build

ONSET, END = 100, 160
NOISY = Job(ranks=4, ranks_per_host=4, steps=200, step_s=0.06, gpu=False, noise=SHARED, comm_ratio=0.25)
CLUSTER = Job(ranks=8, steps=200, step_s=0.4, noise=QUIET)
MESH = Job(ranks=16, tp=2, steps=200, step_s=0.4, noise=QUIET)


def windows(done: Simulation, topology: Topology) -> Iterator[Window]:
    parts = [cut(records, WindowPlan()) for records in done.records]
    for members in zip(*parts, strict=True):
        yield assemble(members, topology)


def course(job: Job, faults: Sequence[Fault] = (), *, seed: int = 0, votes: int = 2) -> tuple[Advance, ...]:
    done = simulate(job, tuple(faults), rng=np.random.default_rng(seed))
    topology = build(done.layouts)
    state = AttemptState.start(job.run, job.attempt)
    steps = []
    for window in windows(done, topology):
        steps.append(advance(state, topology=topology, now_s=0.0, window=window, votes=votes))
        state = steps[-1].state
    return tuple(steps)


def fault(kind: str, rank: int, severity: float, *, start: int = ONSET, end: int | None = END) -> Fault:
    return Fault(kind=kind, ranks=(rank,), start_step=start, end_step=end, severity=severity)


def summary(incidents: Sequence[Incident]) -> list[tuple[str, tuple[int, ...], str]]:
    return [(i.cause.fault_class, i.cause.suspects, i.status) for i in incidents]


@cache
def starved() -> tuple[Advance, ...]:
    return course(NOISY, [fault("starved", 2, 1.5)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault_class"),
    [
        ("compute", "compute.slow"),
        ("starved", "host.cpu_starved"),
        ("data", "data.slow_loader"),
        ("gc", "host.gc"),
    ],
)
@pytest.mark.parametrize(("job", "severity"), [(NOISY, 1.5), (replace(CLUSTER, gpu=False), 1.1)])
def test_each_fault_is_named_within_three_windows_and_resolved(
    job: Job, severity: float, kind: str, fault_class: str
) -> None:
    for seed in range(2):
        incidents = course(job, [fault(kind, 1, severity)], seed=seed)[-1].state.incidents
        assert summary(incidents) == [(fault_class, (1,), "resolved")]
        assert incidents[0].opened_window - ONSET // 10 <= 2
        assert incidents[0].cause.verdict in ("CONFIRMED", "LIKELY")
        assert ONSET - 10 <= incidents[0].onset_step < ONSET + 20
        assert incidents[0].end_step is not None and END - 10 <= incidents[0].end_step < END + 20


def test_the_incident_carries_evidence_victims_and_cost() -> None:
    incident = starved()[-1].state.incidents[0]
    cause = incident.cause
    evidence = {item.name: item for item in cause.evidence}
    assert set(evidence) >= {
        "own_self_s",
        "self_s",
        "cpu_s",
        "gc_pause_s",
        "caused_wait_s",
        "last_share",
        "victims_wait_s",
        "step_s",
    }
    for name in ("own_self_s", "self_s", "caused_wait_s", "step_s"):
        baseline = evidence[name].baseline
        assert baseline is not None and evidence[name].value > 1.05 * baseline
    cpu = evidence["cpu_s"]
    assert cpu.baseline is not None and cpu.value < 1.2 * cpu.baseline
    assert cause.victims == (0, 1, 3) and cause.scope == "rank:2" and cause.group == "world/0"
    assert {item.fault_class for item in cause.ruled_out} == {
        "link.slow",
        "compute.slow",
        "host.gc",
        "data.slow_loader",
    }
    assert cause.second_best in {item.fault_class for item in cause.ruled_out}
    assert incident.cost.method == "critical path of the step"
    assert 0 < incident.cost.gpu_hours_so_far < incident.cost.gpu_hours_per_day
    assert incident.severity == "critical"


def test_findings_name_culprit_and_victims_apart() -> None:
    found = [f for step in starved() for f in step.findings if f.window in (11, 12, 13)]
    assert {f.ranks for f in found if f.role == "culprit"} == {(2,)}
    assert all(2 not in f.ranks for f in found if f.role == "victim")
    assert len({f.id for f in found}) == len(found)


@pytest.mark.slow
def test_victims_in_other_groups_of_a_mesh_are_not_accused() -> None:
    incidents = course(MESH, [fault("compute", 5, 1.3)])[-1].state.incidents
    assert summary(incidents) == [("compute.slow", (5,), "resolved")]


@pytest.mark.slow
def test_a_slow_path_is_that_of_its_group_and_no_member_is_accused() -> None:
    incidents = course(MESH, [fault("link", 3, 1.3)])[-1].state.incidents
    assert [i.cause.fault_class for i in incidents] == ["link.slow"]
    cause = incidents[0].cause
    assert cause.scope == f"group:{cause.group}" and 3 in cause.suspects and len(cause.suspects) == 8
    assert cause.ruled_out[0].fault_class == "compute.slow"


@pytest.mark.slow
def test_a_fault_present_from_the_first_step_is_seen_against_the_peers() -> None:
    incidents = course(CLUSTER, [fault("compute", 3, 1.3, start=0, end=None)])[-1].state.incidents
    assert summary(incidents) == [("compute.slow", (3,), "open")]
    assert incidents[0].opened_window <= 4


@pytest.mark.slow
def test_a_fault_that_lasts_never_becomes_normal() -> None:
    steps = course(replace(CLUSTER, steps=800), [fault("compute", 3, 1.2, end=None)])
    incidents = steps[-1].state.incidents
    assert summary(incidents) == [("compute.slow", (3,), "open")]
    assert incidents[0].last_window == 79
    assert len(steps[-1].state.past) == 60
    assert sum(digest.is_clean for digest in steps[-1].state.past) >= 5


@pytest.mark.slow
def test_a_fault_that_comes_back_is_the_same_fingerprint_opened_again() -> None:
    twice = [fault("data", 1, 1.5, start=60, end=90), fault("data", 1, 1.5, start=150, end=180)]
    first, second = course(CLUSTER, twice)[-1].state.incidents
    assert first.fingerprint == second.fingerprint and first.id != second.id
    assert (first.status, second.status) == ("resolved", "resolved") or second.status == "open"


@pytest.mark.slow
def test_two_faults_at_once_stay_two() -> None:
    both = [fault("compute", 1, 1.5), fault("data", 6, 1.5)]
    found = summary(course(CLUSTER, both)[-1].state.incidents)
    assert {(name, ranks) for name, ranks, _ in found} == {("compute.slow", (1,)), ("data.slow_loader", (6,))}


@pytest.mark.slow
def test_a_whole_slow_host_is_one_incident() -> None:
    job = Job(ranks=16, ranks_per_host=4, steps=160, noise=QUIET)
    sick = Fault(kind="compute", ranks=(4, 5, 6, 7), start_step=80, severity=1.4)
    found = course(job, [sick])[-1].state.incidents
    assert [(i.cause.fault_class, i.cause.scope) for i in found] == [("compute.slow", "host:h-0001")]
    assert found[0].cause.suspects == (4, 5, 6, 7)


def test_a_lone_spike_is_no_incident() -> None:
    steps = course(CLUSTER, [fault("compute", 3, 6.0, start=105, end=106)])
    assert any(f.kind == "spike" and f.start_step == 105 for step in steps for f in step.findings)
    assert steps[-1].state.incidents == ()


def test_an_observation_changes_nothing_it_was_given() -> None:
    done = simulate(NOISY, (), rng=np.random.default_rng(1))
    topology = build(done.layouts)
    first = next(windows(done, topology))
    state = AttemptState.start("train", 0)
    once = advance(state, topology=topology, now_s=0.0, window=first)
    again = advance(state, topology=topology, now_s=0.0, window=first)
    assert state == AttemptState.start("train", 0)
    assert once.findings == again.findings and once.incidents == again.incidents == ()


def test_incidents_that_stay_as_they_are_are_compared_with_none() -> None:
    asked: list[object] = []

    class Watched(Incident):
        def __eq__(self, other: object) -> bool:
            asked.append(other)
            return self is other

        __hash__ = Incident.__hash__

    (one,) = starved()[-1].state.incidents
    many = tuple(Watched(**{**vars(one), "opened_window": number}) for number in range(50))
    state = AttemptState(run=one.run, attempt=one.attempt, incidents=many)
    done = advance(state, topology=Topology(run=one.run, attempt=0, world_size=4), now_s=0.0)
    assert done.state.incidents == many and done.incidents == () and len(asked) <= len(many)


def test_a_late_window_is_history() -> None:
    steps = starved()
    done = simulate(NOISY, (), rng=np.random.default_rng(0))
    topology = build(done.layouts)
    late = next(windows(done, topology))
    after = advance(steps[-1].state, topology=topology, now_s=0.0, window=late)
    assert after.findings == () and after.incidents == () and after.state == steps[-1].state


def test_below_the_coverage_floor_nobody_is_accused() -> None:
    done = simulate(replace(NOISY, missing=(3,)), (fault("starved", 2, 2.0),), rng=np.random.default_rng(0))
    topology = build(done.layouts)
    state = AttemptState.start("train", 0)
    for window in windows(done, topology):
        step = advance(state, topology=topology, now_s=0.0, window=window)
        assert not [f for f in step.findings if f.level == "L2"] and not step.incidents
        state = step.state


@pytest.mark.slow
@pytest.mark.parametrize(
    ("job", "num_seeds"),
    [
        (replace(NOISY, steps=2000), 1),
        (replace(NOISY, ranks=8, ranks_per_host=8, steps=800), 1),
        (replace(CLUSTER, steps=1000, checkpoint_every=200), 1),
        (replace(MESH, ranks=32, steps=400), 1),
        (replace(CLUSTER, ranks=64, steps=300), 1),
    ],
)
def test_a_healthy_job_is_silent(job: Job, num_seeds: int) -> None:
    for seed in range(num_seeds):
        assert course(job, seed=100 + seed)[-1].state.incidents == ()


def test_windows_half_unseen_do_not_resolve_an_incident() -> None:
    done = simulate(NOISY, (fault("starved", 2, 1.5),), rng=np.random.default_rng(0))
    topology = build(done.layouts)
    state = AttemptState.start("train", 0)
    for window in windows(done, topology):
        blind = replace(window, coverage=replace(window.coverage, ratio=0.5))
        shown = blind if window.index >= END // 10 else window
        state = advance(state, topology=topology, now_s=0.0, window=shown).state
    assert [incident.status for incident in state.incidents] == ["open"]


def _ended(job: Job) -> list[Heartbeat]:
    """Every rank's goodbye."""
    status = Status(ts_ns=0, step=job.steps)
    return [
        Heartbeat(
            run=job.run, attempt=job.attempt, rank=rank, host="h", ts_s=0.0, state="ended", status=status
        )
        for rank in range(job.ranks)
    ]


@pytest.mark.parametrize(("start", "told"), [(20, [(1, 69)]), (50, [])])
def test_the_last_window_that_comes_with_the_end_prolongs_what_is_open_and_opens_nothing(
    start: int, told: list[tuple[int, int]]
) -> None:
    job = replace(CLUSTER, ranks=4, steps=70, gpu=False)
    done = simulate(job, (fault("compute", 1, 1.6, start=start, end=None),), rng=np.random.default_rng(0))
    topology = build(done.layouts)
    state = AttemptState.start(job.run, job.attempt)
    all_windows = list(windows(done, topology))
    for window in all_windows:
        beats = _ended(job) if window is all_windows[-1] or start == 50 else []
        state = advance(state, topology=topology, now_s=0.0, window=window, beats=beats).state
    assert [(*i.cause.suspects, i.end_step) for i in state.incidents] == told
