"""A matter as Slack blocks: a first screen for whoever is on call, and the thread's evidence; pure, within limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from argus.agent.claims import documents_of
from argus.agent.claims import render as render_claim
from argus.agent.wording import counted, quantity, ranks
from argus.analytics.store.marks import ACKNOWLEDGED, WRONG
from argus.api.notify.matter import DEFAULT, Matter
from argus.api.notify.notifier import Digest
from argus.api.slack.limits import MAX_TEXT, Block, fitted
from argus.api.slack.text import code, escaped, name, plain

SIGNS = {"critical": "\U0001f534", "warning": "\U0001f7e0", "info": "\U0001f535"}
RESOLVED_SIGN = "\u2705"
MAX_WHY, MAX_NOT, MAX_MISSING = 3, 2, 3
MAX_THREAD_CLAIMS = 30
SHORT, LONG = 300, 600

DETAILS, ASK, ACK, MUTE, NOT_IT = (
    "argus_details",
    "argus_ask",
    "argus_acknowledge",
    "argus_mute",
    "argus_wrong",
)
BUTTONS = ((DETAILS, "Details"), (ASK, "Ask"), (ACK, "Acknowledge"), (MUTE, "Mute 1 h"), (NOT_IT, "Wrong?"))

LOOKING = "the agent is looking into it"


@dataclass(frozen=True, kw_only=True)
class SlackText:
    """A message: blocks, and the text shown where blocks are not."""

    blocks: list[Block]
    text: str


def message(matter: Matter, *, times: int, is_looking: bool, has_buttons: bool) -> SlackText:
    """The one message of an incident, as it is now."""
    blocks = [
        _header(matter),
        _section(" · ".join(_status(matter, times))),
        _section("\n".join(_where(matter))),
        *_optional("\n".join(_why(matter, MAX_WHY))),
        *_optional("\n".join(_not(matter, MAX_NOT))),
        *_optional("\n".join(_before(matter))),
        *_optional(_next(matter)),
        _context(_foot(matter, is_looking=is_looking)),
        *([_buttons(matter)] if has_buttons and matter.incident.status == "open" else []),
    ]
    return SlackText(blocks=fitted(blocks), text=_fallback(matter))


def thread(matter: Matter) -> SlackText:
    """The evidence: everything for the cause, everything against the others, every action."""
    blocks = [
        *_paragraphs("*Evidence*", list(_why(matter, MAX_THREAD_CLAIMS))),
        *_paragraphs("*Ruled out*", list(_not(matter, MAX_THREAD_CLAIMS))),
        *_paragraphs("*Before*", list(_before(matter))),
        *_paragraphs("*What to do*", list(_actions(matter))),
        *_paragraphs("*Not seen*", [f"• {escaped(text, limit=LONG)}" for text in _missing(matter)]),
        _context([_made_by(matter), f"incident {name(matter.incident.id)}"]),
    ]
    return SlackText(blocks=fitted(blocks), text=f"Evidence: {_fallback(matter)}"[:MAX_TEXT])


def ended(matter: Matter) -> SlackText:
    """The thread's last word."""
    incident = matter.incident
    why = escaped(incident.ended or "the signal is gone", limit=SHORT)
    lasted = quantity(max(matter.updated_s - matter.opened_s, 0.0), "s")
    last = "" if incident.end_step is None else f", last seen in step {incident.end_step}"
    text = f"{RESOLVED_SIGN} Resolved after {lasted}: {why}{last}."
    return SlackText(blocks=fitted([_section(text)]), text=text)


def worse(matter: Matter) -> SlackText:
    """The thread's word on a severity that rose or a cause that came back."""
    text = f"{SIGNS[matter.incident.severity]} Now {matter.incident.severity}: {_headline(matter)}"
    return SlackText(blocks=fitted([_section(text)]), text=text[:MAX_TEXT])


def digest(one: Digest) -> SlackText:
    """Several incidents in one message."""
    title = one.title if one.project == DEFAULT else f"{one.project}: {one.title}"
    lines = [
        f"• {name(line.run) + ' ' if line.run else ''}{escaped(line.text, limit=SHORT)}"
        f"{f' ×{line.count}' if line.count > 1 else ''}"
        for line in one.lines
    ]
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": plain(title, limit=150), "emoji": False}},
        *_paragraphs("", lines),
    ]
    return SlackText(blocks=fitted(blocks), text=plain(title, limit=SHORT))


def said(text: str, *, note: str = "") -> SlackText:
    """An answer of the agent or a short word of ours, as plain escaped paragraphs."""
    lines = [escaped(line, limit=2900) for line in text.splitlines() if line.strip()]
    blocks = [*_paragraphs("", lines), *([_context([escaped(note, limit=SHORT)])] if note else [])]
    first = lines[0] if lines else escaped(note, limit=SHORT)
    return SlackText(blocks=fitted(blocks or [_section(first or "…")]), text=first[:MAX_TEXT])


def _header(matter: Matter) -> Block:
    incident = matter.incident
    is_over = incident.status != "open"
    sign = RESOLVED_SIGN if is_over else SIGNS[incident.severity]
    state = "Resolved" if is_over else incident.severity.capitalize()
    text = f"{sign} {state} · {matter.run}: {_plain_headline(matter)}"
    return {"type": "header", "text": {"type": "plain_text", "text": plain(text, limit=150), "emoji": False}}


def _status(matter: Matter, times: int) -> Iterator[str]:
    incident, impact = matter.incident, matter.diagnosis.get("impact") or {}
    yield f"*{escaped(matter.verdict, limit=20)}* {name(incident.cause.fault_class)}"
    ratio = impact.get("slowdown_ratio")
    if isinstance(ratio, int | float):
        yield f"step {quantity(ratio, 'x')} of usual"
    if incident.cost.share_of_step > 0:
        yield f"{quantity(incident.cost.share_of_step, 'share')} of the step lost"
    since = "the first step seen, step" if incident.cause.from_start_s is not None else "step"
    yield f"since {since} {incident.onset_step}, {_clock(matter.opened_s)}"
    if incident.cost.gpu_hours_so_far >= 0.005:
        yield f"{quantity(incident.cost.gpu_hours_so_far)} GPU-hours lost so far"
    if times > 1:
        yield f"{times}. time"


def _where(matter: Matter) -> Iterator[str]:
    cause = matter.incident.cause
    parts = [name(cause.scope), escaped(ranks(cause.suspects), limit=SHORT)]
    parts += [f"host {', '.join(name(host) for host in matter.hosts[:3])}"] if matter.hosts else []
    parts += [f"group {name(cause.group)}"] if cause.group else []
    if cause.victims:
        parts.append(f"waited for by {counted(len(cause.victims), 'ranks')}")
    yield f"*Where* {' · '.join(parts)}"


def _why(matter: Matter, limit: int) -> Iterator[str]:
    """Claims for the cause, each number from its pointer."""
    diagnosis = matter.diagnosis
    against = {key for item in diagnosis.get("ruled_out", ()) for key in item["claim_ids"]}
    documents = documents_of(diagnosis) if "evidence" in diagnosis else {}
    claims = [claim for claim in diagnosis.get("claims", ()) if claim["id"] not in against]
    for claim in claims[:limit]:
        yield f"• {escaped(render_claim(claim, documents), limit=LONG)}"


def _not(matter: Matter, limit: int) -> Iterator[str]:
    for item in list(matter.diagnosis.get("ruled_out", ()))[:limit]:
        yield f"• not {name(item['fault_class'])}: {escaped(item['why'], limit=LONG)}"


def _before(matter: Matter) -> Iterator[str]:
    """What earlier incidents of the class tell, as far as anybody remembers."""
    for item in list(matter.diagnosis.get("past", ()))[:MAX_WHY]:
        yield f"• {escaped(item['text'], limit=LONG)}"


def _next(matter: Matter) -> str:
    """The first thing to do, with its command."""
    actions = matter.diagnosis.get("remediation") or ()
    if not actions or matter.incident.status != "open":
        return ""
    return f"*Next* {_action(actions[0])}"


def _actions(matter: Matter) -> Iterator[str]:
    for action in matter.diagnosis.get("remediation") or ():
        checks = f"\n_verify:_ {escaped(action['verify_by'], limit=LONG)}" if action.get("verify_by") else ""
        yield f"• {_action(action)}{checks}"
    separation = matter.diagnosis.get("separation")
    if separation:
        yield (
            f"• to tell it from {name(matter.diagnosis.get('second_best'))}: "
            f"{code(separation['command'], limit=LONG)}\n"
            f"{name(matter.diagnosis.get('second_best'))} if {escaped(separation['second_if'], limit=LONG)}"
        )


def _action(action: Mapping[str, Any]) -> str:
    command = f"\n{code(action['command'], limit=1500)}" if action.get("command") else ""
    return f"{escaped(action['action'], limit=LONG)}{command}"


def _missing(matter: Matter) -> Sequence[str]:
    return [str(text) for text in matter.diagnosis.get("missing_evidence", ())]


def _foot(matter: Matter, *, is_looking: bool) -> list[str]:
    """Who says so, what was not seen, who has it; the link is the only one there can be."""
    foot = [_made_by(matter)]
    if is_looking and matter.outcome is None and matter.incident.status == "open":
        foot = [f"{foot[0]}; {LOOKING}"]
    missing = _missing(matter)
    if missing:
        foot.append(f"not seen: {escaped('; '.join(missing[:MAX_MISSING]), limit=SHORT)}")
    taken = [mark for mark in matter.marks if mark.what == ACKNOWLEDGED]
    foot += [f"acknowledged by {escaped(taken[-1].by, limit=80)}"] if taken else []
    wrong = [mark for mark in matter.marks if mark.what == WRONG]
    foot += [f"{escaped(wrong[-1].by, limit=80)} says it is wrong"] if wrong else []
    if matter.muted_until_s is not None and matter.incident.status == "open":
        foot.append(f"muted until {_clock(matter.muted_until_s)}")
    if matter.link:
        foot.append(f"<{matter.link}|open in Argus>")
    return foot


def _made_by(matter: Matter) -> str:
    confidence = matter.diagnosis.get("confidence")
    sure = f", confidence {confidence:.2f}" if isinstance(confidence, int | float) else ""
    if matter.outcome is None:
        return f"deterministic triage, no language model{sure}"
    agent = matter.outcome.get("agent") or {}
    stage = "the agent" if matter.outcome.get("stage") == "agent" else "the triage, checked by the agent"
    return f"{stage}{sure}; {escaped(agent.get('note', ''), limit=SHORT)}"


def _headline(matter: Matter) -> str:
    return escaped(_plain_headline(matter), limit=SHORT)


def _plain_headline(matter: Matter) -> str:
    cause = matter.incident.cause
    return str(matter.diagnosis.get("headline") or f"{cause.fault_class} at {cause.scope}")


def _fallback(matter: Matter) -> str:
    incident = matter.incident
    state = "resolved" if incident.status != "open" else incident.severity
    return f"{state}: {escaped(matter.run, limit=120)}: {_headline(matter)}"[:MAX_TEXT]


def _clock(time_s: float) -> str:
    return f"{datetime.fromtimestamp(time_s, tz=UTC):%d %b %H:%M} UTC"


def _section(text: str) -> Block:
    return {"type": "section", "text": _mrkdwn(text)}


def _mrkdwn(text: str) -> Block:
    return {"type": "mrkdwn", "text": text or " ", "verbatim": True}


def _optional(text: str) -> list[Block]:
    return [_section(text)] if text else []


def _context(texts: Sequence[str]) -> Block:
    return {"type": "context", "elements": [_mrkdwn(text) for text in texts]}


def _buttons(matter: Matter) -> Block:
    return {
        "type": "actions",
        "block_id": "argus_incident",
        "elements": [
            {
                "type": "button",
                "action_id": action,
                "text": {"type": "plain_text", "text": label, "emoji": False},
                "value": matter.incident.id,
            }
            for action, label in BUTTONS
        ],
    }


def _paragraphs(title: str, lines: Sequence[str]) -> list[Block]:
    """Lines as sections of at most 2,900 characters, each whole line in one."""
    if not lines:
        return []
    texts, held = [], title
    for line in lines:
        if len(held) + len(line) + 1 > 2900 and held:
            texts.append(held)
            held = line
        else:
            held = f"{held}\n{line}" if held else line
    return [_section(text) for text in [*texts, held]]
