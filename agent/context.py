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
    """The facts, the book where results go, the run and window in question, and what the caller may do."""

    facts: Facts
    book: EvidenceBook = field(default_factory=MemoryBook)
    run: str | None = None
    window: int | None = None
    scopes: frozenset[str] = frozenset({"read"})
    capture: Capture | None = None

    def of_run(self, name: str | None) -> RunFacts:
        """The run named, else the run in question, else the one heard of last. Raises Unknown."""
        asked = name or self.run
        if asked is None:
            known = self.facts.runs()
            if not known:
                raise Unknown("no run is known yet")
            asked = known[0]
        found = self.facts.run(asked)
        if found is None:
            known = self.facts.runs()
            close = close_names(asked, known) or tuple(known[:5])
            raise Unknown(f"no run {asked[:80]!r}; {len(known)} runs are known", close=close)
        return found


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
        raise Unknown(f"no incident {incident_id[:80]!r}; {len(known)} are known", close=close)
    return found


def window_of(context: ToolContext, facts: RunFacts, index: int | None) -> WindowFact:
    """The window asked for, else the one in question, else the latest. Raises Unknown."""
    known = facts.windows(limit=MAX_WINDOWS)
    if not known:
        raise Unknown(f"no window of run {facts.run!r} is analysed yet")
    if index is None and facts.run == context.run:
        index = context.window
    if index is None:
        return known[0]
    found = next((one for one in known if one.index == index), None)
    if found is None:
        near = sorted(known, key=lambda one: abs(one.index - index))
        said = f"no analysed window {index}; there are {known[-1].index}–{known[0].index}"
        raise Unknown(said, close=tuple(str(one.index) for one in near[:3]))
    return found


MAX_WINDOWS = 200
"""Windows looked back upon: at 10–60 s each an hour and more."""


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
