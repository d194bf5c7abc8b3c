"""The life of incidents: opened by a cause, updated while it lasts, resolved when it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from argus.analytics.classes import cause_classes
from argus.analytics.cost import NONE, cost_of_steps, cost_of_stop, share_by_itself
from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause, Incident

GONE_WINDOWS = 2
"""Windows without the signal before an incident is resolved."""

CRITICAL_SHARE = 0.10
WARNING_SHARE = 0.02
WARNING_WINDOWS = 3
"""Severity by the share of the step that is lost now; a warning must have lasted so many windows. What was so from
the first step on is not lost now: a class that says so is a warning at most, and so is work that was always uneven."""

ALWAYS_UNEVEN = "imbalance."
"""How classes begin that accuse no machine: from the first step on they are the job's design and nothing broke."""

GREW = 3.0
"""Uneven work that costs so many times what it cost at the start is another matter; by less it varies."""


def open_incident(
    cause: Cause,
    *,
    run: str,
    attempt: int,
    window: int,
    steps_done: int,
    world: int,
    counted_to: int = -1,
    launch: int = 0,
    before: Sequence[Incident] = (),
) -> Incident:
    """A new incident from its first cause; `steps_done` = last known step.

    Steps up to `counted_to` are in the cost of the incident that it takes over from. A stop after one of `before` in the
    same window is another one: it would take the place of the first, with what that cost.
    """
    incident = Incident(
        run=run,
        attempt=attempt,
        status="open",
        severity="info",
        cause=cause,
        onset_step=cause.onset_step,
        end_step=None,
        opened_window=window,
        last_window=window,
        cost=replace(NONE, num_steps=max(counted_to - cause.onset_step + 1, 0)),
        launch=launch,
    )
    incident = replace(incident, again=_num_like(incident, before) if is_stop(incident) else 0)
    return _weigh(incident, steps_done=steps_done, world=world)


def _num_like(incident: Incident, before: Sequence[Incident]) -> int:
    same = [one for one in before if one.opened_window == incident.opened_window]
    return sum(one.fingerprint == incident.fingerprint for one in same)


def update_incident(
    incident: Incident,
    cause: Cause,
    *,
    window: int,
    steps_done: int,
    world: int,
    quiet_steps: int = 0,
) -> Incident:
    """The incident with the newest numbers; class and scope stay what it was opened with.

    So do the suspects, but that more ranks of the same host, half of a host or uplink may show the same later.
    `quiet_steps` of those since the last update did not show it.
    """
    known = incident.cause
    is_same_place = known.scope == cause.scope and known.scope.partition(":")[0] not in FIXED
    is_same_class = cause.fault_class == known.fault_class
    more = cause.suspects if is_same_place and is_same_class else ()
    kept = replace(
        cause,
        fault_class=known.fault_class,
        scope=known.scope,
        suspects=tuple(sorted({*known.suspects, *more})),
        onset_step=known.onset_step,
        from_start_s=known.from_start_s,
        phase=cause.phase if is_same_class else known.phase,
        ruled_out=cause.ruled_out
        if is_same_class
        else tuple(one for one in known.ruled_out if one.fault_class != cause.fault_class),
        second_best=cause.second_best if is_same_class else known.second_best,
        separation=cause.separation if is_same_class else known.separation,
        evidence=cause.evidence if is_same_class else _with_its_phase(known, cause),
        verdict=_firmer(known, cause),
        findings=tuple(dict.fromkeys((*known.findings, *cause.findings)))[-MAX_FINDINGS:],
    )
    newer = replace(incident, cause=kept, last_window=window)
    return _weigh(newer, steps_done=steps_done, world=world, quiet_steps=quiet_steps)


def amend_incident(incident: Incident, cause: Cause, *, is_independent: bool = True) -> Incident:
    """The incident with what another level says of the same suspects in the same window.

    It keeps class, scope and cost; two levels that see the same class independently confirm it.
    """
    known = incident.cause
    agree = (
        is_independent
        and cause.fault_class == known.fault_class
        and "INCONCLUSIVE" not in (known.verdict, cause.verdict)
    )
    amended = replace(
        known,
        verdict="CONFIRMED" if agree else known.verdict,
        evidence=joined_evidence(known, cause),
        findings=tuple(dict.fromkeys((*known.findings, *cause.findings)))[-MAX_FINDINGS:],
    )
    return replace(incident, cause=amended)


def joined_evidence(known: Cause, cause: Cause) -> tuple[Evidence, ...]:
    """What was known, with the newer number where both measured the same."""
    newer = {item.name for item in cause.evidence}
    return (*(item for item in known.evidence if item.name not in newer), *cause.evidence)


OF_PHASE = frozenset({"self_s", "cpu_s"})
"""Evidence that speaks of the phase a cause names."""


def _with_its_phase(known: Cause, cause: Cause) -> tuple[Evidence, ...]:
    """A cause's evidence where it is of another class, but for the phase: that stays the known one, with its numbers."""
    kept = tuple(item for item in known.evidence if item.name in OF_PHASE)
    if not kept:
        return cause.evidence
    return (*kept, *(item for item in cause.evidence if item.name not in OF_PHASE))


FIXED = frozenset({"rank", "group", "run"})
"""Kinds of scopes whose ranks are all told at once, or that hold ranks with nothing in common."""

MAX_FINDINGS = 60
"""Findings an incident keeps naming: the latest, as many as there are windows of history."""

_FIRMNESS = ("INCONCLUSIVE", "LIKELY", "CONFIRMED")


def _firmer(known: Cause, cause: Cause) -> str:
    """A verdict once reached for a class is not taken back by a quieter window."""
    if cause.fault_class != known.fault_class:
        return known.verdict
    return max(known.verdict, cause.verdict, key=_FIRMNESS.index)


SIGNAL_GONE, STEPS_GO_ON, RUN_OVER, ALL_EXITED, NAMED_BETTER = (
    "the signal is gone",
    "steps end again",
    "the run ended in order",
    "every rank has exited",
    "more is known now: another incident goes on with it",
)
"""Why incidents are resolved."""


def resolve_incident(incident: Incident, *, end_step: int, ended: str = SIGNAL_GONE) -> Incident:
    """The incident closed at the last step that showed it."""
    return replace(incident, status="resolved", end_step=max(end_step, incident.onset_step), ended=ended)


def is_stop(incident: Incident) -> bool:
    """Whether it is about a job that stands still."""
    return incident.cause.fault_class.startswith("stop.")


RECURS = "bouts"
"""Evidence by which a cause that comes and goes is known."""


def is_recurring(incident: Incident) -> bool:
    """Whether it is about a fault that comes and goes: quiet windows do not end it."""
    return any(item.name == RECURS for item in incident.cause.evidence)


def find_open(incidents: Sequence[Incident], cause: Cause) -> Incident | None:
    """The open incident at the cause's place that is no stop, None if there is none."""
    return next(
        (i for i in incidents if i.status == "open" and is_same_place(i.cause, cause) and not is_stop(i)),
        None,
    )


def is_same_place(known: Cause, cause: Cause) -> bool:
    """Whether the scope is the same; a whole run may hold sets of ranks of several classes that share nothing."""
    if known.scope != cause.scope:
        return False
    is_run = known.scope.startswith("run:") and known.fault_class != cause.fault_class
    both = is_run and bool(known.suspects) and bool(cause.suspects)
    return not both or not set(known.suspects).isdisjoint(cause.suspects)


def _is_standing(cause: Cause) -> bool:
    """Whether what is lost was lost from the first step on, and by nobody's fault."""
    if cause.fault_class.startswith(ALWAYS_UNEVEN) and cause.from_start_s is not None:
        return cause.s_per_step < GREW * cause.from_start_s
    return cause_classes()[cause.fault_class].is_standing


def _weigh(incident: Incident, *, steps_done: int, world: int, quiet_steps: int = 0) -> Incident:
    """Severity and cost from what the cause costs now."""
    cause = incident.cause
    if is_stop(incident):
        return replace(incident, severity="critical", cost=cost_of_stop(incident.cost, cause, world=world))
    share = share_by_itself(cause)
    lasted = incident.last_window - incident.opened_window + 1 >= WARNING_WINDOWS - 1
    if share >= CRITICAL_SHARE and not _is_standing(cause):
        severity = "critical"
    else:
        severity = "warning" if share >= WARNING_SHARE and lasted else "info"
    cost = cost_of_steps(
        incident.cost,
        cause,
        onset_step=incident.onset_step,
        steps_done=steps_done,
        world=world,
        quiet_steps=quiet_steps,
    )
    return replace(incident, severity=severity, cost=cost)
