"""Kernels join when they are ready: what L3 says amends the incidents that the rest of its window led to."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from argus.analytics.detectors import run_detectors
from argus.analytics.finding import Finding
from argus.analytics.fuse import Lasting, decide
from argus.analytics.fuse.kernels import is_of_cpu
from argus.analytics.fuse.regular import blocks_of
from argus.analytics.fuse.whole_job import SLOWER
from argus.analytics.incident import Cause, Incident
from argus.analytics.lifecycle import (
    ALL_EXITED,
    GONE_WINDOWS,
    NAMED_BETTER,
    RUN_OVER,
    amend_incident,
    find_open,
    is_same_place,
    is_stop,
    joined_evidence,
    open_incident,
    resolve_incident,
    update_incident,
)
from argus.analytics.peers import across_models
from argus.analytics.same_cause import is_covered, is_named_now, is_wider, that_it_may_name
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
    past = blocks_of(incidents, fault_class=SLOWER)
    lasting = Lasting(findings=findings, open=_of_late(view, incidents), past=past)
    causes = () if is_start_up else decide(view, lasting)
    after = list(incidents)
    weak = {finding.id for finding in findings if is_of_cpu(finding)}
    for cause in causes:
        is_weak = weak.issuperset(cause.findings)
        known = _known(after, cause)
        less = [] if is_weak else _said_less(after, cause, known)
        news = _instead(cause, less) if less else cause
        for one in less:
            _end(after, one, told=told, steps_done=steps_done)
        if known is not None and (not less or (known not in less and is_same_place(known.cause, cause))):
            after[after.index(known)] = _told_more(view, known, news, steps_done)
        elif less or not (is_weak or _is_undecided(cause, undecided) or _is_over(after, cause)):
            after.append(_opened(view, news, steps_done))
    return Joined(findings=findings, incidents=tuple(after))


def _said_less(incidents: Sequence[Incident], cause: Cause, known: Incident | None) -> list[Incident]:
    """Incidents that end because the cause says more of them: of all their ranks and others, or why."""
    parts = [one for one in incidents if _is_part(one, cause)]
    if parts or known is None or not _is_explanation(known, cause):
        return parts
    return [known]


def _instead(cause: Cause, less: Sequence[Incident]) -> Cause:
    """The cause with what was known by the incidents that it takes the place of."""
    if _is_explanation(less[0], cause):
        return _explained(less[0].cause, cause)
    return _of_all(cause, [one.cause for one in less])


def _end(after: list[Incident], known: Incident, *, told: AbstractSet[str], steps_done: int) -> None:
    """Resolve an incident in place for one that says more; take it out if it was never told."""
    at = after.index(known)
    ended = resolve_incident(known, end_step=steps_done, ended=NAMED_BETTER)
    after[at : at + 1] = [ended] if known.id in told else []


def _is_over(incidents: Sequence[Incident], cause: Cause) -> bool:
    """Whether the end of the run came first, and its incidents have been told."""
    return any(_is_same(one.cause, cause) for one in incidents if one.ended in (RUN_OVER, ALL_EXITED))


def _is_undecided(cause: Cause, undecided: AbstractSet[int]) -> bool:
    """Whether half of the suspects are: a doubt about one of hundreds says nothing of the others."""
    return bool(cause.suspects) and 2 * len(undecided & set(cause.suspects)) >= len(cause.suspects)


def _is_part(known: Incident, cause: Cause) -> bool:
    """Whether the incident is about some of the ranks that are one cause now."""
    if known.status != "open" or is_stop(known) or known.cause.fault_class != cause.fault_class:
        return False
    one = known.cause
    if cause.fault_class == "link.slow" or (cause.fault_class == "unknown" and not is_of_kernels(one)):
        return False
    overlap, more = set(one.suspects) & set(cause.suspects), set(cause.suspects) - set(one.suspects)
    return is_wider(one, cause) or (_is_set(cause) and not _is_set(one) and bool(overlap) and bool(more))


def _is_set(cause: Cause) -> bool:
    """Whether it is about ranks that no object but the run holds."""
    return cause.scope.startswith("run:") and bool(cause.suspects)


def _of_all(cause: Cause, parts: Sequence[Cause]) -> Cause:
    """The cause with the suspects of its parts, since the first of them."""
    suspects = {rank for one in (cause, *parts) for rank in one.suspects}
    return replace(
        cause,
        suspects=tuple(sorted(suspects)),
        victims=tuple(rank for rank in cause.victims if rank not in suspects),
        onset_step=min(one.onset_step for one in (cause, *parts)),
    )


def _of_late(view: View, incidents: Sequence[Incident]) -> tuple[Cause, ...]:
    """What is open, or was until just now: a run's end resolves incidents before its last kernels are judged."""
    assert view.window is not None
    since = view.window.index - GONE_WINDOWS
    return tuple(i.cause for i in incidents if i.status == "open" or i.last_window >= since)


def is_of_kernels(cause: Cause) -> bool:
    """Whether nothing but kernels speaks for it: a window without kernels could not have shown it."""
    names = {item.name for item in cause.evidence}
    return "kernel_lost_s" in names and not names & {"own_self_s", "transfer_s"}


def _known(incidents: Sequence[Incident], cause: Cause) -> Incident | None:
    """The open incident about the cause's place or suspects."""
    # That all ranks are slower is the same only where these account for it.
    asked = [
        i
        for i in that_it_may_name(incidents, cause)
        if i.cause.fault_class != "step.slower" or not cause.suspects or _is_explanation(i, cause)
    ]
    return find_open(asked, cause) or next((i for i in asked if _is_about(i, cause)), None)


def _is_about(incident: Incident, cause: Cause) -> bool:
    """Paths in common are one slow link, suspects in common one trouble of ranks."""
    return incident.status == "open" and not is_stop(incident) and _is_same(incident.cause, cause)


def _is_same(known: Cause, cause: Cause) -> bool:
    if "link.slow" in (known.fault_class, cause.fault_class):
        return bool(set(known.paths) & set(cause.paths)) or known.scope == cause.scope
    return bool(set(known.suspects) & set(cause.suspects))


def _is_explanation(known: Incident, cause: Cause) -> bool:
    """Nobody knew why or only roughly, and the kernels account for enough of it."""
    is_closer = known.cause.fault_class in CLOSER.get(cause.fault_class, ())
    is_news = is_named_now(known.cause, cause) or (is_closer and is_covered(known.cause, cause))
    return is_news and cause.s_per_step >= EXPLAINS * known.cause.s_per_step


def _explained(known: Cause, cause: Cause) -> Cause:
    """The closer cause with all that was known of the suspect before."""
    return replace(
        cause,
        suspects=known.suspects or cause.suspects,
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
    is_one_set = _is_set(known.cause) and _is_set(cause) and known.cause.fault_class == cause.fault_class
    if known.last_window == index:
        # Both levels see the same difference between two models, be it a fault or none.
        is_independent = across_models(view.topology).keys().isdisjoint(cause.suspects)
        newer = amend_incident(known, cause, is_independent=is_independent)
    else:
        newer = update_incident(
            known, cause, window=index, steps_done=steps_done, world=view.topology.world_size
        )
        newer = replace(newer, cause=replace(newer.cause, evidence=joined_evidence(known.cause, cause)))
    return replace(newer, cause=_of_all(newer.cause, [cause])) if is_one_set else newer


def _opened(view: View, cause: Cause, steps_done: int) -> Incident:
    assert view.window is not None
    return open_incident(
        cause,
        run=view.run,
        attempt=view.attempt,
        window=view.window.index,
        steps_done=steps_done,
        world=view.topology.world_size,
        launch=view.launch,
    )
