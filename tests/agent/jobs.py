"""Simulated jobs, triaged, as the facts that tools read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from argus.agent.facts import BadBout, UnitDay, UnitHistory
from argus.agent.held_facts import HeldFacts, HeldRun
from argus.api.facts import job_facts as job_facts_of
from argus.api.offline.files import analyse
from argus.collectors.job import join
from argus.collectors.readers import Reading
from argus.collectors.records.host_sample import HostSample, PartState
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.stacks import StackDump, Thread
from argus.evals.scenarios import scenarios
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

SLOW = 5
"""The slow rank of `job_facts`, on host h-0001, in the tensor-parallel group of ranks 4 and 5."""

JOB = Job(run="job", ranks=8, tp=2, ranks_per_host=4, kernels=6, steps=100)
FAULT = Fault(kind="compute", ranks=(SLOW,), start_step=50, severity=1.5)


@cache
def facts_of(scenario: str, *, ranks: int = 8, seed: int = 0, severity: float = 1.5) -> HeldFacts:
    """The facts of one trial of a scenario, triaged as a recording is."""
    made = scenarios()[scenario](seed=seed, ranks=ranks, severity=severity)
    return HeldFacts(held=(_held(made.job, made.faults),))


@cache
def job_facts(*, missing: tuple[int, ...] = ()) -> HeldFacts:
    """A job of tensor and data parallel groups with kernels, stacks, samples and events of other sources."""
    job = Job(**{**{name: getattr(JOB, name) for name in JOB.__dataclass_fields__}, "missing": missing})
    held = _held(job, (FAULT,))
    dumps = tuple(_dump(rank) for rank in range(job.ranks) if rank not in missing)
    rich = HeldRun(
        topology=held.topology,
        windows_held=held.windows_held,
        findings_held=held.findings_held,
        incidents=held.incidents,
        dumps=dumps,
        profile=held.profile,
        host_samples={SAMPLE.host: SAMPLE},
        told=(
            OutsideEvent(
                time_s=5.0, node="host:h-0001", source="kernel log", kind="xid", text="Xid 79\x1b[2J"
            ),
            OutsideEvent(
                time_s=6.0, node="nic:h-0000/mlx5_0", source="switch", kind="port_down", text="down"
            ),
            OutsideEvent(time_s=7.0, node="host:elsewhere", source="alerts", text="not of this run"),
        ),
    )
    return HeldFacts(held=(rich,), memory=MEMORY)


MEMORY = UnitHistory(
    days=tuple(
        UnitDay(
            host="h-0001",
            device="GPU-00000005",
            subject="own",
            day=20_000 + i,
            ratio=1 + 0.01 * i,
            windows=60,
        )
        for i in range(5)
    ),
    bouts=(
        BadBout(run="before", host="h-0001", device="GPU-00000005", since_s=1e9, until_s=1e9 + 60, windows=4),
    ),
)


SAMPLE = HostSample(
    host="h-0001",
    start_s=0.0,
    end_s=10.0,
    numbers={"cpu_some_s": 2.0},
    gpus=(PartState(name="GPU-1", flags=("sw_power_cap",), numbers={"clock_mhz": 990.0}),),
)


def _dump(rank: int) -> StackDump:
    inner = "work (model.py:7)" if rank == SLOW else "wait (all_reduce.py:3)"
    thread = Thread(kind="main", state="R" if rank == SLOW else "S", stack=f"main (train.py:1);{inner}")
    host = JOB.host(rank)
    return StackDump(run="job", attempt=0, rank=rank, host=host, ts_s=9.0 + rank, step=80, threads=(thread,))


def _held(job: Job, faults: Sequence[Fault]) -> HeldRun:
    done = simulate(job, tuple(faults), rng=np.random.default_rng(0))
    readings = [Reading(records=one, source="simulated") for one in done.records]
    report = analyse(join(readings, run=job.run), now_s=done.last_end_s)
    return HeldRun(
        profile=job_facts_of(report.job, report.topology, report.windows),
        topology=report.topology,
        windows_held=report.windows,
        findings_held=report.findings,
        incidents=report.incidents,
        replay=report.replayer,
    )
