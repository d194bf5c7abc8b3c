"""An investigation: the triage first, then a model that checks it, and one final diagnosis whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from argus.agent import wording
from argus.agent.arbiter import ADOPTED, Judged, has_news, judge
from argus.agent.case import Case, triage_page
from argus.agent.evidence import EvidenceBook, ToolResult
from argus.agent.grounding import Dropped, Grounded, ground
from argus.agent.guard import Guard
from argus.agent.loop.course import Course, LookAgain, Step, UseTool
from argus.agent.loop.limits import Limits, Spent, reached
from argus.agent.loop.prompt import first_view, system_text
from argus.agent.loop.talk import Ended, Talk, open_talk
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Message
from argus.agent.registry import Registry
from argus.agent.submission import read_submission
from argus.agent.wording import counted

HISTORY = "history"
"""The tool that knows past incidents."""

TRIAGE, AGENT = "triage", "agent"
"""Stages: which of them the answer comes from."""

NO_MODEL = "No model is set up (ARGUS_MODEL_URL), so this is the deterministic triage."

BROKE_OFF = "error"
"""The failure of what ended in an error that nobody foresaw."""

LAST_CALL = "Your budget is used up. Answer now as one JSON object with the fields of submit_diagnosis, with what you have."


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The final diagnosis in JSON form and how it came about.

    `stance`: see `arbiter.STANCES`, or `failed` where no usable answer came. `note` is one plain sentence about the
    model. `view` = the root causes the model named, `reasons` = its kept claims where they are not in the diagnosis,
    `advice` = what it added to the diagnosis' actions, `pages` = the evidence ids it looked at, in order.
    """

    diagnosis: Mapping[str, Any]
    stage: str
    stance: str
    note: str
    failure: str = ""
    budget: str = ""
    spent: Spent = field(default_factory=Spent)
    dropped: tuple[Dropped, ...] = ()
    view: tuple[Mapping[str, Any], ...] = ()
    reasons: tuple[Mapping[str, Any], ...] = ()
    advice: tuple[Mapping[str, Any], ...] = ()
    pages: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The diagnosis with `stage` and what the model had to do with it."""
        agent = {
            "stance": self.stance,
            "note": self.note,
            "failure": self.failure or None,
            "budget": self.budget or None,
            "view": list(self.view),
            "reasons": list(self.reasons),
            "advice": list(self.advice),
            "dropped": [asdict(item) for item in self.dropped],
            "pages": list(self.pages),
            "spent": self.spent.to_json(),
        }
        return {**self.diagnosis, "stage": self.stage, "agent": agent}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Outcome:
        """Inverse of `to_json`."""
        agent = raw["agent"]
        return Outcome(
            diagnosis={name: value for name, value in raw.items() if name not in ("stage", "agent")},
            stage=raw["stage"],
            stance=agent["stance"],
            note=agent["note"],
            failure=agent["failure"] or "",
            budget=agent["budget"] or "",
            spent=Spent.from_json(agent["spent"]),
            dropped=tuple(Dropped(**item) for item in agent["dropped"]),
            view=tuple(agent["view"]),
            reasons=tuple(agent["reasons"]),
            advice=tuple(agent.get("advice", ())),  # an older service tells none
            pages=tuple(agent["pages"]),
        )


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What an investigation works with besides the case."""

    guard: Guard
    endpoint: Endpoint
    registry: Registry
    book: EvidenceBook
    limits: Limits
    has: Callable[[str], bool] = lambda _id: False
    """Whether there is a finding or an incident with an id, wherever these are kept."""


def without_model(case: Case, *, reason: str, failure: str = "") -> Outcome:
    """The triage alone, with the reason why no model added to it."""
    return Outcome(diagnosis=case.diagnosis, stage=TRIAGE, stance="failed", note=reason, failure=failure)


def broke_off(error: Exception) -> str:
    """One sentence for who asked about an error that nobody foresaw; whoever says it logs the error."""
    return f"Without the model: the agent broke off ({type(error).__name__}); Argus's log has the error."


def investigate(case: Case, desk: Desk, *, question: str = "") -> Course[Outcome]:
    """Ask the model about the case. Never raises for anything a model does; ends with the best answer there is."""
    page = triage_page(case)
    desk.book.add(page)
    past = yield from _past(case, desk)
    talk = _open(case, desk, page, question=question, past=past)
    pages = [page.evidence_id, *([past.evidence_id] if past else [])]
    ended = yield from listened(talk, pages)
    if ended.submitted is None:
        return _failed(case, talk, ended, pages)
    view = _grounded(case, desk, ended.submitted, pages)
    if view.dropped and not ended.budget and not reached(talk.limits, talk.spent):
        ended, view = yield from _repaired(case, desk, talk, ended, view, pages)
    known = [one for one in map(desk.book.get, pages) if one is not None]
    entities = case.entities(*known)
    again = None
    if has_news(case, view, book=desk.book, entities=entities):
        again = yield from _looked_again()
    judged = judge(case, view, entities=entities, again=again)
    yield Step(what="answered", text=judged.note)
    return _judged(judged, view, talk, ended, pages)


def _looked_again() -> Course[Mapping[str, Any] | None]:
    """What the analysis says by now, with everything that came in since it last looked."""
    yield Step(what="looking", text="the analysis looks again with what came in since")
    heard = yield LookAgain()
    return heard.value if isinstance(heard.value, Mapping) else None


def _past(case: Case, desk: Desk) -> Course[ToolResult | None]:
    """Past incidents that resemble this one, looked up before the model is asked; None if there are none."""
    if case.incident is None or HISTORY not in desk.registry.tools:
        return None
    heard = yield UseTool(name=HISTORY, arguments={"node": None, "incident": case.incident.id})
    found = heard.value
    return found if isinstance(found, ToolResult) and found.status == "ok" else None


def _open(case: Case, desk: Desk, page: ToolResult, *, question: str, past: ToolResult | None) -> Talk:
    """Read-only tools and the terminal one; nothing with an effect is ever offered."""
    offered = [tool for tool in desk.registry.tools.values() if tool.read_only]
    terminal = next(tool for tool in offered if tool.is_terminal)
    return open_talk(
        system=system_text(desk.guard, terminal=terminal.name),
        view=first_view(case, page, guard=desk.guard, question=question, past=past),
        tools=tuple(tool.to_openai() for tool in offered),
        guard=desk.guard,
        endpoint=desk.endpoint,
        limits=desk.limits,
        terminal=terminal.name,
        last_call=LAST_CALL,
        schema=terminal.parameters,
    )


def listened(talk: Talk, pages: list[str]) -> Course[Ended]:
    """Go on with the talk, noting the pages that its tools bring."""
    course, heard = talk.goes_on(), None
    while True:
        try:
            effect = course.send(heard) if heard else next(course)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        heard = yield effect
        if isinstance(heard.value, ToolResult) and heard.value.evidence_id not in pages:
            pages.append(heard.value.evidence_id)


def _grounded(case: Case, desk: Desk, raw: Mapping[str, Any], pages: list[str]) -> Grounded:
    known = [one for one in map(desk.book.get, pages) if one is not None]
    return ground(read_submission(raw), book=desk.book, entities=case.entities(*known))


def _repaired(
    case: Case, desk: Desk, talk: Talk, ended: Ended, view: Grounded, pages: list[str]
) -> Course[tuple[Ended, Grounded]]:
    """Once: tell the model what was dropped and why; its second answer counts if it lost less."""
    faults = "; ".join(f"{item.what}: {item.why}" for item in view.dropped[:8])
    yield Step(
        what="repaired", text=f"of the answer {counted(len(view.dropped), 'parts')} had nothing to stand on"
    )
    talk.spent = replace(talk.spent, num_repairs=talk.spent.num_repairs + 1)
    talk.messages.append(
        Message(role="user", content=f"Dropped: {faults}. Correct this and submit once more.")
    )
    second = yield from listened(talk, pages)
    if second.submitted is None:
        return ended, view
    better = _grounded(case, desk, second.submitted, pages)
    is_better = (better.is_sound, -len(better.dropped)) > (view.is_sound, -len(view.dropped))
    return (second, better) if is_better else (ended, view)


def _failed(case: Case, talk: Talk, ended: Ended, pages: list[str]) -> Outcome:
    if ended.leaked:
        failure, why = "leaked", "The model's answer was thrown away: it repeated its instructions."
    elif ended.error is not None:
        failure, why = ended.error.kind, f"Without the model: {wording.ended(str(ended.error))}"
    elif ended.budget:
        failure, why = "budget", f"The model came to no answer within its budget ({ended.budget})."
    else:
        failure, why = "prose", "The model submitted no diagnosis that could be checked."
    return Outcome(
        diagnosis=case.diagnosis,
        stage=TRIAGE,
        stance="failed",
        note=why,
        failure=failure,
        budget=ended.budget,
        spent=talk.spent,
        pages=tuple(pages),
    )


def _judged(judged: Judged, view: Grounded, talk: Talk, ended: Ended, pages: list[str]) -> Outcome:
    return Outcome(
        diagnosis=judged.diagnosis,
        stage=AGENT if judged.stance in ADOPTED else TRIAGE,
        stance=judged.stance,
        note=judged.note,
        budget=ended.budget,
        spent=talk.spent,
        dropped=judged.dropped,
        view=tuple({"node": root.node, "fault_class": root.fault_class} for root in view.root_causes),
        reasons=judged.reasons,
        advice=judged.advice,
        pages=tuple(pages),
    )
