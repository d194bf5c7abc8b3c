"""The offline path: files in, the same records through the same stages, a report out."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from argus.agent.triage import diagnose, no_incident
from argus.agent.wording import counted, ranks
from argus.analytics.attempt import AttemptState, advance
from argus.analytics.ballots import VOTES
from argus.analytics.clocks import ALIGNED, DURATIONS, align
from argus.analytics.finding import Evidence, Finding
from argus.analytics.fuse.startup import MIN_PAST
from argus.analytics.incident import Incident
from argus.analytics.long_wait import long_wait
from argus.analytics.outside import Outside
from argus.analytics.peers import without_peers
from argus.analytics.recorded_steps import Numbers
from argus.analytics.waits import Waits, waits_of
from argus.analytics.whatif.graph import NotReplayable
from argus.analytics.whatif.shares import Replayer, WhatIf, replayer_of, what_if
from argus.analytics.window import Window, assemble
from argus.api.offline.doubt import FEW_STEPS, MIN_SHARE_READ, are_too_few, doubt_of
from argus.api.offline.ends import Ends, ends_of
from argus.api.offline.seen import Seen, analyse_seen, end_s, outside_of, seen_by, told_apart
from argus.api.offline.series import SeriesReport, analyse_series
from argus.api.offline.stops import analyse_dumps, unlike_sizes, with_hang
from argus.api.report import NothingUsable, Report, costliest
from argus.collectors.gather import Progress, gather
from argus.collectors.host.window import cut
from argus.collectors.job import Job, join, without_holes
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.plan import DEFAULT_STEPS, WindowPlan
from argus.collectors.records.stacks import StackDump
from argus.topology.groups import Group
from argus.topology.layout import Topology, build

MEANS = "training_log"
"""Source whose phases are means over micro-batches and steps, in no order that could be replayed."""

NOBODY = Seen()
"""No witnesses."""

LATE_START = 0.5
"""A suspect that began the first step late by half of what it costs brought its lateness along."""


def triage_files(
    paths: Sequence[Path],
    *,
    now_s: float,
    window_steps: int | None = None,
    progress: Progress = lambda name, share: None,
) -> Report | SeriesReport:
    """Read, join, align, analyse. Raises NothingUsable, and ReaderError if a path is not there.

    Files of any sorts may be mixed: ranks with steps are judged first, dumps of a hung job beside them, bare step
    times beside both; scrapes, logs and stacks are witnesses of all of that.
    """
    with tempfile.TemporaryDirectory(prefix="argus-") as scratch:
        gathered = gather(paths, Path(scratch), progress=progress)
    readings, warnings = gathered.readings, gathered.warnings
    seen = seen_by(readings)
    dumps = [reading for reading in readings if reading.dump is not None]
    series = [reading.series for reading in readings if reading.series is not None]
    if any(len(reading.records.steps) for reading in readings):
        job = join(readings, run=_name(paths))
        report = analyse(job, now_s=now_s, window_steps=window_steps, warnings=warnings, seen=seen)
        if dumps:
            report = with_hang(report, analyse_dumps(dumps, warnings=unlike_sizes(readings)))
    elif dumps:
        report = replace(analyse_dumps(dumps, warnings=warnings), seen=seen.to_json())
    elif series:
        return analyse_series(series, warnings=warnings, seen=seen.to_json())
    elif seen:
        return analyse_seen(readings, warnings=warnings)
    else:
        raise NothingUsable(gathered.why_nothing)
    return replace(report, series=analyse_series(series)) if series else report


def _name(paths: Sequence[Path]) -> str:
    return paths[0].resolve().name.split(".")[0] or "trace"


def read_job(
    paths: Sequence[Path], *, progress: Progress = lambda name, share: None
) -> tuple[Job, Topology, tuple[str, ...]]:
    """The job behind the paths with what could not be read. Raises NothingUsable and ReaderError."""
    with tempfile.TemporaryDirectory(prefix="argus-") as scratch:
        gathered = gather(paths, Path(scratch), progress=progress)
    try:
        job = join(gathered.readings, run=_name(paths))
    except ValueError:
        raise NothingUsable(gathered.why_nothing) from None
    topology = _as_read(build(one.layout for one in job.records), job)
    return job, topology, (*gathered.warnings, *job.warnings)


def analyse(
    job: Job,
    *,
    now_s: float,
    window_steps: int | None = None,
    warnings: Sequence[str] = (),
    seen: Seen = NOBODY,
) -> Report:
    """The verdict on one job's records; `seen` are its witnesses."""
    topology = _as_read(build(one.layout for one in job.records), job)
    closed, numbers = without_holes(job), Numbers(steps=job.steps)
    windows = windows_of(closed, topology, window_steps)
    replayer, replayed, doubts = _what_if(job, topology)
    known = numbers.counted(replayed) if replayed is not None and replayed.is_close else None
    witnesses = outside_of(seen, closed, topology)
    outside = replace(witnesses, stacks=(*stacks_of(closed), *witnesses.stacks))
    now_s = end_s(job) if seen else now_s
    told = _advance_over(windows, topology, now_s=now_s, replayed=known, outside=outside)
    waits = [(window, waits_of(window)) for window in windows]
    findings, found = numbers.told((*told[0], *long_wait(waits)), told[1])
    ends = ends_of(job, topology)
    missing = (*ends.missing, *missing_evidence(windows, job))
    late = tuple(_with_start_lag(one, job, windows[0]) for one in found)
    incidents = _diagnosed(late, findings=findings, topology=topology, missing=missing)
    return Report(
        job=job,
        topology=topology,
        windows=windows,
        collectives=tuple(row for window, seen in waits for row in _collective_rows(window, seen)),
        findings=findings,
        incidents=incidents,
        diagnosis=_verdict(job, incidents, missing=missing, doubt=doubt_of(job, waits, findings), ends=ends),
        warnings=tuple(dict.fromkeys([*warnings, *job.warnings, *topology.conflicts, *doubts])),
        what_if=replayed,
        replayer=replayer,
        stacks=told_apart(witnesses.stacks),
        seen=seen.to_json(),
        witnesses=witnesses,
        is_end_first=is_end_first(ends, incidents),
    )


def _diagnosed(
    incidents: Sequence[Incident],
    *,
    findings: Sequence[Finding],
    topology: Topology,
    missing: Sequence[str],
) -> tuple[Incident, ...]:
    return tuple(
        replace(one, diagnosis=diagnose(one, findings=findings, topology=topology, missing=missing))
        for one in incidents
    )


def is_end_first(ends: Ends, incidents: Sequence[Incident]) -> bool:
    """Whether how one rank ended says more than the costliest incident: nothing that costs much was decided."""
    worst = costliest(incidents)
    is_slight = worst is None or (worst.cause.verdict == "INCONCLUSIVE" and worst.severity == "info")
    return bool(ends.first) and is_slight


def _verdict(
    job: Job,
    incidents: Sequence[Incident],
    *,
    missing: Sequence[str],
    doubt: str,
    ends: Ends,
) -> dict[str, Any]:
    """The costliest incident's diagnosis, or that of a job without any."""
    worst = costliest(incidents)
    is_first = is_end_first(ends, incidents)
    if worst is not None and worst.diagnosis is not None and not is_first:
        return worst.diagnosis
    doubt = ends.headline if is_first else doubt or ends.headline
    return no_incident(missing=missing, doubt=doubt, num_ranks=len(job.ranks))


def _advance_over(
    windows: Sequence[Window],
    topology: Topology,
    *,
    now_s: float,
    replayed: WhatIf | None,
    outside: Outside,
) -> tuple[tuple[Finding, ...], tuple[Incident, ...]]:
    """Findings and incidents of all windows, taken in one after the other; one alone cannot repeat anything."""
    is_lone = len(windows) == 1
    state = AttemptState.start(topology.run, topology.attempt)
    findings: list[Finding] = []
    for window in windows:
        end_step = window.first_step + window.num_steps
        step = advance(
            state,
            topology=topology,
            now_s=now_s,
            window=window,
            votes=1 if is_lone else VOTES,
            min_past=0 if is_lone else MIN_PAST,
            worth_s=None if replayed is None else replayed.worth_in(window.first_step, end_step),
            outside=_until(outside, window, is_last=window is windows[-1]),
        )
        state = step.state
        findings += step.findings
    return tuple(findings), state.incidents


def _until(outside: Outside, window: Window, *, is_last: bool) -> Outside:
    """What was known by the end of the window; what does not say of which step it is, was known at the last."""
    end = window.first_step + window.num_steps
    if is_last:
        return outside
    return replace(outside, stacks=tuple(dump for dump in outside.stacks if dump.step < end))


def stacks_of(job: Job) -> tuple[StackDump, ...]:
    """What the ranks' hosts saw their threads do, in order of time."""
    return tuple(sorted((dump for one in job.records for dump in one.stacks), key=lambda dump: dump.ts_s))


def samples_of(job: Job) -> dict[str, HostSample]:
    """What each host's devices last said, where a recording kept it."""
    found = {
        look.sample.host: look.sample for one in job.records for look in one.looks if look.sample is not None
    }
    return dict(sorted(found.items()))


def _what_if(job: Job, topology: Topology) -> tuple[Replayer | None, WhatIf | None, tuple[str, ...]]:
    """The replay of the job's pipeline, if there is one that can be replayed, with what is to be said of it."""
    if any(one.layout.source == MEANS for one in job.records):
        return None, None, ()
    try:
        replayer = replayer_of(job.records, topology)
    except NotReplayable as error:
        return None, None, (f"no what-if: {error}",)
    if replayer is None:
        return None, None, ()
    result = what_if(replayer, world_size=job.world_size)
    left = result.num_left_out
    told = (f"what-if: left out, because their operations differ: {counted(left, 'steps')}",) if left else ()
    return replayer, result, told


def missing_evidence(windows: Sequence[Window], job: Job) -> tuple[str, ...]:
    """What the verdict had to do without, as phrases."""
    missing = []
    if job.missing:
        missing.append(f"{len(job.missing)} of {job.world_size} ranks")
    if job.num_steps < FEW_STEPS:
        missing.append("repetition: too few steps to tell a lasting cause from chance")
    if any(not np.isfinite(window.clock_residual_s) for window in windows):
        missing.append("a common clock: no collective ties the ranks' clocks together")
    alone = without_peers(windows[0].topology) if windows else ()
    if alone:
        missing.append(f"peers of {ranks(alone)}: no other rank of that GPU model does the same work")
    dropped = sum(sum(window.coverage.dropped.values()) for window in windows)
    if dropped:
        missing.append(f"{counted(dropped, 'records')} the collectors dropped")
    missing += sorted({text for window in windows for text in window.coverage.unseen})
    return tuple(missing)


def windows_of(job: Job, topology: Topology, window_steps: int | None) -> tuple[Window, ...]:
    """The job's windows, aligned; one alone if they would be too few to vote. They count the steps without holes.

    Where so few ranks were read that nobody can be called late, the others have no rows: a header may state a million.
    """
    job = without_holes(job)
    size = window_steps or DEFAULT_STEPS
    if job.num_steps < (VOTES + MIN_PAST) * size:
        size = max(job.num_steps, 1)  # too few windows to vote: one, whose steps do
    plan = WindowPlan(first=size, origin=job.first_step)
    by_index: dict[int, list[Any]] = {}
    for one in job.records:
        for part in cut(one, plan):
            by_index.setdefault(part.window, []).append(part)
    rows_of = job.ranks if are_too_few(job) else None
    return tuple(
        _covered(align(assemble(parts, topology, rows_of=rows_of)), job)
        for _, parts in sorted(by_index.items())
    )


def _as_read(topology: Topology, job: Job) -> Topology:
    """Groups as far as their ranks were read, so that calls of the rest can be compared at all."""
    if not job.missing or len(job.ranks) < MIN_SHARE_READ * job.world_size:
        return topology
    here = set(job.ranks)
    small = {
        group.id: Group(
            id=group.id, kind=group.kind, desc=group.desc, ranks=tuple(r for r in group.ranks if r in here)
        )
        for group in topology.groups
    }
    named = {key: small[group.id] for key, group in topology.named.items()}
    return replace(topology, groups=tuple(small.values()), named=named)


def _covered(window: Window, job: Job) -> Window:
    """Coverage against the ranks that were read, if they are most of the job: the warning says the rest."""
    if len(job.ranks) == job.world_size or len(job.missing) > (1 - MIN_SHARE_READ) * job.world_size:
        return window
    here = np.isin(window.ranks, job.ranks)
    ratio = float(np.isfinite(window.step_s[here]).mean())
    return replace(window, coverage=replace(window.coverage, ratio=ratio))


def _collective_rows(window: Window, waits: Waits) -> list[dict[str, Any]]:
    """Complete calls in order of their common end."""
    calls, ops = waits.calls, waits.calls.op.tolist()
    return [
        {
            "op": ops[i],
            "group": window.groups[int(calls.group[i])],
            "seq": int(calls.seq[i]),
            "last_rank": int(waits.last_rank[i]),
            "wait_us_max": round(float(waits.max_wait_s[i]) * 1e6, 3),
        }
        for i in np.lexsort((calls.seq, calls.end_s)).tolist()
    ]


def _with_start_lag(incident: Incident, job: Job, window: Window) -> Incident:
    """The incident with how late an undecided suspect was already when the first step began."""
    cause = incident.cause
    if cause.fault_class != "unknown" or window.clock_method in (ALIGNED, DURATIONS) or not cause.suspects:
        return incident
    starts = {one.layout.rank: int(one.steps["start_ns"].min()) for one in job.records}
    others = [start for rank, start in starts.items() if rank not in cause.suspects]
    if not others or not set(cause.suspects) <= set(starts):
        return incident
    lag_s = (min(starts[rank] for rank in cause.suspects) - float(np.median(others))) * 1e-9
    if lag_s < max(LATE_START * cause.s_per_step, 10 * window.clock_residual_s):
        return incident
    late = Evidence(name="start_lag_s", value=lag_s, unit="s", note=f"step {job.first_step}")
    return replace(incident, cause=replace(cause, evidence=(*cause.evidence, late)))
