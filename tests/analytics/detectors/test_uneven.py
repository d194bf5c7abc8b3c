"""Stages, uneven work, rare pauses and majorities: who is accused, and who must not be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.detectors.l2_majority import Usual, _split, detect
from argus.analytics.digest import digest_of
from argus.analytics.incident import Incident
from argus.analytics.pauses import EVERYBODY as EVERYBODY_PAUSED
from argus.analytics.pauses import MAX_KEPT, pauses_of
from argus.analytics.view import View
from argus.analytics.window import Window, assemble
from argus.collectors.records.plan import WindowPlan
from argus.evals.moments import moments
from argus.evals.play import Played, play
from argus.evals.simulator.job import SCHEDULES, Fault, Job
from argus.evals.simulator.simulate import Simulation, simulate
from argus.topology.layout import build

PIPELINE = Job(ranks=8, pp=4, micro_batches=8, steps=120)
LAST_STAGE = (6, 7)
DATA = Job(ranks=16, steps=120)
EVERYBODY = tuple(range(16))


def run(job: Job, *faults: Fault, seed: int = 1) -> Played:
    return play(simulate(job, faults, rng=np.random.default_rng(seed)))


def named(played: Played) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(i.cause.fault_class, i.cause.scope, i.cause.suspects) for i in played.incidents]


def classes(incidents: Iterable[Incident]) -> set[str]:
    return {incident.cause.fault_class for incident in incidents}


def scheduled(schedule: str) -> Job:
    return replace(PIPELINE, schedule=schedule, virtual=2 if schedule == "interleaved" else 1)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("ranks", [4, 8])
def test_no_schedule_raises_a_finding_by_itself(schedule: str, ranks: int) -> None:
    played = run(replace(scheduled(schedule), ranks=ranks))
    assert not played.incidents
    assert not [f for f in played.findings if f.detector == "l2_pipeline"]


@pytest.mark.slow
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_stage_that_was_always_longer_is_a_matter_of_the_cut(schedule: str) -> None:
    job = replace(scheduled(schedule), stage_work=(1.0, 1.0, 1.0, 1.4))
    assert named(run(job))[0] == ("pipeline.imbalance", "stage:3", ())


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_stages_that_are_equally_heavy_are_one_incident_all_along(seed: int) -> None:
    """Which of them is the longest is chance in every window."""
    played = run(replace(PIPELINE, steps=240, stage_work=(1.25, 1.0, 1.0, 1.25)), seed=seed)
    (incident,) = played.incidents
    assert incident.cause.fault_class == "pipeline.imbalance"
    assert incident.cause.scope in ("stage:0", "stage:3")
    assert incident.end_step is None or incident.end_step >= 220


@pytest.mark.slow
def test_a_stage_that_became_longer_is_slow() -> None:
    fault = Fault(kind="compute", ranks=LAST_STAGE, severity=1.3, start_step=60)
    (incident,) = run(PIPELINE, fault).incidents
    cause = incident.cause
    assert (cause.fault_class, cause.scope, cause.suspects) == ("compute.slow", "stage:3", LAST_STAGE)
    told = {item.name: item for item in cause.evidence}
    whole, one = told["stage_compute_s"], told["micro_batch_s"]
    assert one.value == pytest.approx(whole.value / PIPELINE.micro_batches)
    assert one.baseline is not None and one.value > 1.2 * one.baseline


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "fault_class"),
    [
        ("compute", "compute.slow"),
        ("starved", "host.cpu_starved"),
        ("gc", "host.gc"),
        ("data", "data.slow_loader"),
    ],
)
def test_without_replicas_a_ranks_own_past_tells_what_is_wrong(kind: str, fault_class: str) -> None:
    job = replace(PIPELINE, ranks=4, gpu=False)
    found = named(run(job, Fault(kind=kind, ranks=(2,), severity=1.4, start_step=60)))
    assert (fault_class, "rank:2", (2,)) in found
    assert all(ranks == (2,) for _, _, ranks in found)


@pytest.mark.slow
@pytest.mark.parametrize("tells", [True, False])
def test_a_straggler_that_changes_from_step_to_step_is_nobodys_hardware(tells: bool) -> None:
    job = replace(DATA, tells_work=tells)
    played = run(job, Fault(kind="lengths", ranks=EVERYBODY, severity=1.3, start_step=60))
    assert named(played) == ([("imbalance.sequence", "run:train", ())] if tells else [])
    notices = [f for f in played.findings if f.detector == "l2_imbalance"]
    assert notices and all(f.role == "notice" and not f.ranks for f in notices)


@pytest.mark.slow
def test_a_hot_expert_is_named_as_that_and_its_rank_is_not() -> None:
    job = replace(DATA, ep=8, tells_work=True, routing_spread=0.02)
    played = run(job, Fault(kind="work", group="ep", ranks=(5,), severity=1.8, start_step=60))
    assert named(played) == [("imbalance.experts", "run:train", ())]


@pytest.mark.slow
def test_a_rank_with_more_to_do_is_not_slow() -> None:
    job = replace(DATA, tells_work=True)
    played = run(job, Fault(kind="work", ranks=(5,), severity=1.4, start_step=60))
    assert named(played) == [("imbalance.sequence", "run:train", ())]


@pytest.mark.slow
def test_many_ranks_that_became_slow_are_named_together_and_all_of_them_are_nobody() -> None:
    most = Fault(kind="compute", ranks=EVERYBODY[:10], severity=1.3, start_step=60)
    assert named(run(DATA, most)) == [("compute.slow", "run:train", EVERYBODY[:10])]
    every = Fault(kind="slow_all", ranks=EVERYBODY, severity=1.3, start_step=60)
    assert not [ranks for _, _, ranks in named(run(DATA, every)) if ranks]


def pauses(ranks: Iterable[int]) -> list[Fault]:
    """A compilation of three steps' length every 13 steps."""
    steps = range(45, 120, 13)
    return [
        Fault(kind="compile", ranks=(rank,), severity=4.0, start_step=step, end_step=step + 1)
        for step, rank in zip(steps, ranks, strict=False)
    ]


@pytest.mark.slow
def test_rare_pauses_of_changing_ranks_accuse_none_of_them() -> None:
    found = named(run(DATA, *pauses([3, 11, 6, 14, 0, 9])))
    assert found == [("host.jit", "run:train", ())]


@pytest.mark.slow
def test_rare_pauses_of_one_rank_are_its_own() -> None:
    found = named(run(DATA, *pauses([3] * 6)))
    assert ("host.jit", "rank:3", (3,)) in found and all(ranks == (3,) for _, _, ranks in found)


@pytest.mark.slow
def test_pauses_of_changing_ranks_of_which_one_was_heard_are_not_its_own() -> None:
    done = simulate(DATA, pauses([3, 11, 3, 14, 3, 3]), rng=np.random.default_rng(1))
    heard = [
        replace(moment, parts=tuple(part for part in moment.parts if part.rank == 3))
        for moment in moments(done)
    ]
    assert not play(done, heard=heard).incidents


@pytest.mark.slow
def test_short_collections_of_changing_ranks_are_told_and_routine_ones_are_not() -> None:
    def collected(severity: float) -> list[tuple[str, str, tuple[int, ...]]]:
        ranks = np.random.default_rng(3).integers(0, DATA.ranks, 15).tolist()
        faults = [
            Fault(kind="gc", ranks=(rank,), severity=severity, start_step=step, end_step=step + 1, every=2)
            for step, rank in zip(range(60, 120, 4), ranks, strict=True)
        ]
        return named(run(DATA, *faults))

    assert collected(1.3) == [("host.gc", "run:train", ())]
    assert collected(1.05) == []


def test_of_every_step_the_longest_pause_is_kept() -> None:
    storm = Fault(kind="compile", ranks=tuple(range(32)), severity=1.3)
    done = simulate(Job(ranks=32, steps=10, warmup_steps=0), [storm], rng=np.random.default_rng(0))
    kept = pauses_of(window_of(done))
    assert len(kept) == MAX_KEPT and {pause.step for pause in kept} == set(range(10))


def test_one_pause_is_no_incident() -> None:
    assert not run(replace(DATA, steps=80), *pauses([3])).incidents


def grown(own: Sequence[float], usual: Sequence[float]) -> bool:
    """Whether `l2_majority` sees a slow part in ranks that took `usual` before."""
    seen = digest_of(window_of(simulate(Job(ranks=len(own), steps=20), rng=np.random.default_rng(0))))
    seen = replace(seen, own_s=np.array(own), unsteady_s=np.full(len(own), 0.001))
    past = Usual(own=np.log(np.array(usual)), strayed=np.full((4, len(own)), 0.005))
    everybody = np.ones(len(own), np.bool_)
    return _split(seen, past, everybody, gates=(1.06, 6.0, 0.5, 4)) is not None


def window_of(done: Simulation) -> Window:
    return assemble(next(done.windows(WindowPlan())).parts, build(done.layouts))


def test_the_many_are_not_slow_because_the_few_got_well_again() -> None:
    assert grown([1.5] * 6 + [1.0] * 2, [1.0] * 8)
    assert not grown([1.0] * 8, [1.0] * 6 + [1.5] * 2)


def test_a_rank_of_which_one_window_was_lost_is_still_one_of_the_many() -> None:
    sick = Fault(kind="compute", ranks=tuple(range(11)), severity=1.3, start_step=120)
    done = simulate(replace(DATA, steps=140), [sick], rng=np.random.default_rng(0))
    topology = build(done.layouts)
    seen = [assemble(closed.parts, topology) for closed in done.windows(WindowPlan())]
    *past, now = map(digest_of, seen)
    lost = past[5].own_s.copy()
    lost[3] = np.nan
    past[5] = replace(past[5], own_s=lost)
    view = View(run="r", attempt=0, topology=topology, now_s=0.0, window=seen[-1])
    (finding,) = detect(replace(view, past=tuple(past), digest=now))
    assert finding.ranks == sick.ranks


@pytest.mark.slow
def test_a_stage_of_one_rank_of_which_one_window_was_lost_has_a_class() -> None:
    job, sick = (
        replace(PIPELINE, pp=8, steps=160),
        Fault(kind="compute", ranks=(5,), severity=1.5, start_step=120),
    )
    done = simulate(job, [sick], rng=np.random.default_rng(0))
    heard = [
        replace(moment, parts=tuple(part for part in moment.parts if (part.rank, part.window) != (5, 5)))
        for moment in moments(done)
    ]
    (incident,) = play(done, heard=heard).incidents
    assert (incident.cause.fault_class, incident.cause.suspects) == ("compute.slow", (5,))


def test_a_wait_for_data_of_everybody_is_a_pause_and_that_of_one_rank_is_not() -> None:
    job = Job(ranks=8, steps=20)

    def paused(*ranks: int) -> set[tuple[str, int]]:
        stall = Fault(kind="data", ranks=ranks, severity=4.0, start_step=5, end_step=6)
        done = simulate(job, [stall], rng=np.random.default_rng(0))
        return {(pause.kind, pause.rank) for pause in pauses_of(window_of(done)) if pause.step == 5}

    assert paused(*range(8)) == {("loader_wait", EVERYBODY_PAUSED)}
    assert not paused(3) and not paused(0, 1, 2, 3)


@pytest.mark.slow
@pytest.mark.parametrize("every", [33, 40, 45])
def test_collections_of_all_ranks_far_apart_are_one_incident_billed_once(every: int) -> None:
    """A window in four or five holds one; each step is paid for once."""
    steps = range(30, 360, every)
    pauses = [
        Fault(kind="gc", ranks=tuple(range(16)), severity=1.6, start_step=step, end_step=step + 1)
        for step in steps
    ]
    played = run(replace(DATA, steps=360), *pauses)
    (incident,) = [one for one in played.incidents if one.cause.fault_class == "host.gc"]
    assert incident.cause.suspects == ()
    assert incident.onset_step == 30
    assert incident.cost.num_steps <= 330
    assert incident.end_step is None or incident.end_step >= steps[-1] - 2 * every


@pytest.mark.slow
def test_collections_of_all_ranks_that_stay_away_are_over() -> None:
    pauses = [
        Fault(kind="gc", ranks=tuple(range(16)), severity=1.6, start_step=step, end_step=step + 1)
        for step in range(30, 200, 33)
    ]
    (incident,) = run(replace(DATA, steps=300), *pauses).incidents
    assert incident.status == "resolved"
    assert incident.end_step is not None and incident.end_step < 230
