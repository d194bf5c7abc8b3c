"""The offline path: files in, the same records through the same stages, a report out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from argus.agent.triage import diagnose, no_incident
from argus.agent.wording import quantity
from argus.analytics.attempt import MIN_PAST, VOTES, AttemptState, advance
from argus.analytics.clocks import ALIGNED, DURATIONS, align
from argus.analytics.finding import Evidence, Finding
from argus.analytics.incident import Incident
from argus.analytics.waits import Waits, waits_of
from argus.analytics.window import Window, assemble
from argus.collectors.gather import gather
from argus.collectors.host.window import cut
from argus.collectors.job import Job, join
from argus.collectors.records.plan import DEFAULT_STEPS, WindowPlan
from argus.topology.groups import Group
from argus.topology.layout import Topology, build

MIN_SHARE_READ = 0.5
"""Below half of the ranks nobody can be called late: most of those who might be later were not read."""


FEW_STEPS = 5
"""Fewer steps than this cannot repeat anything."""

MUCH_WAITING = 0.25
"""Waiting for a quarter of the step is no good health, even if it cannot be laid at one rank's door."""

LATE_START = 0.5
"""A suspect that began the first step late by half of what it costs brought its lateness along."""


class NothingUsable(ValueError):
    """No file behind the paths could be analysed; one sentence a line."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What offline triage found; `diagnosis` is that of the costliest incident, or says there is none."""

    job: Job
    topology: Topology
    windows: tuple[Window, ...]
    collectives: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]
    diagnosis: dict[str, Any]
    warnings: tuple[str, ...]

    @property
    def incident(self) -> Incident | None:
        """The costliest incident."""
        return costliest(self.incidents)

    def to_json(self) -> dict[str, Any]:
        """The object `argus triage --json` prints."""
        residual = max((window.clock_residual_s for window in self.windows), default=float("inf"))
        return {
            "world_size": self.job.world_size,
            "ranks_seen": list(self.job.ranks),
            "alignment": {
                "method": self.windows[-1].clock_method if self.windows else "durations",
                "residual_us": round(residual * 1e6, 3) if np.isfinite(residual) else None,
            },
            "collectives": list(self.collectives),
            "findings": [finding.to_json() for finding in self.findings],
            "incidents": [incident.to_json() for incident in self.incidents],
            "diagnosis": self.diagnosis,
            "warnings": list(self.warnings),
        }


def triage_files(
    paths: Sequence[Path],
    *,
    now_s: float,
    window_steps: int | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> Report:
    """Read, join, align, analyse. Raises NothingUsable, and ReaderError if a path is not there."""
    with tempfile.TemporaryDirectory(prefix="argus-") as scratch:
        gathered = gather(paths, Path(scratch), progress=progress)
    try:
        job = join(gathered.readings, run=paths[0].resolve().name.split(".")[0] or "trace")
    except ValueError as error:
        raise NothingUsable("\n".join(gathered.warnings) or str(error)) from None
    return analyse(job, now_s=now_s, window_steps=window_steps, warnings=gathered.warnings)


def analyse(
    job: Job, *, now_s: float, window_steps: int | None = None, warnings: Sequence[str] = ()
) -> Report:
    """The verdict on one job's records."""
    topology = _as_read(build(one.layout for one in job.records), job)
    windows = _windows(job, topology, window_steps)
    is_lone = len(windows) == 1
    state = AttemptState.start(topology.run, topology.attempt)
    findings: list[Finding] = []
    for window in windows:
        step = advance(
            state,
            topology=topology,
            now_s=now_s,
            window=window,
            votes=1 if is_lone else VOTES,
            min_past=0 if is_lone else MIN_PAST,
        )
        state = step.state
        findings += step.findings
    missing = missing_evidence(windows, job)
    incidents = tuple(
        replace(incident, diagnosis=diagnose(incident, findings=findings, topology=topology, missing=missing))
        for incident in (_with_start_lag(one, job, windows[0]) for one in state.incidents)
    )
    worst = costliest(incidents)
    waits = [(window, waits_of(window)) for window in windows]
    return Report(
        job=job,
        topology=topology,
        windows=windows,
        collectives=tuple(row for window, seen in waits for row in _collective_rows(window, seen)),
        findings=tuple(findings),
        incidents=incidents,
        diagnosis=(worst.diagnosis if worst else None)
        or no_incident(missing=missing, doubt=_doubt(job, waits), num_ranks=len(job.ranks)),
        warnings=tuple(dict.fromkeys([*warnings, *job.warnings, *topology.conflicts])),
    )


def _doubt(job: Job, waits: Sequence[tuple[Window, Waits]]) -> str:
    """Why finding nothing proves nothing, "" if it does prove it."""
    read = f"{len(job.ranks)} of {job.world_size} ranks"
    if len(job.ranks) < max(MIN_SHARE_READ * job.world_size, min(2, job.world_size)):
        return f"only {read} were read"
    if not any(window.usable.any() for window, _ in waits):
        return "every step is a warm-up, a mark or incomplete"
    if job.world_size > 1 and not any(len(seen.calls.first) for _, seen in waits):
        return f"no collective can be compared over the {read}"
    if job.num_steps >= FEW_STEPS:
        return ""
    window, seen = waits[0]
    step_s, wait_s = float(np.nanmedian(window.step_s)), float(seen.waited_s.max(initial=0.0))
    if wait_s < MUCH_WAITING * step_s:
        return ""
    return f"ranks wait up to {quantity(wait_s, 's')} of a {quantity(step_s, 's')} step, but none stands out"


def costliest(incidents: Sequence[Incident]) -> Incident | None:
    """The incident that costs most a step, the first of equals; None without any."""
    order = sorted(incidents, key=lambda i: (-i.cost.s_per_step, i.opened_window, i.id))
    return order[0] if order else None


def missing_evidence(windows: Sequence[Window], job: Job) -> tuple[str, ...]:
    """What the verdict had to do without, as phrases."""
    missing = []
    if job.missing:
        missing.append(f"{len(job.missing)} of {job.world_size} ranks")
    if job.num_steps < FEW_STEPS:
        missing.append("repetition: too few steps to tell a lasting cause from chance")
    if any(not np.isfinite(window.clock_residual_s) for window in windows):
        missing.append("a common clock: no collective ties the ranks' clocks together")
    dropped = sum(sum(window.coverage.dropped.values()) for window in windows)
    if dropped:
        missing.append(f"{dropped} records the collectors dropped")
    missing += sorted({text for window in windows for text in window.coverage.unseen})
    return tuple(missing)


def _windows(job: Job, topology: Topology, window_steps: int | None) -> tuple[Window, ...]:
    size = window_steps or DEFAULT_STEPS
    if job.num_steps < (VOTES + MIN_PAST) * size:
        size = max(job.num_steps, 1)  # too few windows to vote: one, whose steps do
    plan = WindowPlan(first=size, origin=job.first_step)
    by_index: dict[int, list[Any]] = {}
    for one in job.records:
        for part in cut(one, plan):
            by_index.setdefault(part.window, []).append(part)
    return tuple(_covered(align(assemble(parts, topology)), job) for _, parts in sorted(by_index.items()))


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
    if not job.missing or len(job.ranks) < MIN_SHARE_READ * job.world_size:
        return window
    here = np.isin(window.ranks, job.ranks)
    ratio = float(np.isfinite(window.step_s[here]).mean())
    return replace(window, coverage=replace(window.coverage, ratio=ratio))


def _collective_rows(window: Window, waits: Waits) -> list[dict[str, Any]]:
    """Complete calls in order of their common end."""
    calls = waits.calls
    return [
        {
            "op": str(calls.op[i]),
            "group": window.groups[int(calls.group[i])],
            "seq": int(calls.seq[i]),
            "last_rank": int(waits.last_rank[i]),
            "wait_us_max": round(float(waits.max_wait_s[i]) * 1e6, 3),
        }
        for i in np.lexsort((calls.seq, calls.end_s))
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
