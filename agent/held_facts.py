"""Facts held in memory: what a recording was triaged into, or what a test says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from argus.agent.facts import PastIncident, RunFacts, StepPoint, UnitHistory, WindowFact
from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.kernels.table import KernelTable, open_table
from argus.analytics.numbers import WindowNumbers, apart, window_numbers
from argus.analytics.outcome import Outcome
from argus.analytics.recorded_steps import Numbers
from argus.analytics.run_facts import RunFacts as Compared
from argus.analytics.whatif.shares import Replayer
from argus.analytics.window import Window
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.stacks import StackDump
from argus.topology.fleet import Fleet, build_fleet
from argus.topology.layout import Topology


@dataclass(frozen=True, kw_only=True)
class HeldRun:
    """One attempt: its windows oldest first, what was found in them and what else was seen; None = not kept.

    The windows count the steps without holes; `steps` tells the ranks' own numbers, None where they are those.
    """

    topology: Topology
    windows_held: tuple[Window, ...] = ()
    steps: Numbers | None = None
    findings_held: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] = ()
    graph: Fleet | None = None
    dumps: tuple[StackDump, ...] | None = None
    host_samples: Mapping[str, HostSample] | None = None
    told: tuple[OutsideEvent, ...] | None = None
    heard: tuple[Heartbeat, ...] | None = None
    profile: Compared | None = None
    replay: Replayer | None = None

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

    def windows(self, *, limit: int, upto: int | None = None) -> Sequence[WindowFact]:
        """Its last windows, none beyond `upto`, the latest first."""
        return tuple(self._fact(window) for window in self._until(upto)[: -limit - 1 : -1])

    def _until(self, upto: int | None) -> tuple[Window, ...]:
        return tuple(one for one in self.windows_held if upto is None or one.index <= upto)

    def findings(self, *, since: int | None = None, upto: int | None = None) -> Sequence[Finding]:
        """Its findings of windows `since` … `upto`, those of the latest window first."""
        low, high = -math.inf if since is None else since, math.inf if upto is None else upto
        wanted = [one for one in self.findings_held if low <= one.window <= high]
        return tuple(sorted(wanted, key=lambda one: -one.window))

    def _held(self, window: int) -> Window | None:
        return next((one for one in self.windows_held if one.index == window), None)

    def numbers(self, window: int) -> WindowNumbers | None:
        """Per rank and phase what a window took."""
        found = self._held(window)
        return None if found is None else window_numbers(found)

    def step_times(
        self, *, ranks: Sequence[int], limit: int, upto: int | None = None, since_step: int | None = None
    ) -> Sequence[StepPoint]:
        """Step times of the last windows, none beyond `upto`, oldest first; further apart where they are to reach back to
        before `since_step`."""
        return tuple(
            replace(_point(window, ranks), first_step=self._step(window.first_step))
            for window in self._spread(self._until(upto), limit=limit, since_step=since_step)
        )

    def _spread(self, windows: Sequence[Window], *, limit: int, since_step: int | None) -> Sequence[Window]:
        """The last windows, with some left out where they do not reach back to before a step."""
        since = [n for n, one in enumerate(windows) if self._step(one.first_step) >= (since_step or 0)]
        is_asked = since_step is not None and since
        every = apart(len(windows) - 1 - since[0], limit=limit) if is_asked else 1
        return windows[::-every][:limit][::-1]

    def _fact(self, window: Window) -> WindowFact:
        last = self._step(window.first_step + window.num_steps - 1)
        return replace(_fact(window), first_step=self._step(window.first_step), end_step=last)

    def _step(self, place: int) -> int:
        return place if self.steps is None else self.steps.of(place)

    def group_window(self, window: int, *, ranks: Sequence[int]) -> Window | None:
        """The whole window, whatever ranks are asked for."""
        return self._held(window)

    def kernels(self, window: int, *, ranks: Sequence[int]) -> KernelTable | None:
        """Kernel summaries of all ranks, whatever ranks are asked for."""
        found = self._held(window)
        if found is None or not found.kernels:
            return None
        return open_table(found.kernels, texts=found.kernel_names)

    def stacks(self, *, ranks: Sequence[int], limit: int) -> Sequence[StackDump] | None:
        """Stack dumps of ranks, of all if none is named, the latest first."""
        if self.dumps is None:
            return None
        mine = [one for one in self.dumps if not ranks or one.rank in ranks]
        return tuple(sorted(mine, key=lambda one: (-one.ts_s, one.rank))[:limit])

    def samples(self, hosts: Sequence[str]) -> Mapping[str, HostSample] | None:
        """What hosts last measured of themselves."""
        if self.host_samples is None:
            return None
        return {host: self.host_samples[host] for host in hosts if host in self.host_samples}

    def events(
        self, *, nodes: Sequence[str], since_s: float | None, limit: int
    ) -> Sequence[OutsideEvent] | None:
        """What other sources said of nodes and what they hold, of all if none is named, the latest first."""
        if self.told is None:
            return None
        named = [one for one in self.told if not nodes or {one.node, f"host:{one.host}"} & set(nodes)]
        late = [one for one in named if since_s is None or one.time_s >= since_s]
        return tuple(sorted(late, key=lambda one: -one.time_s)[:limit])

    def beats(self) -> Sequence[Heartbeat] | None:
        """The last sign of life of each of its ranks, by rank."""
        return self.heard

    def compared(self) -> Compared | None:
        """What of it can be compared with another run."""
        return self.profile

    def replayer(self) -> Replayer | None:
        """The replay of its pipeline, where its operations are recorded."""
        return self.replay


@dataclass(frozen=True, kw_only=True)
class HeldFacts:
    """Runs held in memory, the latest first."""

    held: tuple[HeldRun, ...] = ()
    memory: UnitHistory | None = None
    became: tuple[Outcome, ...] = ()

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

    def run_of(self, incident: Incident, /) -> str:
        """The name it was recorded under: nothing that is held takes over another's."""
        return incident.run

    def incidents(self, *, run: str | None = None, fault_class: str | None = None) -> Sequence[Incident]:
        """Incidents, open ones first, then the latest."""
        mine = [i for one in self.held if run in (None, one.run) for i in one.incidents]
        found = [i for i in mine if fault_class in (None, i.cause.fault_class)]
        return tuple(sorted(found, key=lambda i: (i.status != "open", -i.last_window, i.id)))

    def past(self, fault_class: str, *, since_s: float | None = None) -> Sequence[PastIncident]:
        """Incidents of a class; when they were opened is not kept, so all of them count."""
        return tuple(
            PastIncident(incident=one, run=one.run) for one in self.incidents(fault_class=fault_class)
        )

    def outcomes(self, incidents: Sequence[Incident], /) -> Mapping[str, tuple[Outcome, ...]]:
        """What became of incidents, by id."""
        ids = [one.id for one in incidents]
        return {key: mine for key in ids if (mine := self._became(key))}

    def _became(self, incident_id: str) -> tuple[Outcome, ...]:
        return tuple(one for one in self.became if one.incident_id == incident_id)

    def units_of(self, run: str, attempt: int, ranks: Sequence[int], /) -> Mapping[int, tuple[str, str]]:
        """Host and device of ranks of an attempt."""
        found = self.run(run, attempt=attempt)
        fleet = None if found is None else found.fleet()
        if fleet is None:
            return {}
        topology = fleet.topology
        return {rank: (topology.host_of(rank), topology.devices.get(rank, "")) for rank in ranks}

    def hosts(self) -> Sequence[str]:
        """The hosts of all its runs, and those remembered."""
        seen = {one.topology.host_of(rank) for one in self.held for rank in one.topology.ranks}
        if self.memory is not None:
            seen |= {day.host for day in self.memory.days} | {bout.host for bout in self.memory.bouts}
        return tuple(sorted(seen))

    def history(self, *, host: str | None, device: str | None) -> UnitHistory | None:
        """None unless it was given: a recording remembers nothing of other runs."""
        return self.memory


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


def _point(window: Window, ranks: Sequence[int]) -> StepPoint:
    numbers = window_numbers(window)
    mean_s = dict(zip(numbers.ranks.tolist(), numbers.step_s.tolist(), strict=True))
    seen = numbers.job_step_s[np.isfinite(numbers.job_step_s)]
    return StepPoint(
        window=window.index,
        first_step=window.first_step,
        num_steps=window.num_steps,
        job_s=float(seen.mean()) if len(seen) else None,
        ranks_s={rank: mean_s[rank] for rank in ranks if np.isfinite(mean_s.get(rank, np.nan))},
    )
