"""What earlier incidents of the class tell: how often the same hardware had it, and what helped then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from argus.agent.facts import Facts
from argus.agent.similar import Likeness, similar_to
from argus.agent.wording import counted
from argus.analytics.incident import Incident
from argus.analytics.lifecycle import NAMED_BETTER
from argus.analytics.outcome import DID_NOT_HELP, GONE, HELPED, WRONG, Outcome
from argus.collectors.records.text import tame
from argus.topology.facts import kind_of_id

DAYS = 30
DAY_S = 86_400.0
"""A month: what was longer ago was other hardware, other software, other people."""

MAX_LOOKED_AT = 20
"""Past incidents whose outcomes are looked up: the latest, on the same hardware first."""

MAX_DID, MAX_THINGS = 80, 3

PATHS = ("group", "link", "nic", "leaf", "rail", "spine")
EVERYWHERE = ("run", "stage")
"""Scopes that are no piece of hardware: the same place is the same of them in the same run."""


@dataclass(frozen=True, kw_only=True)
class Past:
    """Earlier incidents of the class at one place.

    `helped` is what people say did, `gone_after` what it was seen to be gone after, `did_not_help` both. `by_itself` =
    how many went while the job ran on, `wrong` = how many people called wrong. `text` is all of it in a sentence.
    """

    where: str
    times: int
    days: int
    helped: tuple[str, ...] = ()
    gone_after: tuple[str, ...] = ()
    did_not_help: tuple[str, ...] = ()
    by_itself: int = 0
    wrong: int = 0
    incidents: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """For a card."""
        parts = [f"{self.where}: {counted(self.times, 'times')} in {self.days} days"]
        parts += [f"what helped: {', '.join(self.helped)}"] if self.helped else []
        parts += [f"gone after: {', '.join(self.gone_after)}"] if self.gone_after else []
        parts += [f"did not help: {', '.join(self.did_not_help)}"] if self.did_not_help else []
        parts += [f"gone by itself: {counted(self.by_itself, 'times')}"] if self.by_itself else []
        parts += [f"{self.wrong} said to be wrong"] if self.wrong else []
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        } | {"text": self.text}


def past_of(mine: Incident, facts: Facts, *, now_s: float) -> tuple[Past, ...]:
    """Of the same hardware, then of elsewhere if anything is known to have helped there or not."""
    before = facts.past(mine.cause.fault_class, since_s=now_s - DAYS * DAY_S)
    likes = [
        one
        for one in similar_to(mine, before, units=facts.units_of)
        if one.incident.ended != NAMED_BETTER and (one.run, one.incident.attempt) != _job(mine)
    ]
    where = _where(mine, likes)
    here = [one for one in likes if where and where[1] <= set(one.same)]
    there = [one for one in likes if not where or not where[1] <= set(one.same)]
    looked = [one.incident for one in (*here, *there)[:MAX_LOOKED_AT]]
    became = facts.outcomes(looked) if looked else {}
    found = [_past(where[0], here, became)] if where and here else []
    elsewhere = _past("elsewhere", there, became)
    if elsewhere.helped or elsewhere.gone_after or elsewhere.did_not_help:
        found.append(elsewhere)
    return tuple(found)


def _job(incident: Incident) -> tuple[str, int]:
    """What comes and goes in one attempt is one story, which the incident tells itself."""
    return incident.run, incident.attempt


def _where(mine: Incident, likes: Sequence[Likeness]) -> tuple[str, set[str]] | None:
    """The closest place that any of them shares, in words and as similarity names it."""
    kind = kind_of_id(mine.cause.scope)
    if kind in EVERYWHERE:
        places = [("the same run", {"run"})]
    elif kind in PATHS:
        places = [("the same path in this run", {"run", "group"})]
    else:
        places = [("the same GPU", {"gpu"}), ("the same host", {"host"})]
    return next((place for place in places if any(place[1] <= set(one.same) for one in likes)), None)


def _past(where: str, likes: Sequence[Likeness], became: Mapping[str, Sequence[Outcome]]) -> Past:
    told = [outcome for one in likes for outcome in became.get(one.incident.id, ())]
    wrong = {outcome.incident_id for outcome in told if outcome.result == WRONG}
    return Past(
        where=where,
        times=len(likes),
        days=DAYS,
        helped=_things(told, HELPED),
        gone_after=_things(told, GONE),
        did_not_help=_things(told, DID_NOT_HELP),
        by_itself=sum(outcome.result == GONE and not outcome.did for outcome in told),
        wrong=len(wrong),
        incidents=tuple(one.incident.id for one in likes[:MAX_LOOKED_AT]),
    )


def _things(told: Sequence[Outcome], result: str) -> tuple[str, ...]:
    """What was done with this result, most often first, with how often if more than once."""
    named = Counter(tame(one.did, MAX_DID) for one in told if one.result == result and one.did)
    return tuple(
        text if number == 1 else f"{text} ({number}×)" for text, number in named.most_common(MAX_THINGS)
    )
