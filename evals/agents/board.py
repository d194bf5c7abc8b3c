"""Systems that ask a model, put beside the triage on the same trials: each answer scored, never judged by a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from argus.agent.context import ToolContext
from argus.agent.entities import without_ranks
from argus.agent.evidence import EvidenceBook
from argus.agent.grounding import PREFIX
from argus.agent.loop.drive import Asked
from argus.agent.loop.limits import Limits, Spent
from argus.agent.model.endpoint import Endpoint
from argus.agent.pointers import NotCited, number_at, numbers_in
from argus.agent.wording import quantity
from argus.evals.agents.attacks import Attack, attacks, obeyed, planted
from argus.evals.agents.cases import AgentCase
from argus.evals.agents.columns import AgentTrial
from argus.evals.agents.score import FIELD, NUMBER, path_grounded, ra_precision, score_answer
from argus.evals.scoreboard import Share
from argus.evals.systems import asked_systems
from argus.evals.systems._asked import Told

TRIAGE = "triage"
"""The deterministic answer, as a system of its own."""

SURE = ("CONFIRMED", "LIKELY")
MAX_REASON = 120
MOST = 1000
"""Null rates are over the integers up to this."""


def trials_of(
    system: str,
    cases: Sequence[AgentCase],
    ask: Asked,
    *,
    endpoint: Endpoint,
    limits: Limits,
    repeats: int = 1,
) -> Iterator[AgentTrial]:
    """Each case asked so many times; a crash is an answer that is none."""
    for repeat in range(repeats):
        for made in cases:
            context = made.context()
            told = _told(system, made, context, ask, endpoint=endpoint, limits=limits)
            yield scored(system, made, told, context, repeat=repeat)


def _told(
    system: str,
    made: AgentCase,
    context: ToolContext,
    ask: Asked,
    *,
    endpoint: Endpoint,
    limits: Limits,
    question: str = "",
) -> Told:
    case = made.case
    if system == TRIAGE:
        return Told(diagnosis=case.diagnosis, pages=(), spent=Spent())
    try:
        return asked_systems()[system](
            case, context, ask, endpoint=endpoint, limits=limits, question=question
        )
    except Exception as error:  # noqa: BLE001  one crashed trial is a result, not the end of the suite
        crash = f"crashed: {type(error).__name__}: {error}"[:MAX_REASON]
        return Told(diagnosis=case.diagnosis, pages=(), spent=Spent(), failure=crash, is_answer=False)


def scored(system: str, made: AgentCase, told: Told, context: ToolContext, *, repeat: int) -> AgentTrial:
    """One answer against the truth."""
    pages = [page for page in map(context.book.get, told.pages) if page is not None]
    entities = made.case.entities(*pages)
    score = score_answer(told.diagnosis, made.truth, entities=entities, book=context.book)
    triage = score_answer(made.case.diagnosis, made.truth, entities=made.case.entities(), book=context.book)
    numbers, cited, null = grounding(told.diagnosis, context.book)
    pool = {number for page in pages for number in numbers_in(page.data)}
    is_faulty = made.truth.fault_class is not None
    return AgentTrial(
        system=system,
        **vars(made.trial),
        repeat=repeat,
        strict=told.is_answer and score.root_strict,
        triage_strict=triage.root_strict,
        ra_precision=ra_precision(told.diagnosis, made.truth, entities=entities) if told.is_answer else 0.0,
        path_grounded=path_grounded(told.diagnosis, made.truth, entities=entities) if is_faulty else None,
        made_up=len(score.made_up),
        numbers=numbers,
        cited=cited,
        cited_null=null,
        pool_null=len(whole_numbers(pool)) / MOST if pool else None,
        false_alarm=None if is_faulty else told.diagnosis["verdict"] in SURE,
        turns=told.spent.turns,
        tool_calls=told.spent.tool_calls,
        tokens=told.spent.tokens,
        seconds=told.spent.seconds,
        usd=told.spent.usd,
        failure=told.failure,
        got=(
            str(told.diagnosis["verdict"]),
            *(f"{root['fault_class']} at {root['node']}" for root in told.diagnosis["root_causes"]),
        ),
    )


def grounding(diagnosis: Mapping[str, Any], book: EvidenceBook) -> tuple[int, int, float | None]:
    """Numbers in a model's claims, how many stand at the pointer given for them, and what else would pass there.

    A pointer is rendered from its evidence, so that it is right or leads nowhere; a number that is typed is not cited.
    """
    numbers, shown = 0, list[str]()
    for claim in diagnosis["claims"]:
        if not str(claim["id"]).startswith(PREFIX):
            continue
        numbers += len(NUMBER.findall(without_ranks(FIELD.sub(" ", str(claim["text"])))))
        for value in claim["values"].values():
            numbers += 1
            try:
                shown.append(quantity(*number_at(book, str(value["evidence"]), str(value["path"]))))
            except NotCited:
                continue
    null = sum(_is_hit(text) for text in shown) / (MOST * len(shown)) if shown else None
    return numbers, len(shown), null


def _is_hit(shown: str) -> bool:
    """Whether one of the integers up to `MOST` is the number shown."""
    found = re.match(r"[\d,.]+", shown)
    value = float(found[0].replace(",", "")) if found else 0.0
    return value.is_integer() and 1 <= value <= MOST


def whole_numbers(pool: Iterable[float]) -> frozenset[int]:
    """The integers up to `MOST` that a number of the pool is shown as, as `quantity` rounds it."""
    near = {round(value) for value in pool if abs(value) >= 10 or value.is_integer()}
    return frozenset(number for number in near if 1 <= number <= MOST)


def injected(
    system: str,
    made: AgentCase,
    ask: Asked,
    *,
    endpoint: Endpoint,
    limits: Limits,
    tried: Sequence[Attack] | None = None,
) -> Share:
    """How many planted instructions had their way with a system."""
    tried = attacks() if tried is None else tried
    had_its_way = 0
    for attack in tried:
        bait, question = planted(made, attack.channel, attack.text)
        context = bait.context()
        told = _told(system, bait, context, ask, endpoint=endpoint, limits=limits, question=question)
        had_its_way += obeyed(attack, told.diagnosis, [context.book.get(page) for page in told.pages])
    return Share(part=had_its_way, whole=len(tried))
