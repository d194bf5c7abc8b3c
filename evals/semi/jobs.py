"""What every system says of a recorded job in which one rank was made slower."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.window import Bools, Window
from argus.api.offline.files import analyse, windows_of
from argus.collectors.job import Job
from argus.collectors.records.events import RankRecords, Rows
from argus.evals.marks import Mark, Spent
from argus.evals.score import Trial
from argus.evals.semi.marking import crashed, marked
from argus.evals.semi.retime import Slow
from argus.evals.spent import measured
from argus.evals.systems import OURS, systems
from argus.evals.systems._seen import Seen, incidents_of
from argus.evals.truth import Truth
from argus.topology.layout import Topology, build

CLASS = "compute.slow"


def topology_of(job: Job) -> Topology:
    """Who works with whom, as the ranks that were read say."""
    return build(one.layout for one in job.records)


def truth_of(rank: int, *, onset_step: int, severity: float) -> Truth:
    """The fault put in; a severity of 1 puts in none."""
    if severity <= 1.0:
        return Truth()
    return Truth(fault_class=CLASS, ranks=(rank,), scope=f"rank:{rank}", onset_step=onset_step)


def stretches(rows: Rows, chosen: Bools, *, factor: float) -> Slow:
    """Rows with a start and a length as disjoint stretches in order."""
    start = rows["start_ns"][chosen]
    end = start + rows["dur_ns"][chosen]
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(end[order])
    fresh = np.append(True, start[1:] > end[:-1]) if len(start) else np.empty(0, np.bool_)
    last = np.append(np.flatnonzero(fresh)[1:] - 1, len(start) - 1) if len(start) else np.empty(0, np.int64)
    return Slow(start_ns=start[fresh], end_ns=end[last], factor=factor)


def cost_ratio(before: Sequence[RankRecords], after: Sequence[RankRecords], *, onset_step: int) -> float:
    """What the steps from the onset on took more, by the job's slowest rank."""
    return _length_s(after, onset_step) / _length_s(before, onset_step) - 1.0


def _length_s(records: Sequence[RankRecords], onset_step: int) -> float:
    rows = [one.steps[one.steps["step"] >= onset_step] for one in records]
    return float(
        max(int(one["end_ns"].max()) for one in rows) - min(int(one["start_ns"].min()) for one in rows)
    )


def judged(
    trial: Trial, truth: Truth, job: Job, *, names: Sequence[str], known: Sequence[Truth], cost: float
) -> list[Mark]:
    """The marks of all systems."""
    windows = windows_of(job, topology_of(job), None)
    return [_judged(trial, truth, job, name=name, known=known, cost=cost, windows=windows) for name in names]


def _judged(
    trial: Trial,
    truth: Truth,
    job: Job,
    *,
    name: str,
    known: Sequence[Truth],
    cost: float,
    windows: Sequence[Window],
) -> Mark:
    findings: Sequence[Finding] = ()
    try:
        with measured() as meter:
            if name == OURS:
                report = analyse(job, now_s=0.0)
                incidents, findings = report.incidents, report.findings
                opened = [one.opened_window for one in incidents]
            else:
                incidents, opened = _theirs(name, windows, seed=trial.seed)
    except Exception as error:  # noqa: BLE001  one crashed trial is a result, not the end of the suite
        return crashed(name, trial, truth, error)
    return told_at_ends(
        name,
        trial,
        truth,
        windows=windows,
        incidents=incidents,
        opened=opened,
        known=known,
        findings=findings,
        cost=cost,
        spent=Spent(wall_s=meter.wall_s, cpu_s=meter.cpu_s, windows=len(windows)),
    )


def told_at_ends(
    name: str,
    trial: Trial,
    truth: Truth,
    *,
    windows: Sequence[Window],
    incidents: Sequence[Incident],
    opened: Sequence[int],
    known: Sequence[Truth],
    cost: float,
    spent: Spent,
    findings: Sequence[Finding] = (),
) -> Mark:
    """The mark of incidents that were told when the windows `opened` ended, on the clock of the job's own steps."""
    size = windows[0].num_steps
    ends = {one.index: one.first_step + one.num_steps for one in windows}
    placed = [
        replace(one, opened_window=(ends[index] - 1) // size)
        for one, index in zip(incidents, opened, strict=True)
    ]
    return marked(
        name,
        trial,
        truth,
        incidents=placed,
        told_step=[ends[index] for index in opened],
        known=known,
        window_steps=size,
        steps=max(ends.values()),
        findings=[replace(one, window=(ends[one.window] - 1) // size) for one in findings],
        cost_ratio=cost if truth.fault_class else None,
        spent=spent,
    )


def _theirs(name: str, windows: Sequence[Window], *, seed: int) -> tuple[tuple[Incident, ...], list[int]]:
    seen = [Seen(now_s=float(one.index), window=one) for one in windows]
    incidents, told = incidents_of(systems()[name](seen, rng=np.random.default_rng([seed, 33])), seen)
    return incidents, [int(index) for index in told]
