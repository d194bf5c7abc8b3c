"""The facts in a database, as tools read them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock

from argus.agent.facts import BadBout, PastIncident, RunFacts, UnitDay, UnitHistory
from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.outcome import Outcome
from argus.analytics.store import asked, history, outcomes, progress, queries
from argus.analytics.store.engine import Store
from argus.analytics.store.units import known_hosts, units_of_ranks
from argus.api.store_run import StoreRun
from argus.topology.facts import Facts
from argus.topology.fleet import Fleet, build_fleet
from argus.topology.layout import build

MAX_RUNS = 500
"""Runs by name: more are for their names to be known."""

MAX_INCIDENTS = 100
"""Incidents read for one answer: those of a large job name thousands of victims each."""

MAX_DAYS = 20_000
"""Rows of one host's history: 8 GPUs, 20 subjects, 120 days."""

MAX_BOUTS = 200

MAX_FLEETS = 4
"""Graphs kept: a job of 10,000 ranks takes about a second to build and 100 MB to keep."""


@dataclass(kw_only=True)
class Fleets:
    """Graphs of attempts, built when first asked for and kept until a layout record changes them."""

    store: Store
    facts: tuple[Facts, ...] = ()
    _kept: OrderedDict[tuple[int, tuple[float, int]], Fleet] = field(default_factory=OrderedDict, repr=False)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def of(self, attempt_id: int) -> Fleet | None:
        """The graph of an attempt; None while no layout is known."""
        with self.store.read() as connection:
            key = (attempt_id, asked.layouts_version(connection, attempt_id))
            with self._lock:  # two that ask at once build it once
                if key in self._kept:
                    self._kept.move_to_end(key)
                    return self._kept[key]
                layouts = progress.layouts_of(connection, attempt_id)
                if not layouts:
                    return None
                fleet = build_fleet(self.facts, topology=build(layouts))
                fleet.prepare()
                self._kept[key] = fleet
                while len(self._kept) > MAX_FLEETS:
                    self._kept.popitem(last=False)
                return fleet


@dataclass(frozen=True, kw_only=True)
class StoreFacts:
    """Every run of a database. Each question sees one state of it."""

    store: Store
    fleets: Fleets

    @staticmethod
    def of(store: Store, *, facts: tuple[Facts, ...] = ()) -> StoreFacts:
        """The facts of a database; `facts` are what files say of the cluster."""
        return StoreFacts(store=store, fleets=Fleets(store=store, facts=facts))

    def runs(self) -> Sequence[str]:
        """Names of runs, the one heard of last first."""
        with self.store.read() as connection:
            return asked.run_names(connection, limit=MAX_RUNS)

    def run(self, name: str, *, attempt: int | None = None) -> RunFacts | None:
        """An attempt of a run, the latest if none is named; None if there is none."""
        with self.store.read() as connection:
            which = queries.attempt_of(connection, name, attempt=attempt)
        return None if which is None else StoreRun(store=self.store, which=which, graph=self.fleets.of)

    def finding(self, finding_id: str) -> Finding | None:
        """A finding by id."""
        with self.store.read() as connection:
            return progress.findings_by_id(connection, [finding_id]).get(finding_id)

    def incident(self, incident_id: str) -> Incident | None:
        """An incident by id."""
        with self.store.read() as connection:
            return queries.whole_incident(connection, incident_id)

    def run_of(self, incident: Incident, /) -> str:
        """How the incident's run is called by now: another launch may have its name."""
        with self.store.read() as connection:
            which = queries.attempt_of_incident(connection, incident.id)
        return incident.run if which is None else which.run

    def incidents(self, *, run: str | None = None, fault_class: str | None = None) -> Sequence[Incident]:
        """Incidents, open ones first, then the latest."""
        with self.store.read() as connection:
            return asked.incidents_of(connection, run=run, fault_class=fault_class, limit=MAX_INCIDENTS)

    def past(self, fault_class: str, *, since_s: float | None = None) -> Sequence[PastIncident]:
        """Incidents of a class, opened since a time, the latest first."""
        with self.store.read() as connection:
            found = asked.past_incidents(connection, fault_class, since_s=since_s, limit=MAX_INCIDENTS)
        return tuple(PastIncident(incident=one, run=run, opened_s=opened_s) for one, run, opened_s in found)

    def outcomes(self, incidents: Sequence[Incident], /) -> Mapping[str, tuple[Outcome, ...]]:
        """What became of incidents, by id; nothing of those nobody knows of."""
        with self.store.read() as connection:
            return outcomes.outcomes_of(connection, incidents)

    def units_of(self, run: str, attempt: int, ranks: Sequence[int], /) -> Mapping[int, tuple[str, str]]:
        """Host and device of ranks of an attempt, as far as known."""
        with self.store.read() as connection:
            which = queries.attempt_of(connection, run, attempt=attempt)
            return {} if which is None else units_of_ranks(connection, which.id, ranks)

    def hosts(self) -> Sequence[str]:
        """Every host that is known or remembered, of whatever run."""
        with self.store.read() as connection:
            return known_hosts(connection)

    def history(self, *, host: str | None, device: str | None) -> UnitHistory | None:
        """What is remembered of a host's GPUs or of one."""
        with self.store.read() as connection:
            days = history.list_days(
                connection, host=host, device=device, subject=None, since_day=0, limit=MAX_DAYS, offset=0
            )
            bouts = asked.bouts_of(connection, host=host, device=device, limit=MAX_BOUTS)
        return UnitHistory(
            days=tuple(UnitDay(**day) for day in days.items), bouts=tuple(BadBout(**bout) for bout in bouts)
        )
