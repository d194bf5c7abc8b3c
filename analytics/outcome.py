"""What became of an incident: what somebody says was done and whether it helped, and what the records show by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from argus.analytics.incident import Incident
from argus.analytics.lifecycle import ALL_EXITED, RUN_OVER, SIGNAL_GONE, STEPS_GO_ON

HELPED, DID_NOT_HELP, UNCLEAR, WRONG, RIGHT = "helped", "did_not_help", "unclear", "wrong", "right"
RESULTS = (HELPED, DID_NOT_HELP, UNCLEAR)
"""What somebody may say of what was done; `wrong` and `right` are said of the incident itself."""

GONE = "gone"
"""What is seen where it is no longer there: whether what was done was the reason, nobody sees."""

SAID, SEEN = "said", "seen"
"""Where an outcome comes from: a person, or the records of what followed."""

ITSELF = "argus"
"""Whom what is seen comes from."""

RESTART, HOST_LEFT = "a restart", "its host left the job"
"""What was done, as far as records show it."""

ATTEMPT_OVER = "the attempt is over"
"""How the reason of an incident begins that was open when its attempt ended."""

CALM_WINDOWS = 12
"""Analysed windows of a later attempt without the incident before it counts as gone: a lasting fault is told within
three, and four times that is not one lucky stretch."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """`did` is what was done, in words, "" if nothing is known of it; `action` its id where it is one of the
    catalogue; `text` says more.
    """

    incident_id: str
    at_s: float
    source: str
    did: str
    result: str
    by: str
    action: str = ""
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Outcome:
        """Inverse of `to_json`."""
        return Outcome(**raw)


@dataclass(frozen=True, kw_only=True)
class Follower:
    """A later attempt of the incident's job: how far it was looked at, whether a suspect's host takes part, and
    whether the incident is there again."""

    attempt: int
    begun_s: float
    windows: int
    has_hosts: bool
    is_again: bool


def ended_with_attempt(incident: Incident) -> bool:
    """Whether it was there until its attempt ended, so that only a later one can tell what became of it."""
    return incident.ended in (ALL_EXITED, RUN_OVER) or incident.ended.startswith(ATTEMPT_OVER)


def seen_in_attempt(incident: Incident, *, at_s: float, came_back: bool) -> Outcome | None:
    """What its own attempt shows: that the signal went while the job ran on; None if it does not show that."""
    if incident.status == "open" or incident.ended not in (SIGNAL_GONE, STEPS_GO_ON):
        return None
    windows = incident.last_window - incident.opened_window + 1
    spell = "1 window" if windows == 1 else f"{windows:,} windows"
    return Outcome(
        incident_id=incident.id,
        at_s=at_s,
        source=SEEN,
        did="",
        result=GONE,
        by=ITSELF,
        text=f"by itself after {spell}{', back later in the attempt' if came_back else ''}",
    )


def seen_in_follower(incident: Incident, later: Follower) -> Outcome | None:
    """What a later attempt shows of an incident that its own attempt ended with; None while it is too young."""
    if not ended_with_attempt(incident) or not (later.is_again or later.windows >= CALM_WINDOWS):
        return None
    if later.is_again:
        text = f"there again in attempt {later.attempt}"
    else:
        text = f"in {later.windows:,} windows of attempt {later.attempt}"
    return Outcome(
        incident_id=incident.id,
        at_s=later.begun_s,
        source=SEEN,
        did=RESTART if later.has_hosts else HOST_LEFT,
        result=DID_NOT_HELP if later.is_again else GONE,
        by=ITSELF,
        text=text,
    )
