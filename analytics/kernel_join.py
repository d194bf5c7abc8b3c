"""Kernels join when they are ready: what L3 says amends the incidents that the rest of its window led to."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from argus.analytics.detectors import run_detectors
from argus.analytics.finding import Finding
from argus.analytics.fuse import Lasting, decide
from argus.analytics.fuse.kernels import is_of_cpu
from argus.analytics.incident import Cause, Incident
from argus.analytics.lifecycle import (
    ALL_EXITED,
    GONE_WINDOWS,
    NAMED_BETTER,
    RUN_OVER,
    amend_incident,
    find_open,
    is_stop,
    joined_evidence,
    open_incident,
    resolve_incident,
    update_incident,
)
from argus.analytics.view import View

LEVEL = "l3_"

CLOSER = {
    "compute.memory": ("unknown", "compute.slow"),
    "copy.slow": ("unknown", "compute.slow", "data.slow_loader"),
}
"""Classes that the kernels tell apart where phases cannot; any class is closer than unknown."""

EXPLAINS = 0.3
"""Kernels must have lost so much of what an unexplained suspect costs before they are its explanation."""


@dataclass(frozen=True, kw_only=True)
class Joined:
    """What the kernels of a window brought, and all incidents after it."""

    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]


def join_kernels(
    view: View,
    incidents: Sequence[Incident],
    *,
    told: AbstractSet[str],
    undecided: AbstractSet[int],
    steps_done: int,
    is_start_up: bool,
) -> Joined:
    """Judge the kernels of the view's window after everything else of it was judged.

    `undecided` ranks are suspected by L2 without enough votes yet: their class is not decided by kernels alone.
    Operators timed on a CPU add to what is known and open nothing.
    An incident that is not among those `told` (ids) and turns out to be something closer was never opened.
    """
    findings = run_detectors(view, level=LEVEL)
    causes = () if is_start_up else decide(view, Lasting(findings=findings, open=_of_late(view, incidents)))
    after = list(incidents)
    weak = {finding.id for finding in findings if is_of_cpu(finding)}
    for cause in causes:
        at = _known_at(after, cause)
        if at is None and any(
            _is_same(one.cause, cause) for one in after if one.ended in (RUN_OVER, ALL_EXITED)
        ):
            continue  # the end of the run came first, and its incidents have been told
        if at is None:
            if not set(cause.suspects) & undecided and not weak.issuperset(cause.findings):
                after.append(_opened(view, cause, steps_done))
        elif _is_explanation(after[at], cause):
            known = after.pop(at)
            if known.id in told:
                after.insert(at, resolve_incident(known, end_step=steps_done, ended=NAMED_BETTER))
            after.append(_opened(view, _explained(known.cause, cause), steps_done))
        else:
            after[at] = _told_more(view, after[at], cause, steps_done)
    return Joined(findings=findings, incidents=tuple(after))


def _of_late(view: View, incidents: Sequence[Incident]) -> tuple[Cause, ...]:
    """What is open, or was until just now: a run's end resolves incidents before its last kernels are judged."""
    assert view.window is not None
    since = view.window.index - GONE_WINDOWS
    return tuple(i.cause for i in incidents if i.status == "open" or i.last_window >= since)


def is_of_kernels(cause: Cause) -> bool:
    """Whether nothing but kernels speaks for it: a window without kernels could not have shown it."""
    names = {item.name for item in cause.evidence}
    return "kernel_lost_s" in names and not names & {"own_self_s", "transfer_s"}


def _known_at(incidents: Sequence[Incident], cause: Cause) -> int | None:
    """Where the open incident about the cause's place or suspects stands."""
    known = find_open(incidents, cause.scope)
    for at, incident in enumerate(incidents):
        if incident is known or (known is None and _is_about(incident, cause)):
            return at
    return None


def _is_about(incident: Incident, cause: Cause) -> bool:
    """Paths in common are one slow link, suspects in common one trouble of ranks."""
    return incident.status == "open" and not is_stop(incident) and _is_same(incident.cause, cause)


def _is_same(known: Cause, cause: Cause) -> bool:
    if "link.slow" in (known.fault_class, cause.fault_class):
        return bool(set(known.paths) & set(cause.paths)) or known.scope == cause.scope
    return bool(set(known.suspects) & set(cause.suspects))


def _is_explanation(known: Incident, cause: Cause) -> bool:
    """Nobody knew why or only roughly, and the kernels account for enough of it."""
    is_closer = known.cause.fault_class in CLOSER.get(cause.fault_class, ("unknown",))
    is_news = is_closer and cause.fault_class != known.cause.fault_class
    return is_news and cause.s_per_step >= EXPLAINS * known.cause.s_per_step


def _explained(known: Cause, cause: Cause) -> Cause:
    """The closer cause with all that was known of the suspect before."""
    return replace(
        cause,
        suspects=known.suspects,
        scope=known.scope,
        victims=known.victims,
        phase=known.phase,
        evidence=joined_evidence(known, cause),
        findings=tuple(dict.fromkeys((*known.findings, *cause.findings))),
        onset_step=known.onset_step,
        share_of_step=known.share_of_step,
        s_per_step=known.s_per_step,
    )


def _told_more(view: View, known: Incident, cause: Cause, steps_done: int) -> Incident:
    """Seen by the rest of this window too: evidence is added. Else the kernels alone keep it open."""
    assert view.window is not None
    index = view.window.index
    if known.last_window == index:
        return amend_incident(known, cause)
    newer = update_incident(known, cause, window=index, steps_done=steps_done, world=view.topology.world_size)
    return replace(newer, cause=replace(newer.cause, evidence=joined_evidence(known.cause, cause)))


def _opened(view: View, cause: Cause, steps_done: int) -> Incident:
    assert view.window is not None
    return open_incident(
        cause,
        run=view.run,
        attempt=view.attempt,
        window=view.window.index,
        steps_done=steps_done,
        world=view.topology.world_size,
    )
