"""What people do in Slack: press buttons, ask in a thread; each heard once, answered in that thread."""

from __future__ import annotations

import asyncio
import hashlib
import html
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from argus.agent.answer import why_lines
from argus.agent.context import Unknown
from argus.agent.guard import question_of
from argus.agent.loop.chat import Answered
from argus.agent.loop.investigate import broke_off
from argus.agent.wording import printable
from argus.analytics.store import conversations, heard, marks, notices, silences
from argus.analytics.store.engine import Store
from argus.analytics.store.marks import ACKNOWLEDGED, WRONG, Mark
from argus.analytics.store.notices import Notice
from argus.analytics.store.queries import whole_incident
from argus.analytics.store.silences import ARGUS, Matcher, Silence
from argus.api.asking import Asking
from argus.api.memory import NoConversation
from argus.api.notify.matter import Origin
from argus.api.notify.notifier import Later, Refused
from argus.api.slack import render
from argus.api.slack.render import ACK, ASK, DETAILS, MUTE, NOT_IT
from argus.collectors.records.text import tame

if TYPE_CHECKING:
    from argus.api.slack.client import SlackClient

LOG = logging.getLogger("argus.slack")

SOURCE, THREADS = "slack", "slack_thread"
"""Under which messages heard, and the conversations of threads, are kept."""

MUTE_S = 3600.0
_MENTION = re.compile(r"<[@!#][^>]{0,80}>")

MAX_ACTIONS = 5
"""Buttons of one press that are looked at; Slack sends one."""

HINT = "Ask in this thread, in your own words: I look it up and answer here."
THANKS = (
    "Noted; the next incident like it will say so. What it was, and what helped, can be kept too: "
    'argus incident outcome {incident} --did "…" --helped yes'
)

Note = Callable[[str, str, str], None]
"""Writes (who, action, target) into the audit."""


def no_note(_who: str, _action: str, _target: str) -> None:
    """Where there is no audit."""


@dataclass(frozen=True, kw_only=True)
class Ears:
    """Of one project's channel. `asking` answers questions, `poke` has the messages brought up to date."""

    client: SlackClient
    channel: str
    store: Store
    clock: Callable[[], float]
    asking: Callable[[], Asking]
    poke: Callable[[], None]
    origin: Origin
    note: Note = no_note

    def knows_action(self, payload: Mapping[str, Any]) -> bool:
        """Whether a pressed button is of an incident here."""
        actions = payload.get("actions")
        ids = (
            [tame(_at(one, "value"), 64) for one in actions[:MAX_ACTIONS]]
            if isinstance(actions, list)
            else []
        )
        with self.store.read() as connection:
            return any(whole_incident(connection, one) is not None for one in ids)

    def knows_event(self, payload: Mapping[str, Any]) -> bool:
        """Whether a message stands in a thread of ours."""
        thread = tame(_at(payload, "event", "thread_ts") or "", 40)
        return bool(thread) and self._told_at(thread) is not None

    def hear_action(self, payload: Mapping[str, Any]) -> None:
        """Buttons pressed on a message of ours."""
        channel = str(_at(payload, "channel", "id"))
        user, who = tame(_at(payload, "user", "id"), 40), _person(payload.get("user"))
        message = payload.get("message")
        thread = str(_at(message, "thread_ts") or _at(message, "ts"))
        actions = payload.get("actions")
        if channel != self.channel or not isinstance(actions, list):
            return
        for action in actions[:MAX_ACTIONS]:
            incident, what = tame(_at(action, "value"), 64), str(_at(action, "action_id"))
            if what in ACTIONS and self._is_new(f"{what} {_at(action, 'action_ts')} {user}"):
                press = Press(incident=incident, user=user, who=who, thread=thread)
                self._do(partial(ACTIONS[what], self, press), otherwise=partial(self._excuse, press))

    def hear_event(self, payload: Mapping[str, Any]) -> None:
        """A message in a thread of ours, or one that names us."""
        event = payload.get("event")
        kind = str(_at(event, "type"))
        if not isinstance(event, Mapping) or kind not in ("message", "app_mention"):
            return
        if event.get("bot_id") or event.get("subtype") or str(event.get("channel")) != self.channel:
            return
        thread, ts = tame(event.get("thread_ts") or "", 40), tame(event.get("ts") or "", 40)
        told = self._told_at(thread) if thread else None
        if told is None and kind != "app_mention":
            return
        question = question_of(html.unescape(_MENTION.sub(" ", str(event.get("text", "")))))
        if question and self._is_new(f"said {ts}"):
            self._do(
                lambda: self._answer(question, told, thread=thread or ts),
                otherwise=lambda error: self._left(error, told, thread=thread or ts),
            )

    def details(self, press: Press) -> None:
        """The whole card, for one person."""
        with self.store.read() as connection:
            found = whole_incident(connection, press.incident)
        if found is None:
            return
        asking = self.asking()
        case = asking.case(run=None, incident=press.incident)
        text = "\n".join(why_lines(case, case.diagnosis, asking.toolbox.book))
        self.client.whisper(self.channel, press.user, render.said(text), thread=press.thread)

    def ask(self, press: Press) -> None:
        """How to ask."""
        self.client.whisper(self.channel, press.user, render.said(HINT), thread=press.thread)

    def acknowledge(self, press: Press) -> None:
        """Somebody has it."""
        if self._mark(press, ACKNOWLEDGED):
            self.poke()

    def wrong(self, press: Press) -> None:
        """Somebody says it is wrong: kept with the incident."""
        if self._mark(press, WRONG):
            self.client.whisper(
                self.channel,
                press.user,
                render.said(THANKS.format(incident=press.incident)),
                thread=press.thread,
            )
            self.poke()

    def mute(self, press: Press) -> None:
        """An hour of silence for this cause."""
        now_s = self.clock()
        with self.store.write() as connection:
            incident = whole_incident(connection, press.incident)
            if incident is None:
                return
            matcher = Matcher(name="fingerprint", value=incident.fingerprint)
            name = hashlib.sha256(f"{incident.fingerprint} {now_s // 60}".encode()).hexdigest()[:16]
            if silences.silence(connection, f"mute-{name}") is not None:
                return
            silences.add_silence(
                connection,
                Silence(
                    id=f"mute-{name}",
                    source=ARGUS,
                    matchers=(matcher,),
                    starts_s=now_s,
                    ends_s=now_s + MUTE_S,
                    by=press.who,
                    why="muted in Slack",
                ),
            )
        self.note(press.who, "slack_mute", press.incident)
        self.poke()

    def _mark(self, press: Press, what: str) -> bool:
        with self.store.write() as connection:
            if whole_incident(connection, press.incident) is None:
                return False
            mark = Mark(incident_id=press.incident, at_s=self.clock(), what=what, by=press.who)
            is_new = marks.add_mark(connection, mark)
        if is_new:
            self.note(press.who, f"slack_{what}", press.incident)
        return is_new

    def _answer(self, question: str, told: Notice | None, *, thread: str) -> None:
        """The agent's answer, in the thread; the triage's where there is none."""
        asking = self.asking()
        incident = told.incident_id if told is not None else None
        place = f"{self.channel} {thread}"
        try:
            said = asyncio.run(
                asking.turn(question, incident=incident, conversation=self._conversation(place))
            )
        except (Unknown, NoConversation) as error:
            text, note = str(error), ""
        else:
            with self.store.write() as connection:
                heard.hear(connection, THREADS, place, now_s=self.clock())
                heard.remember(connection, THREADS, place, body={"conversation": said["conversation"]})
            answer = said["answer"]
            text, note = Answered.from_json(answer).said, str(answer["note"])
            if not text:
                text = self._triage(asking, incident)
        key = f"answer {thread} {hashlib.sha256(question.encode()).hexdigest()[:12]}"
        self.client.post(self.channel, render.said(text, note=note), key=key, thread=thread)

    def _conversation(self, place: str) -> str | None:
        """The conversation of a thread; None where none is kept any more: the thread begins another."""
        with self.store.read() as connection:
            before = (heard.recalled(connection, THREADS, place) or {}).get("conversation")
            is_kept = before is not None and conversations.conversation(connection, before) is not None
        return before if is_kept else None

    def _left(self, error: Exception, told: Notice | None, *, thread: str) -> None:
        """The triage with one sentence, where an answer broke off."""
        try:
            text = self._triage(self.asking(), told.incident_id if told is not None else None)
        except Exception as second:
            # What broke the answer may break this, and a sentence is better than silence.
            LOG.error("the triage for a question asked in Slack broke off", exc_info=second)
            text = ""
        key = f"left {thread} {self.clock()}"
        self.client.post(self.channel, render.said(text, note=broke_off(error)), key=key, thread=thread)

    def _excuse(self, press: Press, error: Exception) -> None:
        """To who pressed a button that did nothing."""
        text = f"That did not work ({type(error).__name__}); Argus's log has the error."
        self.client.whisper(self.channel, press.user, render.said(text), thread=press.thread)

    def _triage(self, asking: Asking, incident: str | None) -> str:
        case = asking.case(run=None, incident=incident)
        return "\n".join(why_lines(case, case.diagnosis, asking.toolbox.book))

    def _told_at(self, ts: str) -> Notice | None:
        """The notice whose message that is."""
        with self.store.read() as connection:
            told = notices.notices(connection, notifier=SOURCE)
        return next((one for one in told if one.held.get("ts") == ts and one.incident_id), None)

    def _is_new(self, key: str) -> bool:
        """Slack tells again what was not acknowledged in time."""
        with self.store.write() as connection:
            return heard.hear(connection, SOURCE, tame(key, 128), now_s=self.clock())

    def _do(self, act: Callable[[], None], *, otherwise: Callable[[Exception], None] | None = None) -> None:
        """Act; `otherwise` tells who asked of an error that nobody foresaw: Slack does not ask again."""
        try:
            act()
        except (Later, Refused) as error:
            LOG.error("an answer did not reach Slack: %s", printable(str(error)))
        except Unknown as error:
            LOG.warning("asked in Slack about what is not known: %s", printable(str(error)))
        except Exception as error:
            LOG.error("what was asked in Slack broke off", exc_info=error)
            if otherwise is not None:
                self._do(partial(otherwise, error))


@dataclass(frozen=True, kw_only=True)
class Press:
    """A button pressed: on which incident, by whom, in which thread."""

    incident: str
    user: str
    who: str
    thread: str


ACTIONS: Mapping[str, Callable[[Ears, Press], None]] = {
    DETAILS: Ears.details,
    ASK: Ears.ask,
    ACK: Ears.acknowledge,
    MUTE: Ears.mute,
    NOT_IT: Ears.wrong,
}


def _person(user: object) -> str:
    """How a person is called; without markup, since it is shown to others."""
    found = _at(user, "name") or _at(user, "username") or _at(user, "id")
    return tame(found, 80) or "somebody"


def _at(document: object, *keys: str) -> Any:
    """A member of nested objects that others sent, "" where there is none."""
    here = document
    for key in keys:
        here = here.get(key, "") if isinstance(here, Mapping) else ""
    return here
