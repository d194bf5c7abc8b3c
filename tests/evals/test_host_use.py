"""What simulated hosts measure: the same by records and by windows, and what it is worth to the analysis."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from argus.analytics.host_use import FLOORS
from argus.collectors.host.window import cut
from argus.collectors.readers.recording import read
from argus.collectors.records.plan import WindowPlan
from argus.evals.play import play
from argus.evals.scenarios import starved_rank, throttled_rank
from argus.evals.simulator.frames import rank_frames
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import Simulation, simulate

JOB = Job(ranks=4, ranks_per_host=2, steps=80, step_s=0.5, gpu=False, clock_offset_s=0.2)


def run(*faults: Fault, job: Job = JOB) -> Simulation:
    return simulate(job, faults, rng=np.random.default_rng(1))


def fault(kind: str, *, start_step: int = 20) -> Fault:
    return Fault(kind=kind, ranks=(1,), start_step=start_step, severity=1.5)


@pytest.mark.parametrize("kind", ["starved", "throttled", "hang"])
def test_records_are_cut_into_what_the_windows_say(kind: str) -> None:
    done, plan = run(fault(kind, start_step=45)), WindowPlan()
    cuts = {(w.rank, w.window): w.use for records in done.records for w in cut(records, plan)}
    direct = {(w.rank, w.window): w.use for closed in done.windows(plan) for w in closed.parts}
    assert len(direct) >= 16
    for key, use in direct.items():
        assert use == pytest.approx(cuts[key], abs=1e-4), key


def test_healthy_hosts_stay_below_the_floors_and_differ() -> None:
    parts = [part for closed in run().windows(WindowPlan()) for part in closed.parts]
    for name in ("thread_run_delay_ratio", "throttled_ratio", "major_faults_per_s", "host_memory_full_ratio"):
        assert max(part.use[name] for part in parts) < FLOORS[name]
    assert len({part.use["thread_run_delay_ratio"] for part in parts}) > 3


@pytest.mark.parametrize(
    ("kind", "grows", "stays"),
    [
        ("starved", "thread_run_delay_ratio", "throttled_ratio"),
        ("throttled", "throttled_ratio", "thread_run_delay_ratio"),
    ],
)
def test_a_fault_shows_in_its_own_counter_of_its_own_rank(kind: str, grows: str, stays: str) -> None:
    windows = list(run(fault(kind)).windows(WindowPlan()))
    late = {part.rank: part.use for part in windows[4].parts}
    assert late[1][grows] == pytest.approx(0.5 / 1.6, rel=0.35)
    assert max(use[grows] for rank, use in late.items() if rank != 1) < 0.05
    assert late[1][stays] < 0.05
    assert next(part for part in windows[1].parts if part.rank == 1).use[grows] < 0.05


def test_a_recording_keeps_what_the_host_saw(tmp_path: Path) -> None:
    records = run(fault("starved")).records[1]
    path = tmp_path / "rank-1.argus"
    path.write_bytes(b"".join(rank_frames(records)))
    (reading,) = read(path)
    assert not reading.warnings and reading.records.looks == records.looks
    assert cut(reading.records, WindowPlan())[4].use["thread_run_delay_ratio"] > 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "counter"),
    [(starved_rank, "thread_run_delay_ratio"), (throttled_rank, "throttled_ratio")],
)
def test_the_analysis_names_the_counter_that_grew(module: object, counter: str) -> None:
    scenario = module.scenario(seed=0, ranks=16, severity=1.5)  # type: ignore[attr-defined]
    played = play(simulate(scenario.job, scenario.faults, rng=np.random.default_rng(0)))
    [incident] = played.incidents
    assert incident.cause.fault_class == "host.cpu_starved" and incident.cause.verdict == "CONFIRMED"
    assert counter in {item.name for item in incident.cause.evidence}
