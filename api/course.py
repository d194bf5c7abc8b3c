"""What the service asks of the analysis, as functions it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from argus.analytics.eras import Eras
from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.outside import NOTHING, Outside
from argus.analytics.recurrence import Bout
from argus.analytics.window import Window
from argus.collectors.records.heartbeat import Heartbeat
from argus.topology.layout import Topology

S = TypeVar("S")
Out_co = TypeVar("Out_co", covariant=True)


class Advanced(Protocol[Out_co]):
    """What `advance` returns."""

    @property
    def state(self) -> Out_co:
        """The attempt after it."""

    @property
    def findings(self) -> Sequence[Finding]:
        """What was found in this look."""

    @property
    def incidents(self) -> Sequence[Incident]:
        """Incidents that changed in it."""

    @property
    def bouts(self) -> Sequence[Bout]:
        """Stretches of bad windows that began or grew in it."""


class Advance(Protocol[S]):
    """One look at an attempt, pure: `analytics.attempt.advance`."""

    def __call__(
        self,
        state: S,
        *,
        topology: Topology,
        now_s: float,
        window: Window | None = None,
        beats: Sequence[Heartbeat] = (),
        outside: Outside = NOTHING,
    ) -> Advanced[S]:
        """The next state with what it brought."""


class Restore(Protocol[S]):
    """Puts into a state what no window shows again: its open incidents, the last day's bouts of its ranks, and what
    its windows of long ago say."""

    def __call__(
        self, state: S, incidents: Sequence[Incident], bouts: Sequence[Bout], eras: Eras | None = None
    ) -> S:
        """The state whose incidents are `incidents` and whose bouts are `bouts`; its eras as they are if None."""


class Diagnose(Protocol):
    """The deterministic triage: `agent.triage.diagnose`."""

    def __call__(
        self,
        incident: Incident,
        *,
        findings: Sequence[Finding],
        topology: Topology,
        missing: Sequence[str] = (),
    ) -> dict[str, Any]:
        """The diagnosis of an incident as JSON-ready dict; `missing` says what evidence there was not."""


class Render(Protocol):
    """The card of an incident as text: `agent.card.render`."""

    def __call__(
        self, incident: Incident, diagnosis: Mapping[str, Any], *, topology: Topology | None = None
    ) -> str:
        """The card; `topology` adds host and device."""


class Course(Protocol):
    """An attempt so far; to look at it changes nothing, it gives a new course."""

    def look(
        self,
        *,
        topology: Topology,
        now_s: float,
        window: Window | None,
        beats: Sequence[Heartbeat],
        outside: Outside = NOTHING,
    ) -> Look:
        """Look at the next window, or between windows at the heartbeats."""

    def restored(
        self, incidents: Sequence[Incident], bouts: Sequence[Bout] = (), eras: Eras | None = None
    ) -> Course:
        """The same course with these incidents open and no others, these bouts remembered, and these eras if any."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one look brought, and the attempt's course from there."""

    course: Course
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]
    bouts: tuple[Bout, ...] = ()


class Begin(Protocol):
    """Makes the course of an attempt nothing is known of yet."""

    def __call__(self, run: str, attempt: int, *, launch: int = 0) -> Course:
        """The course before the first window; `launch` is that of its findings and incidents."""


@dataclass(frozen=True, kw_only=True)
class Analyses:
    """The analysis as the service is given it."""

    begin: Begin
    diagnose: Diagnose
    render: Render


@dataclass(frozen=True, kw_only=True)
class Following(Generic[S]):
    """The course whose state so far is `state`."""

    state: S
    advance: Advance[S]
    restore: Restore[S]

    def look(
        self,
        *,
        topology: Topology,
        now_s: float,
        window: Window | None,
        beats: Sequence[Heartbeat],
        outside: Outside = NOTHING,
    ) -> Look:
        """See `Course.look`."""
        done = self.advance(
            self.state, topology=topology, now_s=now_s, window=window, beats=beats, outside=outside
        )
        return Look(
            course=replace(self, state=done.state),
            findings=tuple(done.findings),
            incidents=tuple(done.incidents),
            bouts=tuple(done.bouts),
        )

    def restored(
        self, incidents: Sequence[Incident], bouts: Sequence[Bout] = (), eras: Eras | None = None
    ) -> Course:
        """See `Course.restored`."""
        return replace(self, state=self.restore(self.state, incidents, bouts, eras))
