"""What tools may read: protocols that a database, a recording or a test provides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.topology.fleet import Fleet


@dataclass(frozen=True, kw_only=True)
class WindowFact:
    """One analysed window and what of it arrived; `analysed_s` is Unix time."""

    index: int
    first_step: int
    num_steps: int
    analysed_s: float | None
    coverage_ratio: float
    missing_ranks: tuple[int, ...]
    unseen: tuple[str, ...] = ()

    @property
    def last_step(self) -> int:
        """The last step in it."""
        return self.first_step + self.num_steps - 1


class RunFacts(Protocol):
    """One attempt of one run."""

    @property
    def run(self) -> str:
        """Name of the run."""

    @property
    def attempt(self) -> int:
        """Number of the attempt."""

    def fleet(self) -> Fleet | None:
        """Its graph; None while no layout is known."""

    def windows(self, *, limit: int) -> Sequence[WindowFact]:
        """Its last analysed windows, the latest first."""

    def findings(self, *, since_window: int | None = None) -> Sequence[Finding]:
        """Its findings from a window on, those of the latest window first."""


class Facts(Protocol):
    """Everything that was observed. Nothing here changes anything."""

    def runs(self) -> Sequence[str]:
        """Names of runs, the one heard of last first."""

    def run(self, name: str, *, attempt: int | None = None) -> RunFacts | None:
        """An attempt of a run, the latest if none is named; None if there is none."""

    def finding(self, finding_id: str) -> Finding | None:
        """A finding by id."""

    def incident(self, incident_id: str) -> Incident | None:
        """An incident by id."""

    def incidents(self, *, run: str | None = None) -> Sequence[Incident]:
        """Incidents, open ones first, then the latest."""
