"""One turn of a chat: a question about the case, tools, an answer in words that is checked before it is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from argus.agent import wording
from argus.agent.beside import doubt_of, lead_of
from argus.agent.case import Case, triage_page
from argus.agent.entities import Entities, ids_in
from argus.agent.evidence import ToolResult
from argus.agent.grounding_text import Checked, check_text
from argus.agent.guard import question_of
from argus.agent.loop.course import Course, Step
from argus.agent.loop.investigate import Desk, listened
from argus.agent.loop.limits import Spent, reached
from argus.agent.loop.prompt import first_view, system_text
from argus.agent.loop.talk import MAX_KEPT, Ended, Talk, open_talk
from argus.agent.model.message import Message
from argus.agent.named_numbers import counted_in
from argus.agent.wording import counted

CUT = " … (cut: the model went on and on)"

MAX_HISTORY = 12
"""Earlier questions and answers shown again; their evidence stays in the book."""


@dataclass(frozen=True, kw_only=True)
class Answered:
    """What is shown for a question. `failure` as in `Outcome`; `note` then says it in one plain sentence.

    `lead` is the triage's verdict and headline, shown before the text; `doubt` is shown between them, "" if the text
    stands on evidence and on the triage's suspects.
    """

    text: str
    lead: str = ""
    doubt: str = ""
    note: str = ""
    failure: str = ""
    budget: str = ""
    spent: Spent = field(default_factory=Spent)
    pages: tuple[str, ...] = ()
    num_pointed: int = 0
    num_verified: int = 0
    num_unverified: int = 0
    unknown: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        lists = {"pages": list(self.pages), "unknown": list(self.unknown)}
        return {**asdict(self), **lists, "spent": self.spent.to_json()}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Answered:
        """Inverse of `to_json`; what a later version added is passed over."""
        lists = {name: tuple(raw[name]) for name in ("pages", "unknown")}
        mine = {one.name: raw[one.name] for one in fields(Answered) if one.name in raw}
        return Answered(**{**mine, **lists, "spent": Spent.from_json(raw["spent"])})

    @property
    def said(self) -> str:
        """The text with all that stands before it, "" where there is none."""
        before = "\n".join(filter(None, (self.lead, self.doubt)))
        return f"{before}\n\n{self.text}".strip() if self.text else ""


def chat_turn(case: Case, desk: Desk, *, question: str, history: Sequence[Message] = ()) -> Course[Answered]:
    """Answer one question. Never raises for anything a model does."""
    page = triage_page(case)
    desk.book.add(page)
    talk = open_talk(
        system=system_text(desk.guard, terminal=""),
        history=history[-MAX_HISTORY:],
        view=first_view(case, page, guard=desk.guard, question=question_of(question)),
        tools=tuple(
            tool.to_openai()
            for tool in desk.registry.tools.values()
            if tool.read_only and not tool.is_terminal
        ),
        guard=desk.guard,
        endpoint=desk.endpoint,
        limits=desk.limits,
    )
    pages = [page.evidence_id]
    ended = yield from listened(talk, pages)
    if not ended.said.strip():
        return _failed(talk, ended, pages)
    told = _told(case, question, history)
    checked = _checked(case, desk, ended.said, pages, told)
    if not checked.is_clean and not ended.budget and not reached(talk.limits, talk.spent):
        ended, checked = yield from _repaired(case, desk, talk, (ended, checked), pages=pages, told=told)
    yield Step(what="answered", text="answered")
    return Answered(
        text=checked.text,
        lead=lead_of(case),
        doubt=doubt_of(
            checked.text, case, entities=_entities(case, desk, pages), cites=checked.stands_on_evidence
        ),
        budget=ended.budget,
        spent=talk.spent,
        pages=tuple(pages),
        num_pointed=checked.num_pointed,
        num_verified=checked.num_verified,
        num_unverified=checked.num_unverified,
        unknown=checked.unknown,
    )


def _told(case: Case, question: str, history: Sequence[Message]) -> frozenset[float]:
    """Steps and windows that stand in the conversation so far or in the first view."""
    texts = (question, str(case.diagnosis["headline"]), *(message.content for message in history))
    last = case.facts.windows(limit=1)
    ends = {float(one) for window in last for one in (window.index, window.last_step)}
    return frozenset(ends.union(*map(counted_in, texts)))


def _checked(case: Case, desk: Desk, said: str, pages: Sequence[str], told: frozenset[float]) -> Checked:
    text = said if len(said) <= MAX_KEPT else f"{said[:MAX_KEPT]}{CUT}"
    entities = _entities(case, desk, pages)
    kept = [key for key in ids_in(text) if key not in entities.words and desk.has(key)]
    entities = replace(entities, words={*entities.words, *kept})
    return check_text(text, book=desk.book, entities=entities, seen=_seen(desk, pages), told=told)


def _seen(desk: Desk, pages: Sequence[str]) -> list[ToolResult]:
    return [one for one in map(desk.book.get, pages) if one is not None]


def _entities(case: Case, desk: Desk, pages: Sequence[str]) -> Entities:
    return case.entities(*_seen(desk, pages))


def _repaired(
    case: Case,
    desk: Desk,
    talk: Talk,
    first: tuple[Ended, Checked],
    *,
    pages: list[str],
    told: frozenset[float],
) -> Course[tuple[Ended, Checked]]:
    """Once: the model may say it again with pointers; what it still types stays marked."""
    ended, checked = first
    yield Step(
        what="repaired",
        text=f"not verified: {counted(checked.num_unverified + len(checked.unknown), 'things')}",
    )
    talk.spent = replace(talk.spent, num_repairs=talk.spent.num_repairs + 1)
    unknown = f" Unknown names: {', '.join(checked.unknown[:5])}." if checked.unknown else ""
    talk.messages.append(Message(role="assistant", content=ended.said[:MAX_KEPT]))
    talk.messages.append(
        Message(
            role="user",
            content=f"Typed, not pointed to: {counted(checked.num_unverified, 'numbers')}.{unknown} "
            "Say it again with {ev-ID:/json/pointer} for each number, or without the number.",
        )
    )
    second = yield from listened(talk, pages)
    if not second.said.strip():
        return ended, checked
    better = _checked(case, desk, second.said, pages, told)
    faults = (better.num_unverified + len(better.unknown), checked.num_unverified + len(checked.unknown))
    return (second, better) if faults[0] < faults[1] else (ended, checked)


def _failed(talk: Talk, ended: Ended, pages: Sequence[str]) -> Answered:
    if ended.leaked:
        failure, note = "leaked", "The model's answer was thrown away: it repeated its instructions."
    elif ended.error is not None:
        failure, note = ended.error.kind, f"Without the model: {wording.ended(str(ended.error))}"
    else:
        failure, note = "budget", f"The model came to no answer ({ended.budget or 'it said nothing'})."
    return Answered(
        text="", note=note, failure=failure, budget=ended.budget, spent=talk.spent, pages=tuple(pages)
    )
