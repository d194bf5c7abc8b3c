"""What a tool is given besides its arguments, and how it finds the run it is asked about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from argus.agent.evidence import AsOf, EvidenceBook, Json, MemoryBook
from argus.agent.facts import Facts, RunFacts, WindowFact
from argus.analytics.incident import Incident
from argus.analytics.numbers import WindowNumbers
from argus.topology.fleet import Fleet
from argus.topology.names import close_names


class Unknown(LookupError):
    """What was asked for is not there; `close` are names that resemble it."""

    def __init__(self, message: str, *, close: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.close = tuple(close)


class Denied(Exception):
    """An effect that is not to be had now; the message says why."""


Capture = Callable[[str, int, Sequence[int], int], Json]
"""Asks the processors for the raw records of (run, attempt, ranks, last windows) and says what was asked of
whom; it does not wait for them. Raises Denied."""


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """The facts, the book where results go, run, attempt and window in question, and what the caller may do."""

    facts: Facts
    book: EvidenceBook = field(default_factory=MemoryBook)
    run: str | None = None
    attempt: int | None = None
    window: int | None = None
    scopes: frozenset[str] = frozenset({"read"})
    capture: Capture | None = None

    def of_run(self, name: str | None) -> RunFacts:
        """The run named, else the one in question, else the one heard of last. Raises Unknown.

        `NAME#2` is attempt 2 of a run; without a number it is the attempt in question, else the latest.
        """
        known = self.facts.runs()
        asked = name or self.run or next(iter(known), None)
        if asked is None:
            raise Unknown("no run is known yet")
        attempt = self.attempt if asked == self.run else None
        found = self.facts.run(asked, attempt=attempt)
        head, _, number = asked.rpartition("#")
        if found is None and head and number.isdecimal() and len(number) < 10:
            found = self.facts.run(head, attempt=int(number))
        if found is None:
            close = close_names(head or asked, known) or tuple(known[:5])
            raise Unknown(f"no run {asked[:80]!r}; known are {len(known)}", close=close)
        return found

    def window_in_question(self, facts: RunFacts) -> int | None:
        """The window in question, if it is one of this attempt."""
        is_here = facts.run == self.run and self.attempt in (None, facts.attempt)
        return self.window if is_here else None


def fleet_of(facts: RunFacts) -> Fleet:
    """The run's graph. Raises Unknown while there is none."""
    fleet = facts.fleet()
    if fleet is None:
        raise Unknown(f"no layout of run {facts.run!r} came in yet: its ranks, hosts and groups are unknown")
    return fleet


def incident_of(context: ToolContext, incident_id: str) -> Incident:
    """An incident by id. Raises Unknown."""
    found = context.facts.incident(incident_id)
    if found is None:
        known = [one.id for one in context.facts.incidents(run=context.run)]
        close = close_names(incident_id, known) or tuple(known[:3])
        raise Unknown(f"no incident {incident_id[:80]!r}; known are {len(known)}", close=close)
    return found


def window_of(context: ToolContext, facts: RunFacts, index: int | None) -> WindowFact:
    """The window asked for; else the one in question or the last before it; else the latest. Raises Unknown."""
    upto = context.window_in_question(facts) if index is None else index
    found = next(iter(facts.windows(limit=1, upto=upto)), None)
    if found is not None and index in (None, found.index):
        return found
    latest = next(iter(facts.windows(limit=1)), None)
    if latest is None:
        raise Unknown(f"no window of run {facts.run!r} is analysed yet")
    if index is None:
        return latest
    near = {str(one.index) for one in (found, latest) if one is not None}
    raise Unknown(f"no analysed window {index}; the latest is {latest.index}", close=sorted(near))


def numbers_of(facts: RunFacts, window: WindowFact) -> WindowNumbers:
    """What each rank took in a window. Raises Unknown where it is no longer kept."""
    numbers = facts.numbers(window.index)
    if numbers is None:
        raise Unknown(f"the numbers of window {window.index} are not kept any more")
    return numbers


def as_of(facts: RunFacts, window: WindowFact | None = None) -> AsOf:
    """The moment of a window of a run; of its latest where none is given."""
    if window is None:
        window = next(iter(facts.windows(limit=1)), None)
    if window is None:
        return AsOf(run=facts.run, attempt=facts.attempt)
    return AsOf(
        run=facts.run,
        attempt=facts.attempt,
        window=window.index,
        step=window.last_step,
        time_s=window.analysed_s,
    )
