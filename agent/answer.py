"""An answer as lines of text: the card, what the model found, what was dropped, what it took."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from argus.agent.card import render as render_card
from argus.agent.case import Case, triage_page
from argus.agent.claims import documents_of
from argus.agent.claims import render as render_claim
from argus.agent.evidence import Pages
from argus.agent.grounding import PREFIX
from argus.agent.loop.chat import Answered
from argus.agent.loop.investigate import Outcome
from argus.agent.loop.limits import Spent
from argus.agent.wording import counted, printable, quantity

MAX_DROPPED = 6


def card_of(case: Case, *, color: bool = False) -> str:
    """The deterministic card of a case."""
    fleet = case.fleet
    topology = None if fleet is None else fleet.topology
    return render_card(case.incident, case.diagnosis, topology=topology, color=color)


def outcome_lines(outcome: Outcome, *, book: Pages) -> Iterator[str]:
    """What the model had to do with a diagnosis."""
    yield f"Model: {printable(outcome.note)}"
    added = [one for one in outcome.diagnosis["claims"] if str(one["id"]).startswith(PREFIX)]
    documents = documents_in([*added, *outcome.reasons], book)
    for claim in (*added, *outcome.reasons):
        yield printable(f"  · {render_claim(claim, documents)} [{', '.join(claim['evidence'])}]")
    for action in outcome.advice:
        yield printable(f"  → {action['action']} ({action['target']})")
    yield from _dropped(outcome)
    if outcome.spent.turns:
        yield f"  {spent_text(outcome.spent)}"


def _dropped(outcome: Outcome) -> Iterator[str]:
    for item in outcome.dropped[:MAX_DROPPED]:
        yield printable(f"  dropped {item.what}: {item.text} — {item.why}")
    if len(outcome.dropped) > MAX_DROPPED:
        yield f"  and {len(outcome.dropped) - MAX_DROPPED} more dropped, see --json"


def answer_lines(answer: Answered, *, has_card: bool = False) -> Iterator[str]:
    """A chat answer after the triage's verdict; `has_card`: that stands above it already."""
    if answer.text:
        before = (answer.doubt,) if has_card else (answer.lead, answer.doubt)
        yield from (printable(one) for one in before if one)
        yield from printable(answer.text).splitlines()
    if answer.note:
        yield printable(answer.note)
    marks = answer.num_unverified + len(answer.unknown)
    if marks:
        yield f"(marked, because it could not be verified: {counted(marks, 'things')})"
    if answer.spent.turns:
        yield f"({spent_text(answer.spent)})"


def why_lines(case: Case, diagnosis: Mapping[str, Any], book: Pages) -> Iterator[str]:
    """Evidence for the cause, against the others, and what is missing; every number from its pointer."""
    documents: dict[str, Mapping[str, Any]] = dict(documents_of(diagnosis))
    documents |= documents_in(diagnosis["claims"], book)
    claims = {claim["id"]: claim for claim in diagnosis["claims"]}
    against = {key for item in diagnosis["ruled_out"] for key in item["claim_ids"]}
    yield printable(str(diagnosis["headline"]))
    for key, claim in claims.items():
        if key not in against:
            yield printable(f"  for: {render_claim(claim, documents)}")
    for item in diagnosis["ruled_out"]:
        yield printable(f"  not {item['fault_class']}: {item['why']}")
        for key in item["claim_ids"]:
            if key in claims:
                yield printable(f"    {render_claim(claims[key], documents)}")
    for item in diagnosis.get("past", ()):
        yield printable(f"  before: {item['text']}")
    for text in diagnosis["missing_evidence"]:
        yield printable(f"  missing: {text}")
    yield f"  the triage's numbers are evidence {triage_page(case).evidence_id}"


def documents_in(claims: Iterable[Mapping[str, Any]], book: Pages) -> dict[str, Mapping[str, Any]]:
    """The pages of the book that the pointers of claims lead into."""
    keys = dict.fromkeys(key for claim in claims for key in claim["evidence"])
    return {key: page.data for key in keys if (page := book.get(key)) is not None}


def spent_text(spent: Spent) -> str:
    """What an answer took."""
    about = "about " if spent.is_estimated else ""
    money = f", {spent.usd:.4f} USD" if spent.usd else ""
    return (
        f"{counted(spent.turns, 'turns')}, {counted(spent.tool_calls, 'tool calls')}, {about}{counted(spent.tokens, 'tokens')}, "
        f"{quantity(spent.seconds, 's')}{money}"
    )
