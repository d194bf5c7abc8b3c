"""What tools may read: protocols that a database, a recording or a test provides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.kernels.table import KernelTable
from argus.analytics.numbers import WindowNumbers
from argus.analytics.outcome import Outcome
from argus.analytics.run_facts import RunFacts as Compared
from argus.analytics.whatif.shares import Replayer
from argus.analytics.window import Window
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.stacks import StackDump
from argus.topology.fleet import Fleet

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class WindowFact:
    """One analysed window and what of it arrived; `analysed_s` is Unix time, `end_step` the number of the last step
    where holes lie between those recorded."""

    index: int
    first_step: int
    num_steps: int
    analysed_s: float | None
    coverage_ratio: float
    missing_ranks: tuple[int, ...]
    unseen: tuple[str, ...] = ()
    end_step: int | None = None

    @property
    def last_step(self) -> int:
        """The last step in it."""
        return self.first_step + self.num_steps - 1 if self.end_step is None else self.end_step


@dataclass(frozen=True, kw_only=True)
class StepPoint:
    """Mean step times of one window, of the job and of some ranks; a rank that was not seen is left out."""

    window: int
    first_step: int
    num_steps: int
    job_s: float | None
    ranks_s: Mapping[int, float]


@dataclass(frozen=True, kw_only=True)
class UnitDay:
    """One day of one GPU in one phase or kind of kernel: its own time over that of ranks doing the same work."""

    host: str
    device: str
    subject: str
    day: int  # since 1970, UTC
    ratio: float
    windows: int


@dataclass(frozen=True, kw_only=True)
class BadBout:
    """Windows in a row in which a GPU was suspected, in one run; times are Unix time."""

    run: str
    host: str
    device: str
    since_s: float
    until_s: float
    windows: int


@dataclass(frozen=True, kw_only=True)
class UnitHistory:
    """What is remembered of GPUs over runs: their days, and when they were bad."""

    days: tuple[UnitDay, ...]
    bouts: tuple[BadBout, ...]


@dataclass(frozen=True, kw_only=True)
class PastIncident:
    """An incident, how its run is called by now, and when it was opened, Unix time; None where that is not kept."""

    incident: Incident
    run: str
    opened_s: float | None = None


class RunFacts(Protocol):
    """One attempt of one run. None means that this is not stored here, an empty answer that there was none."""

    @property
    def run(self) -> str:
        """Name of the run."""

    @property
    def attempt(self) -> int:
        """Number of the attempt."""

    def fleet(self) -> Fleet | None:
        """Its graph; None while no layout is known."""

    def windows(self, *, limit: int, upto: int | None = None) -> Sequence[WindowFact]:
        """Its last analysed windows, none beyond `upto`, the latest first."""

    def findings(self, *, since: int | None = None, upto: int | None = None) -> Sequence[Finding]:
        """Its findings of windows `since` … `upto`, those of the latest window first."""

    def numbers(self, window: int) -> WindowNumbers | None:
        """Per rank and phase what a window took."""

    def step_times(
        self, *, ranks: Sequence[int], limit: int, upto: int | None = None, since_step: int | None = None
    ) -> Sequence[StepPoint]:
        """Step times of the last windows, none beyond `upto`, oldest first; further apart where they are to reach back to
        before `since_step`."""

    def group_window(self, window: int, *, ranks: Sequence[int]) -> Window | None:
        """A window's records of at least these ranks, on one clock."""

    def kernels(self, window: int, *, ranks: Sequence[int]) -> KernelTable | None:
        """Kernel summaries of at least these ranks."""

    def stacks(self, *, ranks: Sequence[int], limit: int) -> Sequence[StackDump] | None:
        """Stack dumps of ranks, of all if none is named, the latest first."""

    def samples(self, hosts: Sequence[str]) -> Mapping[str, HostSample] | None:
        """What hosts last measured of themselves."""

    def events(
        self, *, nodes: Sequence[str], since_s: float | None, limit: int
    ) -> Sequence[OutsideEvent] | None:
        """What other sources said of nodes and what they hold, of all if none is named, the latest first."""

    def beats(self) -> Sequence[Heartbeat] | None:
        """The last sign of life of each of its ranks, by rank."""

    def compared(self) -> Compared | None:
        """What of it can be compared with another run."""

    def replayer(self) -> Replayer | None:
        """The replay of its pipeline, where its operations are recorded."""


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

    def run_of(self, incident: Incident, /) -> str:
        """How the incident's run is called by now: another launch may have its name."""

    def incidents(self, *, run: str | None = None, fault_class: str | None = None) -> Sequence[Incident]:
        """Incidents, open ones first, then the latest."""

    def past(self, fault_class: str, *, since_s: float | None = None) -> Sequence[PastIncident]:
        """Incidents of a class, opened since a time, the latest first."""

    def outcomes(self, incidents: Sequence[Incident], /) -> Mapping[str, tuple[Outcome, ...]]:
        """What became of incidents, by id; nothing of those nobody knows of."""

    def units_of(self, run: str, attempt: int, ranks: Sequence[int], /) -> Mapping[int, tuple[str, str]]:
        """Host and device of ranks of an attempt, as far as known; the device is "" without a GPU."""

    def hosts(self) -> Sequence[str]:
        """Every host that is known or remembered, of whatever run."""

    def history(self, *, host: str | None, device: str | None) -> UnitHistory | None:
        """What is remembered of a host's GPUs or of one; None where no memory is kept."""
