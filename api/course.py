"""What the service asks of the analysis, as functions it is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
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
    ) -> Advanced[S]:
        """The next state with what it brought."""


class Diagnose(Protocol):
    """The deterministic triage: `agent.triage.diagnose`."""

    def __call__(
        self, incident: Incident, *, findings: Sequence[Finding], topology: Topology
    ) -> dict[str, Any]:
        """The diagnosis of an incident as JSON-ready dict."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one look brought, and the attempt's course from there."""

    course: Course
    findings: Sequence[Finding]
    incidents: Sequence[Incident]


class Course(Protocol):
    """An attempt so far; to look at it changes nothing, it gives a new course."""

    def __call__(
        self, *, topology: Topology, now_s: float, window: Window | None, beats: Sequence[Heartbeat]
    ) -> Look:
        """Look at the next window, or between windows at the heartbeats."""


class Begin(Protocol):
    """Makes the course of an attempt nothing is known of yet."""

    def __call__(self, run: str, attempt: int) -> Course:
        """The course before the first window."""


def follow(state: S, advance: Advance[S]) -> Course:
    """The course whose state so far is `state`."""

    def look(*, topology: Topology, now_s: float, window: Window | None, beats: Sequence[Heartbeat]) -> Look:
        done = advance(state, topology=topology, now_s=now_s, window=window, beats=beats)
        return Look(
            course=follow(done.state, advance), findings=tuple(done.findings), incidents=tuple(done.incidents)
        )

    return look
