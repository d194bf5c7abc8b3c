"""The deterministic triage: an incident's cause in words, with what to do; it decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from argus.agent.claims import LOST, OWN_ERRORS, claims_of
from argus.agent.diagnosis import (
    MAX_HEADLINE,
    Action,
    Claim,
    Diagnosis,
    Edge,
    Gain,
    Impact,
    NotIt,
    RootCause,
)
from argus.agent.runbooks.catalogue import Remedy, built_in, is_settled, of_class
from argus.agent.why import WHOLE_JOB, evidence_of, step_of
from argus.agent.wording import (
    ALL_DIFFER,
    DIFFERS,
    LEFT,
    UNHEARD,
    UNHEARD_OF_MANY,
    UNPRICED,
    UNPRICED_OF_MANY,
    clip,
    does,
    phase_name,
    quantity,
    ranks,
    scope_name,
    versus,
)
from argus.analytics.classes import cause_classes
from argus.analytics.cost import price_of
from argus.analytics.finding import Evidence, Finding
from argus.analytics.incident import Cause, Incident
from argus.topology.layout import Topology

CONFIDENCE = {"CONFIRMED": 0.95, "LIKELY": 0.75, "INCONCLUSIVE": 0.4, "NO_FAULT": 0.9}
"""What a verdict is worth as a probability until a calibrated one is known."""

MAX_VICTIMS = 16
"""Victims drawn in the path; all of them are in the incident."""


def diagnose(
    incident: Incident,
    *,
    findings: Sequence[Finding],
    topology: Topology,
    missing: Sequence[str] = (),
) -> dict[str, Any]:
    """Diagnosis of an incident in its JSON form; `missing` says what evidence there was not."""
    return describe(incident, findings=findings, topology=topology, missing=missing).to_json()


def describe(
    incident: Incident,
    *,
    findings: Sequence[Finding],
    topology: Topology,
    missing: Sequence[str] = (),
) -> Diagnosis:
    """The typed diagnosis of an incident."""
    cause = incident.cause
    evidence = _all_evidence(cause)
    claims = claims_of(evidence)
    about = tuple(claim.id for claim in claims if _index(claim) < len(cause.evidence))
    return Diagnosis(
        verdict=cause.verdict,
        confidence=CONFIDENCE[cause.verdict],
        headline=headline(incident, topology),
        root_causes=(RootCause(node=cause.scope, fault_class=cause.fault_class, claim_ids=about),),
        onset_step=incident.onset_step,
        path=_path(cause, claims, evidence),
        ruled_out=_ruled_out(cause, claims, evidence),
        second_best=cause.second_best,
        separation=None if cause.separation is None else asdict(cause.separation),
        impact=_impact(incident, topology),
        claims=claims,
        remediation=_remediation(incident, about),
        missing_evidence=(*missing, *_unseen(incident, findings, missing)),
        evidence=tuple(asdict(item) for item in evidence),
    )


def no_incident(*, missing: Sequence[str] = (), doubt: str = "", num_ranks: int) -> dict[str, Any]:
    """Diagnosis where no incident was found; inconclusive if there is a `doubt` that this proves anything."""
    verdict = "INCONCLUSIVE" if doubt else "NO_FAULT"
    whom = f"no rank of the {num_ranks:,}" if num_ranks > 1 else "nothing"
    text = (
        f"Nothing can be said for sure: {doubt}"
        if doubt
        else f"No fault found: {whom} stands out in its own work, its waits or its transfers"
    )
    diagnosis = Diagnosis(
        verdict=verdict,
        confidence=CONFIDENCE[verdict],
        headline=clip(text, MAX_HEADLINE),
        missing_evidence=tuple(missing),
    )
    return diagnosis.to_json()


def headline(incident: Incident, topology: Topology) -> str:
    """One line: who, where, what, by how much."""
    cause = incident.cause
    is_many = len(cause.suspects) > 1 and not cause.scope.startswith(("group:", "host:"))
    if cause.fault_class == "stop.lost" and cause.verdict == "INCONCLUSIVE":
        unheard = UNHEARD_OF_MANY if is_many else UNHEARD
        return clip(f"{place(cause, topology)} {unheard}", MAX_HEADLINE)
    if any(item.name == "left" for item in cause.evidence):
        return clip(f"{place(cause, topology)} {LEFT}", MAX_HEADLINE)
    if cause.fault_class == "stop.hang" and any(item.name == "call_differs" for item in cause.evidence):
        what = DIFFERS if cause.suspects else ALL_DIFFER
        return clip(f"{place(cause, topology)} {what}{_how_much(cause)}", MAX_HEADLINE)
    what = does(cause.fault_class, is_many=is_many)
    if cause.fault_class == "unknown" and not cause.victims and price_of(cause) == 0:
        what = UNPRICED_OF_MANY if is_many else UNPRICED
    said = f"{place(cause, topology)} {what}"
    return clip(f"{said}{_how_much(cause)}", MAX_HEADLINE)


def place(cause: Cause, topology: Topology) -> str:
    """Suspects and their host in words; a group for a link."""
    kind, _, name = cause.scope.partition(":")
    if kind == "group":
        return f"group {name}"
    if kind == "host":
        return f"host {name} ({ranks(cause.suspects)})"
    hosts = sorted({topology.host_of(rank) for rank in cause.suspects} - {""})
    who = ranks(cause.suspects) if cause.suspects else scope_name(cause.scope)
    return f"{who} on {hosts[0]}" if len(hosts) == 1 else who


def _how_much(cause: Cause) -> str:
    found = {item.name: item for item in cause.evidence}
    for name in (
        ("gc_pause_s", "self_s", "transfer_s") if cause.fault_class == "host.gc" else ("self_s", "transfer_s")
    ):
        item = found.get(name)
        if item is not None and item.baseline is not None and item.value > 0:
            against = "against" if name == "transfer_s" else "vs peers"
            where = f"{phase_name(cause.phase)} " if name == "self_s" and cause.phase else ""
            return f": {where}{versus(item.value, item.baseline, name=against)}"
    if (waited := found.get("victims_wait_s")) is not None and waited.value > 0:
        wait = "waits" if len(cause.victims) == 1 else "wait"
        return f": {ranks(cause.victims)} {wait} {quantity(waited.value, 's')} a step"
    if (stalled := found.get("stalled_s")) is not None:
        return f" for {quantity(stalled.value, 's')}"
    how_much = _by_how_much(cause)
    return f"{',' if ':' in does(cause.fault_class, is_many=False) else ':'} {how_much}" if how_much else ""


def _by_how_much(cause: Cause) -> str:
    """What a cause that no rank's own time speaks for makes longer, or what it costs."""
    step, save = step_of(cause), evidence_of(cause, "save_s")
    if cause.fault_class in WHOLE_JOB and step is not None and step.baseline is not None:
        return versus(step.value, step.baseline, unit=step.unit, name="after")
    if save is not None and save.baseline is not None:
        return f"saving {versus(save.value, save.baseline)}"
    price_s = price_of(cause)
    return f"{quantity(price_s, 's')} a step" if price_s > 0 else ""


def _all_evidence(cause: Cause) -> tuple[Evidence, ...]:
    """The evidence for the cause, then that against the others."""
    return (*cause.evidence, *(item for other in cause.ruled_out for item in other.evidence))


def _index(claim: Claim) -> int:
    return int(claim.values["v"].path.split("/")[2])


def _ids(claims: Sequence[Claim], evidence: Sequence[Evidence], *names: str) -> tuple[str, ...]:
    return tuple(claim.id for claim in claims if evidence[_index(claim)].name in names)


def _path(cause: Cause, claims: Sequence[Claim], evidence: Sequence[Evidence]) -> tuple[Edge, ...]:
    """Scope → suspects → group → victims."""
    own = _ids(claims, evidence, "self_s", "cpu_s", "own_self_s", "gc_pause_s")
    late = _ids(claims, evidence, "caused_wait_s", "last_share", "transfer_s")
    wait = _ids(claims, evidence, "victims_wait_s")
    edges = []
    nodes = [f"rank:{rank}" for rank in cause.suspects[:MAX_VICTIMS]] or [cause.scope]
    if cause.scope not in nodes and not cause.scope.startswith("group:"):
        edges += [Edge(origin=cause.scope, target=node, claim_ids=own) for node in nodes]
    if cause.group is None:
        return tuple(edges)
    group = f"group:{cause.group}"
    if cause.scope != group:
        edges += [Edge(origin=node, target=group, claim_ids=late) for node in nodes]
    edges += [
        Edge(origin=group, target=f"rank:{rank}", claim_ids=wait) for rank in cause.victims[:MAX_VICTIMS]
    ]
    return tuple(edges)


def _ruled_out(cause: Cause, claims: Sequence[Claim], evidence: Sequence[Evidence]) -> tuple[NotIt, ...]:
    """Each look-alike with the claims that speak against it."""
    out = []
    start = len(cause.evidence)
    for other in cause.ruled_out:
        here = range(start, start + len(other.evidence))
        start = here.stop
        about = tuple(claim.id for claim in claims if _index(claim) in here)
        node = f"group:{cause.group}" if other.fault_class == "link.slow" and cause.group else cause.scope
        out.append(NotIt(node=node, fault_class=other.fault_class, why=other.why, claim_ids=about))
    return tuple(out)


def _impact(incident: Incident, topology: Topology) -> Impact:
    cause, cost = incident.cause, incident.cost
    step = step_of(cause)
    ratio = None
    if step is not None and step.value > 0:
        healthy = step.baseline or step.value - cost.s_per_step
        ratio = step.value / healthy if healthy > 0 else None
    return Impact(
        affected_ranks=len(set(cause.suspects) | set(cause.victims)),
        slowdown_ratio=ratio,
        gpu_hours_lost_per_hour=min(cost.share_of_step, 1.0) * topology.world_size,
    )


OUTPUT = "output.read"


def _advised(fault_class: str, verdict: str) -> tuple[Remedy, ...]:
    """What the class' entry says to do as far as the verdict is firm enough: first look, then, if it comes back, act."""
    return tuple(one for one in of_class(cause_classes()[fault_class]) if is_settled(one, verdict))


def _remediation(incident: Incident, about: tuple[str, ...]) -> tuple[Action, ...]:
    cause = incident.cause
    chosen = _advised(cause.fault_class, cause.verdict)
    if _ended_itself(cause):
        chosen = (built_in()[OUTPUT], chosen[0])[: len(chosen)]
    return tuple(
        action_of(remedy, target=cause.scope, gain=gain_of(incident), claim_ids=about) for remedy in chosen
    )


def _ended_itself(cause: Cause) -> bool:
    """Whether the programs of all ranks that are gone ended with an error of their own: no host is to be drained for it."""
    num_gone = sum(item.name == LOST for item in cause.evidence)
    num_own = next((item.value for item in cause.evidence if item.name == OWN_ERRORS), 0)
    return cause.fault_class == "stop.lost" and 0 < num_gone == num_own


def action_of(remedy: Remedy, *, target: str, gain: Gain | None, claim_ids: tuple[str, ...] = ()) -> Action:
    """An action of the catalogue aimed at a target; looking wins nothing by itself."""
    return Action(
        id=remedy.id,
        action=remedy.title,
        target=target,
        command=remedy.command,
        owner=remedy.owner,
        risk=remedy.risk,
        reversible=remedy.reversible,
        verify_by=remedy.verify_by,
        is_read_only=remedy.is_read_only,
        gain=None if remedy.is_read_only else gain,
        claim_ids=claim_ids,
    )


def gain_of(incident: Incident) -> Gain:
    """What the job wins when the incident's cause is gone."""
    cost = incident.cost
    return Gain(
        share_of_step=cost.share_of_step, gpu_hours_per_day=cost.gpu_hours_per_day, method=cost.method
    )


def _unseen(incident: Incident, findings: Sequence[Finding], missing: Sequence[str]) -> tuple[str, ...]:
    """Weakness of the evidence itself."""
    by_durations = max(
        (f.measure("by_durations") or 0.0 for f in findings if f.id in incident.cause.findings), default=0.0
    )
    if by_durations > 0 and not any("clock" in text for text in missing):
        return (
            f"common clocks for {quantity(by_durations, 'share')} of the calls: judged by their durations",
        )
    return ()
