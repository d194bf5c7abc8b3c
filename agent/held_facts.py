"""Facts held in memory: what a recording was triaged into, or what a test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from argus.agent.facts import RunFacts, WindowFact
from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.window import Window
from argus.topology.fleet import Fleet, build_fleet
from argus.topology.layout import Topology


@dataclass(frozen=True, kw_only=True)
class HeldRun:
    """One attempt: its windows oldest first and what was found in them."""

    topology: Topology
    windows_held: tuple[Window, ...] = ()
    findings_held: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] = ()
    graph: Fleet | None = None

    @property
    def run(self) -> str:
        """Name of the run."""
        return self.topology.run

    @property
    def attempt(self) -> int:
        """Number of the attempt."""
        return self.topology.attempt

    def fleet(self) -> Fleet:
        """Its graph."""
        return self.graph or self._derived

    @cached_property
    def _derived(self) -> Fleet:
        return build_fleet(topology=self.topology)

    def windows(self, *, limit: int) -> Sequence[WindowFact]:
        """Its last windows, the latest first."""
        return tuple(_fact(window) for window in self.windows_held[: -limit - 1 : -1])

    def findings(self, *, since_window: int | None = None) -> Sequence[Finding]:
        """Its findings from a window on, those of the latest window first."""
        wanted = [one for one in self.findings_held if since_window is None or one.window >= since_window]
        return tuple(sorted(wanted, key=lambda one: -one.window))


@dataclass(frozen=True, kw_only=True)
class HeldFacts:
    """Runs held in memory, the latest first."""

    held: tuple[HeldRun, ...] = field(default=())

    def runs(self) -> Sequence[str]:
        """Names of runs, the one heard of last first."""
        return tuple(dict.fromkeys(one.run for one in self.held))

    def run(self, name: str, *, attempt: int | None = None) -> RunFacts | None:
        """An attempt of a run, the latest if none is named; None if there is none."""
        return next(
            (one for one in self.held if one.run == name and attempt in (None, one.attempt)),
            None,
        )

    def finding(self, finding_id: str) -> Finding | None:
        """A finding by id."""
        return next((f for one in self.held for f in one.findings_held if f.id == finding_id), None)

    def incident(self, incident_id: str) -> Incident | None:
        """An incident by id."""
        return next((i for i in self.incidents() if i.id == incident_id), None)

    def incidents(self, *, run: str | None = None) -> Sequence[Incident]:
        """Incidents, open ones first, then the latest."""
        found = [i for one in self.held if run in (None, one.run) for i in one.incidents]
        return tuple(sorted(found, key=lambda i: (i.status != "open", -i.last_window, i.id)))


def _fact(window: Window) -> WindowFact:
    return WindowFact(
        index=window.index,
        first_step=window.first_step,
        num_steps=window.num_steps,
        analysed_s=None,
        coverage_ratio=window.coverage.ratio,
        missing_ranks=window.coverage.missing_ranks,
        unseen=window.coverage.unseen,
    )
