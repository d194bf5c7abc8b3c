"""Laws of the simulator: its records are what collectors would write of a job with real waiting."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.window import Floats, Window, assemble
from argus.collectors.host.window import cut
from argus.collectors.records.events import DTYPES, RankRecords
from argus.collectors.records.frames import FrameReader, Kind
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import FAULT_KINDS, SHARED, Fault, Job
from argus.evals.simulator.program import LAUNCH, program_of
from argus.evals.simulator.simulate import Simulation, simulate
from argus.topology.layout import build

JOB = Job(ranks=8, steps=40, gpu=False, checkpoint_every=15)


def run(job: Job = JOB, *faults: Fault, seed: int = 1) -> Simulation:
    return simulate(job, faults, rng=np.random.default_rng(seed))


def calls(simulation: Simulation, kind: str) -> tuple[Floats, Floats]:
    """Entries and ends of one kind of operation of the first stage. (step, call, rank)"""
    chosen = [n for n, op in enumerate(program_of(simulation.job).ops(0)) if op.kind == kind]
    return simulation.timeline.entry[0][:, chosen], simulation.timeline.end[0][:, chosen]


def window(simulation: Simulation, index: int) -> Window:
    plan = WindowPlan()
    parts = [part for records in simulation.records for part in cut(records, plan) if part.window == index]
    return assemble(parts, build(simulation.layouts))


def rows_equal(left: RankRecords, right: RankRecords) -> bool:
    return all(np.array_equal(getattr(left, name), getattr(right, name)) for name in DTYPES)


def test_the_same_seed_gives_the_same_records() -> None:
    first, again, other = run(), run(), run(seed=2)
    assert all(map(rows_equal, first.records, again.records))
    assert not rows_equal(first.records[0], other.records[0])


def test_outermost_phases_add_up_to_the_step() -> None:
    for records in run().records:
        outer = records.phases[records.phases["depth"] == 0]
        spent = np.bincount(outer["step"], outer["dur_ns"], JOB.steps)
        step = records.steps["end_ns"] - records.steps["start_ns"]
        assert np.abs(spent - step).max() < 10  # rounding of each edge


@pytest.mark.parametrize("tp", [1, 2])
def test_no_member_leaves_a_collective_before_the_last_has_entered(tp: int) -> None:
    whole = window(run(Job(ranks=8, tp=tp, steps=20, noise=SHARED)), 1)
    sizes = {group.id: group.ranks for group in whole.topology.groups}
    seen_groups = [sizes[name] for name in whole.groups]
    seen = whole.collectives
    for call in np.unique(seen.call):
        members = seen.call == call
        assert members.sum() == len(seen_groups[seen.group[members][0]])
        assert np.ptp(seen.end_s[members]) < 1e-6
        assert seen.end_s[members].min() > seen.entry_s[members].max()


def test_peers_wait_for_the_slow_rank_and_its_own_wait_is_the_shortest() -> None:
    seen = window(run(JOB, Fault(kind="compute", ranks=(5,), severity=1.5)), 3)
    backward = seen.phases.index("backward")
    wait = seen.wait_s[backward].mean(axis=1)
    assert int(wait.argmin()) == 5
    self_s = seen.self_s[backward].mean(axis=1)
    assert int(self_s.argmax()) == 5
    assert np.delete(self_s, 5).max() < 1.1 * np.delete(self_s, 5).min()


def test_a_slow_rank_delays_its_tensor_peer_which_delays_the_replicas() -> None:
    job = Job(ranks=8, tp=2, steps=20)
    entry = calls(run(job, Fault(kind="compute", ranks=(3,), severity=1.5)), LAUNCH)[0][10, -1]
    late = entry - entry.min()
    assert set(np.flatnonzero(late > 0.1)) == {2, 3}


@pytest.mark.parametrize(
    ("kind", "phase", "cpu_grows"),
    [
        ("compute", "forward", True),
        ("gc", "forward", True),
        ("data", "data", False),
        ("starved", "forward", False),
    ],
)
def test_a_fault_acts_in_its_phase_and_on_cpu_time_as_it_would(
    kind: str, phase: str, cpu_grows: bool
) -> None:
    job = Job(ranks=4, steps=60, gpu=False)
    seen = window(run(job, Fault(kind=kind, ranks=(1,), start_step=20, end_step=50, severity=1.5)), 3)
    after = window(run(job, Fault(kind=kind, ranks=(1,), start_step=20, end_step=50, severity=1.5)), 5)
    where = seen.phases.index(phase)
    own, peers = seen.self_s[where, 1].mean(), np.delete(seen.self_s[where], 1, 0).mean()
    cpu, peers_cpu = seen.cpu_s[where, 1].mean(), np.delete(seen.cpu_s[where], 1, 0).mean()
    assert own > 1.25 * peers
    assert (cpu > 1.25 * peers_cpu) == cpu_grows
    assert after.self_s[where, 1].mean() < 1.15 * np.delete(after.self_s[where], 1, 0).mean()


def test_gc_pauses_are_told_as_events() -> None:
    seen = window(run(JOB, Fault(kind="gc", ranks=(2,), severity=1.5)), 2)
    pause = {
        rank: sum(e.dur_s for e in seen.events if e.kind == "gc" and e.rank == rank) for rank in range(8)
    }
    assert pause[2] > 10 * max(value for rank, value in pause.items() if rank != 2)


def test_a_slow_link_is_slow_for_every_member_of_its_groups_only() -> None:
    job = Job(ranks=8, tp=2, steps=40)
    healthy, slow = run(job), run(job, Fault(kind="link", ranks=(3,), severity=2.0))

    def transfer(done: Simulation) -> Floats:
        entry, end = calls(done, LAUNCH)
        return np.asarray((end - entry)[20:, 0].mean(axis=0))

    ratio = transfer(slow) / transfer(healthy)
    assert ratio[1::2].min() > 3 and ratio[0::2].max() < 1.3


def test_after_a_hang_no_step_ends_and_beats_name_the_rank_behind() -> None:
    simulation = run(JOB, Fault(kind="hang", ranks=(6,), start_step=25))
    assert {int(records.steps["step"].max()) for records in simulation.records} == {24}
    beats = simulation.beats(simulation.last_end_s + 90)
    entered = {beat.rank: beat.status.groups["0"] for beat in beats}
    assert entered.pop(6) == (100, 100)
    assert set(entered.values()) == {(104, 100)}
    assert {beat.state for beat in beats} == {"running"} and beats[6].status.phase == "forward"


def test_a_lost_rank_is_seen_as_exited_and_its_last_status_ages() -> None:
    simulation = run(JOB, Fault(kind="lost", ranks=(6,), start_step=25))
    beats = simulation.beats(simulation.last_end_s + 30)
    assert [beat.rank for beat in beats if beat.state == "exited"] == [6]
    assert beats[6].exit_reason == "signal 9" and beats[6].status_age_s > 25 > beats[0].status_age_s
    assert all(Heartbeat.from_json(beat.to_json()) == beat for beat in beats)


def test_a_job_that_ends_says_so_and_progress_never_goes_back() -> None:
    simulation = run()
    moments = np.linspace(JOB.start_s, simulation.last_end_s, 60)
    steps = [[beat.status.step for beat in simulation.beats(float(now))] for now in moments]
    assert (np.diff(np.array(steps), axis=0) >= 0).all()
    assert {beat.state for beat in simulation.beats(simulation.last_end_s + 1)} == {"ended"}


def test_missing_ranks_lost_steps_and_clock_offsets() -> None:
    job = Job(
        ranks=8, ranks_per_host=4, steps=40, missing=(3,), lost_step_probability=0.1, clock_offset_s=5.0
    )
    simulation = run(job)
    assert [records.layout.rank for records in simulation.records] == [0, 1, 2, 4, 5, 6, 7]
    seen = window(simulation, 1)
    assert seen.coverage.missing_ranks == (3,) and 0.5 < seen.coverage.ratio < 1.0
    lost = sum(records.dropped.get("ring_full", 0) for records in simulation.records)
    assert lost == sum(job.steps - len(records.steps) for records in simulation.records) > 0
    ends = [int(records.steps["end_ns"][-1]) for records in simulation.records]
    assert abs(ends[0] - ends[-1]) > 10_000_000


def test_warmup_and_checkpoint_steps_are_flagged() -> None:
    flags = run().records[0].steps["flags"]
    assert set(np.flatnonzero(flags)) == {0, 1, 2, 15, 30}


def test_faults_compose() -> None:
    both = run(
        JOB, Fault(kind="compute", ranks=(1,), severity=2.0), Fault(kind="data", ranks=(4,), severity=2.0)
    )
    seen = window(both, 2)
    means = seen.self_s.mean(axis=2)
    assert int(means[seen.phases.index("forward")].argmax()) == 1
    assert int(means[seen.phases.index("data")].argmax()) == 4


@pytest.mark.parametrize("kind", FAULT_KINDS)
def test_frames_carry_the_same_rows(kind: str) -> None:
    job = replace(JOB, rollout_ratio=0.5) if kind == "rollout" else JOB
    records = run(job, Fault(kind=kind, ranks=(0,), start_step=30)).records[0]
    reader = FrameReader()
    frames = [frame for chunk in rank_frames(records) for frame in reader.feed(chunk)]
    steps = np.concatenate(
        [frame.rows for frame in frames if frame.kind is Kind.STEPS and frame.rows is not None]
    )
    assert np.array_equal(steps, records.steps)
    assert frames[0].kind is Kind.LAYOUT and frames[-1].kind is Kind.BYE


def self_s(simulation: Simulation, index: int, phase: str) -> Floats:
    seen = window(simulation, index)
    return np.asarray(seen.self_s[seen.phases.index(phase)])


def test_a_loop_generates_scores_trains_and_hands_out_its_weights() -> None:
    job = replace(JOB, rollout_ratio=1.0, rollout_spread=0.3)
    seen = window(run(job), 2)
    assert {"rollout", "reward", "weight_sync", "forward", "backward"} <= set(seen.phases)
    lasts = seen.dur_s[seen.phases.index("rollout")]
    assert np.ptp(lasts, axis=0).max() < 0.1 * lasts.mean()  # all wait for the longest answer
    assert np.ptp(self_s(run(job), 2, "rollout"), axis=0).min() > 0.2 * lasts.mean()
    slow = self_s(run(job, Fault(kind="rollout", ranks=(5,), severity=2.0)), 2, "rollout").mean(axis=1)
    assert int(slow.argmax()) == 5
    with pytest.raises(ValueError, match="needs a job that generates"):
        run(JOB, Fault(kind="rollout", ranks=(1,)))


def test_a_fault_that_grows_begins_with_nothing_and_ends_in_full() -> None:
    grown = Fault(kind="compute", ranks=(5,), severity=2.0, start_step=10, end_step=40, grows=True)
    more = run(JOB, grown).costs.wall - run().costs.wall
    by_step = more.sum(axis=1)[:, 5] / JOB.step_s
    assert not by_step[:10].any() and by_step[10] < 0.1 and by_step[39] == pytest.approx(1.0, rel=0.15)
    assert np.corrcoef(by_step[10:], np.arange(30))[0, 1] > 0.95


def test_a_late_save_keeps_all_others_in_the_barrier() -> None:
    late = run(replace(JOB, checkpoint_every=15), Fault(kind="save", ranks=(2,), severity=1.5))
    phase = self_s(late, 1, "checkpoint")[:, 5]
    assert int(phase.argmax()) == 2 and phase[2] > 1.5 * np.delete(phase, 2).max()
    lasts = late.end_s[15] - late.start_s[15]
    assert np.ptp(lasts) < 0.2 * lasts.mean()


def test_a_gap_loses_records_and_slows_nobody() -> None:
    gap = Fault(kind="gap", ranks=(4, 5), start_step=10, end_step=20)
    torn = run(JOB, gap)
    assert np.array_equal(torn.end_s, run().end_s)
    assert [part.rank for part in list(torn.windows(WindowPlan()))[1].parts] == [0, 1, 2, 3, 6, 7]
    assert torn.records[4].dropped == {"ring_full": 10} and not torn.records[3].dropped


def test_ranks_may_tell_hosts_they_are_not_on() -> None:
    job = replace(JOB, told_hosts=tuple(f"old-{rank % 2}" for rank in range(8)))
    done = run(job)
    told = {
        done.layouts[0].host,
        next(done.windows(WindowPlan())).parts[0].host,
        done.beats(job.start_s + 2)[0].host,
    }
    assert told == {"old-0"} and job.host(0) == "h-0000"
    with pytest.raises(ValueError, match="must name a host for each"):
        replace(JOB, told_hosts=("a",))


@pytest.mark.parametrize("wrong", [{"ranks": 1}, {"ranks": 6, "tp": 4}, {"ranks": 4, "tp": 4}, {"steps": 0}])
def test_an_impossible_job_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Job(**wrong)  # type: ignore[arg-type]
