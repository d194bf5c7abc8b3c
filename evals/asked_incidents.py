"""What systems that ask a model say, as incidents: so their answers are marked as those of all others are."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from argus.agent.case import Case, case_of
from argus.agent.context import ToolContext
from argus.agent.entities import Entities
from argus.agent.evidence import MemoryBook
from argus.agent.loop.drive import Asked
from argus.analytics.incident import Incident
from argus.evals.agents.cases import facts_of
from argus.evals.agents.score import PATH_KINDS
from argus.evals.asked_model import AskedModel
from argus.evals.marks import SURE
from argus.evals.play import Played
from argus.evals.systems import asked_systems, is_asked_of_each
from argus.evals.systems._asked import Told
from argus.evals.systems._seen import Suspicion, opened

NO_ROOT = "unknown"
"""The class of a fault that is told without a cause."""

OF_NOBODY = (*PATH_KINDS, "run", "stage")
"""Nodes that accuse no rank."""


class NoAnswer(Exception):
    """A system gave no answer; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """Incidents, when each was told, actions advised, and the seconds a question took on the average."""

    incidents: tuple[Incident, ...]
    told_s: tuple[float, ...]
    advice: tuple[str, ...]
    model_s: float


def asked_incidents(
    name: str,
    played: Played,
    *,
    end_s: float,
    model: AskedModel,
    ask: Asked,
    clock: Callable[[], float] = time.monotonic,
) -> Said:
    """A system's answer about a job played to its end, Unix time `end_s`. Raises NoAnswer.

    One that is asked of each incident is told of when the incident is; one asked of the job, when that has ended.
    """
    facts = facts_of(played)
    run = facts.held[0]
    subjects: Sequence[tuple[Incident | None, float]] = [(None, end_s)]
    if is_asked_of_each(name) and run.incidents:
        subjects = list(zip(run.incidents, played.told_s, strict=True))
    begun_s = clock()
    incidents, told_s, advice = list[Incident](), list[float](), list[str]()
    for incident, at_s in subjects:
        case, book = case_of(run, incident), MemoryBook()
        window = incident.last_window if incident else None
        context = ToolContext(facts=facts, book=book, run=run.run, attempt=run.attempt, window=window)
        told = asked_systems()[name](case, context, ask, endpoint=model.endpoint, limits=model.limits)
        if not told.is_answer:
            raise NoAnswer(told.failure)
        mine = list(_incidents(case, told, played, entities=_entities(case, told, book)))
        incidents += mine
        told_s += [at_s] * len(mine)
        advice += [str(action["id"]) for action in told.diagnosis["remediation"]]
    took_s = (clock() - begun_s) / len(subjects)
    return Said(incidents=tuple(incidents), told_s=tuple(told_s), advice=tuple(advice), model_s=took_s)


def _entities(case: Case, told: Told, book: MemoryBook) -> Entities:
    return case.entities(*(page for page in map(book.get, told.pages) if page is not None))


def _incidents(case: Case, told: Told, played: Played, *, entities: Entities) -> Iterator[Incident]:
    """The incident as it was where the answer leaves its cause; else one for each root cause named, and one of the run
    for a fault that is told without any."""
    diagnosis = told.diagnosis
    verdict, roots = str(diagnosis["verdict"]), list(diagnosis["root_causes"])
    if case.incident is not None and roots == list(case.diagnosis["root_causes"]):
        yield replace(case.incident, cause=replace(case.incident.cause, verdict=verdict))
        return
    if verdict == "NO_FAULT":
        return
    if not roots and verdict in SURE:
        roots = [{"node": f"run:{case.facts.run}", "fault_class": NO_ROOT}]
    for root in roots:
        incident = case.incident or _new(root, diagnosis["onset"]["step"], played, entities=entities)
        yield _caused(incident, root, verdict=verdict, entities=entities)


def _new(root: Mapping[str, Any], step: int | None, played: Played, *, entities: Entities) -> Incident:
    """An incident of the last window, from the step on that is told; where none is, from that of the costliest
    finding at the root's place. Raises NoAnswer."""
    if not played.windows:
        raise NoAnswer("no window to ask about")
    made = opened(Suspicion(at=0, fault_class=NO_ROOT), played.windows[-1])
    if step is None:
        ranks = entities.ranks_of(str(root["node"]))
        there = [one for one in played.findings if not ranks or ranks & set(one.ranks)]
        costly = max(there, key=lambda one: one.effect_s_per_step or 0.0, default=None)
        step = costly.start_step if costly else None
    onset = made.onset_step if step is None else min(step, made.onset_step)
    return replace(made, onset_step=onset, cause=replace(made.cause, onset_step=onset))


def _caused(incident: Incident, root: Mapping[str, Any], *, verdict: str, entities: Entities) -> Incident:
    """The incident with the cause as answered."""
    node, name = str(root["node"]), str(root["fault_class"])
    kind, _, rest = node.partition(":")
    cause = replace(
        incident.cause,
        verdict=verdict,
        fault_class=name,
        scope=node,
        suspects=() if kind in OF_NOBODY else tuple(sorted(entities.ranks_of(node))),
        group=rest if kind == "group" else None,
    )
    return replace(incident, cause=cause)
