"""The case put to a model: a run or an incident, what the triage says of it, and what may be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from argus.agent.entities import Entities, entities_of
from argus.agent.evidence import Answer, AsOf, Json, ToolResult
from argus.agent.facts import RunFacts
from argus.agent.fit import fitted
from argus.agent.long_steps import long_step
from argus.agent.rows import number
from argus.agent.runbooks.books import Runbook, built_in_books
from argus.agent.runbooks.catalogue import Remedy, built_in
from argus.agent.runbooks.retrieve import retrieve
from argus.agent.triage import diagnose, no_incident
from argus.analytics.classes import cause_classes
from argus.analytics.incident import Incident
from argus.topology.fleet import Fleet
from argus.topology.layout import Topology

TRIAGE = "triage"
"""Name of the page that holds the triage's own numbers."""

MAX_SHOWN = 16


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is investigated. `diagnosis` is the triage's, in JSON form; without an incident it says why there is none."""

    facts: RunFacts
    diagnosis: Mapping[str, Any]
    incident: Incident | None = None
    books: tuple[Runbook, ...] = field(default_factory=built_in_books)

    @property
    def fleet(self) -> Fleet | None:
        """The run's graph."""
        return self.facts.fleet()

    @property
    def world_size(self) -> int:
        """Ranks of the run, 0 while unknown."""
        fleet = self.fleet
        return 0 if fleet is None else fleet.topology.world_size

    @property
    def hosts(self) -> tuple[str, ...]:
        """Names of the hosts."""
        fleet = self.fleet
        return () if fleet is None else tuple(h.partition(":")[2] for h in fleet.elements_of_kind("host"))

    @property
    def fault_class(self) -> str:
        """The class the triage names, "" if none."""
        return self.incident.cause.fault_class if self.incident else ""

    @property
    def remedies(self) -> dict[str, Remedy]:
        """The catalogue: what ships and what the user's runbooks add."""
        added = {remedy.id: remedy for book in self.books if book.source for remedy in book.remedies}
        return {**built_in(), **added}

    @property
    def in_question(self) -> tuple[str, ...]:
        """Classes under discussion: the cause, its second best, its look-alikes."""
        if self.incident is None:
            return ()
        cause = self.incident.cause
        near = cause_classes()[cause.fault_class].near_miss
        named = [
            cause.fault_class,
            cause.second_best or "",
            *(item.fault_class for item in cause.ruled_out),
            *near,
        ]
        return tuple(dict.fromkeys(name for name in named if name in cause_classes()))

    @property
    def runbooks(self) -> tuple[Runbook, ...]:
        """The runbooks that fit best."""
        return retrieve(self.books, fault_class=self.fault_class, text=str(self.diagnosis["headline"]))

    def entities(self, *pages: ToolResult) -> Entities:
        """What an answer may name, given the evidence seen."""
        return entities_of(
            fleet=self.fleet,
            world_size=self.world_size,
            pages=pages,
            more=(self.facts.run, f"run:{self.facts.run}", *self.remedies),
        )


def case_of(facts: RunFacts, incident: Incident | None, *, books: tuple[Runbook, ...] = ()) -> Case:
    """The case of an incident, or of a run without one. An incident that nobody has worded yet is worded now."""
    diagnosis = _worded(facts, incident) if incident else _nothing_found(facts)
    return Case(facts=facts, incident=incident, diagnosis=diagnosis, books=(*books, *built_in_books()))


def _worded(facts: RunFacts, incident: Incident) -> dict[str, Any]:
    """The diagnosis it has, or one made now."""
    if incident.diagnosis is not None:
        return incident.diagnosis
    fleet = facts.fleet()
    topology = fleet.topology if fleet else Topology(run=facts.run, attempt=facts.attempt, world_size=0)
    behind = [one for one in facts.findings() if one.id in set(incident.cause.findings)]
    return diagnose(incident, findings=behind, topology=topology)


def _nothing_found(facts: RunFacts) -> dict[str, Any]:
    fleet = facts.fleet()
    num_ranks = 0 if fleet is None else fleet.topology.world_size
    windows = facts.windows(limit=1)
    doubt = long_step(facts) if windows else "no window of this run is analysed yet"
    missing = tuple(text for window in windows for text in window.unseen)
    return no_incident(missing=missing, doubt=doubt, num_ranks=num_ranks)


def triage_page(case: Case) -> ToolResult:
    """The triage's decision and numbers as a page of evidence, so that they can be cited like any other."""
    incident, diagnosis = case.incident, case.diagnosis
    data: Json = {
        "verdict": diagnosis["verdict"],
        "evidence": [_evidence(item) for item in diagnosis["evidence"]],
        "missing_evidence": list(diagnosis["missing_evidence"]),
    }
    if incident is not None:
        cause = incident.cause
        data |= {
            "incident": incident.id,
            "class": cause.fault_class,
            "scope": cause.scope,
            "suspects": list(cause.suspects[:MAX_SHOWN]),
            "victims": list(cause.victims[:MAX_SHOWN]),
            "num_victims": len(cause.victims),
            "phase": cause.phase,
            "group": cause.group,
            "second_best": cause.second_best,
            "ruled_out": [{"class": item.fault_class, "why": item.why} for item in cause.ruled_out],
            "onset_step": incident.onset_step,
            "status": incident.status,
            "severity": incident.severity,
            "findings": list(cause.findings[:MAX_SHOWN]),
            "cost": {
                key: number(v) if isinstance(v, float) else v for key, v in asdict(incident.cost).items()
            },
        }
    answer = fitted(Answer(data=data, as_of=AsOf(run=case.facts.run, attempt=case.facts.attempt)))
    args = {"incident": incident.id} if incident else {"run": case.facts.run}
    return ToolResult(
        tool=TRIAGE, args=args, status=answer.status, data=answer.data, as_of=answer.as_of, cut=answer.cut
    )


def _evidence(item: Mapping[str, Any]) -> Json:
    value, baseline = item["value"], item["baseline"]
    return {
        **item,
        "value": number(value) if isinstance(value, int | float) else None,
        "baseline": number(baseline) if isinstance(baseline, int | float) else None,
    }
