"""The agent on simulated faults: triage alone beside scripted or real models, the same tools over frozen facts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from argus.agent.case import Case
from argus.agent.context import ToolContext
from argus.agent.guard import Guard
from argus.agent.loop.drive import Asked, Surroundings, drive
from argus.agent.loop.investigate import Desk, Outcome, investigate
from argus.agent.loop.limits import Limits
from argus.agent.model.endpoint import Endpoint
from argus.agent.registry import registry
from argus.evals.agents.cases import AgentCase
from argus.evals.agents.score import AnswerScore, score_answer

SECRET = "5ec4e7"
"""Fences of trials need not surprise anybody but the attacker in them."""

NO_ENDPOINT = Endpoint(url="http://127.0.0.1:9/v1", model="scripted", context_tokens=16_384)


@dataclass(frozen=True, kw_only=True)
class AgentRow:
    """One model over several cases. `not_below` = cases whose strict root cause is not below the triage's."""

    model: str
    cases: int
    root_strict: int
    triage_root_strict: int
    not_below: int
    made_up: int
    unpointed: int
    stances: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def asked_on(
    case: Case,
    context: ToolContext,
    ask: Asked,
    *,
    endpoint: Endpoint = NO_ENDPOINT,
    limits: Limits | None = None,
    question: str = "",
    clock: Callable[[], float] = lambda: 0.0,
) -> Outcome:
    """One investigation of a case by a model."""
    desk = Desk(
        guard=Guard(secret=SECRET),
        endpoint=endpoint,
        registry=registry(),
        book=context.book,
        limits=limits or Limits(),
    )
    around = Surroundings(registry=registry(), context=context, clock=clock, rejudge=lambda: case.diagnosis)
    return drive(investigate(case, desk, question=question), ask, around)


def answer_score(made: AgentCase, outcome: Outcome, context: ToolContext) -> AnswerScore:
    """The score of an outcome, judged with everything its pages name."""
    pages = [page for page in map(context.book.get, outcome.pages) if page is not None]
    entities = made.case.entities(*pages)
    return score_answer(outcome.diagnosis, made.truth, entities=entities, book=context.book)


def summarise(model: str, rows: Iterable[tuple[AnswerScore, AnswerScore, Outcome]]) -> AgentRow:
    """Rows of (the answer's score, the triage's score, the outcome) in one."""
    kept = list(rows)
    stances = [outcome.stance for _, _, outcome in kept]
    return AgentRow(
        model=model,
        cases=len(kept),
        root_strict=sum(score.root_strict for score, _, _ in kept),
        triage_root_strict=sum(triage.root_strict for _, triage, _ in kept),
        not_below=sum(score.root_strict >= triage.root_strict for score, triage, _ in kept),
        made_up=sum(len(score.made_up) for score, _, _ in kept),
        unpointed=sum(len(score.unpointed) for score, _, _ in kept),
        stances={stance: stances.count(stance) for stance in sorted(set(stances))},
    )
