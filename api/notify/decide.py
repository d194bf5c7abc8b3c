"""What a notifier has to do about a matter now: a pure function of what is and what was told."""

from __future__ import annotations

from dataclasses import dataclass

from argus.analytics.incident import SEVERITIES
from argus.analytics.store.notices import DIGESTED, FOR, NEW, Notice
from argus.api.notify.matter import Matter, is_at_least

OPENED, CHANGED, WORSE, AGAIN, RESOLVED, REPEATED = (
    "opened",
    "changed",
    "worse",
    "reopened",
    "resolved",
    "repeated",
)
"""News: the first message, an edit, an edit that must be seen, a cause that came back, the end, a reminder."""

OVERFLOW = "overflow"
"""Too many messages lately: it stands in a digest instead."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What one notifier wants to hear.

    A cause that comes back within `cooldown_s` of its last message goes on in that message. `repeat_s` > 0: what is
    open is told again so often, for receivers that forget.
    """

    floor: str = "warning"
    cooldown_s: float = 1800.0
    repeat_s: float = 0.0


def decide(
    matter: Matter, told: Notice | None, rules: Rules, *, is_silent: bool, has_room: bool, now_s: float
) -> str:
    """The news to tell, OVERFLOW, or "" for nothing."""
    if told is not None and _is_left_open(matter, told):
        return RESOLVED
    if told is None or told.status == NEW:
        return _first(matter, rules, is_silent=is_silent, has_room=has_room)
    if told.incident_id != matter.incident.id:
        return _back(matter, told, rules, is_silent=is_silent, has_room=has_room, now_s=now_s)
    if told.status == DIGESTED:
        is_worse = _is_worse(matter, told) and is_at_least(matter.incident.severity, rules.floor)
        may = is_worse and matter.incident.status == "open" and not is_silent and has_room
        return OPENED if may else ""
    return _on(matter, told, rules, now_s=now_s)


def _is_left_open(matter: Matter, told: Notice) -> bool:
    """A message that may have gone out says that it goes on, and it is over."""
    is_this = told.held.get(FOR) == matter.incident.id
    return told.is_doubtful and is_this and matter.incident.status != "open"


def _first(matter: Matter, rules: Rules, *, is_silent: bool, has_room: bool) -> str:
    """Nothing was told yet: what healed by itself or is below the floor is for the daily digest."""
    incident = matter.incident
    if incident.status != "open" or is_silent or not is_at_least(incident.severity, rules.floor):
        return ""
    return OPENED if has_room else OVERFLOW


def _back(
    matter: Matter, told: Notice, rules: Rules, *, is_silent: bool, has_room: bool, now_s: float
) -> str:
    """The cause is back as a new incident."""
    first = _first(matter, rules, is_silent=is_silent, has_room=has_room)
    last_s = told.posted_s if told.posted_s is not None else told.delivered_s
    if not first or now_s - max(last_s, told.delivered_s) >= rules.cooldown_s:
        return first
    return "" if told.status == DIGESTED else AGAIN


def _on(matter: Matter, told: Notice, rules: Rules, *, now_s: float) -> str:
    """The incident that was told of goes on."""
    is_open = matter.incident.status == "open"
    if told.told == matter.told:
        is_fresh = 0 <= now_s - told.delivered_s < rules.repeat_s  # not if the clock was put back
        return REPEATED if rules.repeat_s > 0 and is_open and not is_fresh else ""
    if not is_open:
        return "" if told.is_final else RESOLVED
    if told.is_final:
        return AGAIN
    return WORSE if _is_worse(matter, told) else CHANGED


def _is_worse(matter: Matter, told: Notice) -> bool:
    known = told.severity if told.severity in SEVERITIES else SEVERITIES[-1]
    return SEVERITIES.index(matter.incident.severity) < SEVERITIES.index(known)
