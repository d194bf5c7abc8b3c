"""One attempt's facts in a database, as tools read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argus.agent.facts import Json, StepPoint, WindowFact
from argus.analytics.clocks import align
from argus.analytics.finding import Finding
from argus.analytics.kernels.table import KernelTable, open_table
from argus.analytics.numbers import WindowNumbers, read_steps
from argus.analytics.run_facts import RunFacts as Compared
from argus.analytics.store import asked, kernels, observations, progress
from argus.analytics.store import events as outside
from argus.analytics.store.engine import Store
from argus.analytics.store.queries import Which
from argus.analytics.whatif.shares import Replayer
from argus.analytics.window import Window, assemble
from argus.api.facts import stored_facts
from argus.api.liveness import on_our_clock
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.stacks import StackDump, Thread
from argus.collectors.records.summary import RankWindow
from argus.topology.fleet import Fleet

MAX_FINDINGS = 5_000
"""Findings read for one answer, those of the latest windows: ten windows of a job in deep trouble."""

EVENT_FIELDS = ("time_s", "node", "source", "text", "kind", "value")


@dataclass(frozen=True, kw_only=True)
class StoreRun:
    """An attempt; `graph` gives its fleet by the attempt's number in the database."""

    store: Store
    which: Which
    graph: Callable[[int], Fleet | None]

    @property
    def run(self) -> str:
        """Name of the run."""
        return self.which.run

    @property
    def attempt(self) -> int:
        """Number of the attempt."""
        return self.which.attempt

    def fleet(self) -> Fleet | None:
        """Its graph; None while no layout is known."""
        return self.graph(self.which.id)

    def windows(self, *, limit: int, upto: int | None = None) -> Sequence[WindowFact]:
        """Its last analysed windows, none beyond `upto`, the latest first."""
        with self.store.read() as connection:
            rows = asked.analysed_windows(connection, self.which.id, limit=limit, upto=upto)
        return tuple(_fact(row) for row in rows)

    def findings(self, *, since: int | None = None, upto: int | None = None) -> Sequence[Finding]:
        """Its findings of windows `since` … `upto`, those of the latest window first."""
        with self.store.read() as connection:
            return asked.findings_between(
                connection, self.which.id, since=since, upto=upto, limit=MAX_FINDINGS
            )

    def numbers(self, window: int) -> WindowNumbers | None:
        """Per rank and phase what a window took."""
        with self.store.read() as connection:
            return asked.numbers_of(connection, self.which.id, window)

    def step_times(
        self, *, ranks: Sequence[int], limit: int, upto: int | None = None, since_step: int | None = None
    ) -> Sequence[StepPoint]:
        """Step times of the last windows, none beyond `upto`, oldest first; further apart where they are to reach back to
        before `since_step`."""
        with self.store.read() as connection:
            rows = asked.numbers_bodies(
                connection, self.which.id, limit=limit, upto=upto, since_step=since_step
            )
            points = [_point(row.window, row.first_step, row.num_steps, row.numbers, ranks) for row in rows]
        return points[::-1]

    def group_window(self, window: int, *, ranks: Sequence[int]) -> Window | None:
        """A window's records of these ranks, on one clock."""
        fleet = self.fleet()
        with self.store.read() as connection:
            bodies = asked.bodies_of_ranks(connection, self.which.id, window, ranks=ranks)
        if fleet is None or not bodies:
            return None
        return align(assemble((RankWindow.from_bytes(body) for body in bodies), fleet.topology))

    def kernels(self, window: int, *, ranks: Sequence[int]) -> KernelTable | None:
        """Kernel summaries of the hosts of these ranks."""
        fleet = self.fleet()
        hosts = sorted({fleet.topology.host_of(rank) for rank in ranks}) if fleet else []
        with self.store.read() as connection:
            blobs = asked.blobs_of_hosts(connection, self.which.id, window, hosts=hosts)
            texts = kernels.used_names(connection, blobs)
        return open_table(blobs, texts=texts) if blobs else None

    def stacks(self, *, ranks: Sequence[int], limit: int) -> Sequence[StackDump] | None:
        """Stack dumps of ranks, of all if none is named, the latest first."""
        with self.store.read() as connection:
            found = observations.stacks(
                connection, self.which.id, ranks=ranks, reason=None, limit=limit, offset=0
            )
        return tuple(_dump(item, self.which) for item in found.items)

    def samples(self, hosts: Sequence[str]) -> Mapping[str, HostSample] | None:
        """What hosts last measured of themselves."""
        with self.store.read() as connection:
            found = observations.latest_samples(connection, hosts)
        return {host: HostSample.from_json(raw) for host, raw in found.items()}

    def events(
        self, *, nodes: Sequence[str], since_s: float | None, limit: int
    ) -> Sequence[OutsideEvent] | None:
        """What other sources said of nodes and what they hold, of all if none is named, the latest first."""
        with self.store.read() as connection:
            found = outside.list_events(connection, nodes=nodes, since_s=since_s, limit=limit, offset=0)
        return [OutsideEvent(**{name: item[name] for name in EVENT_FIELDS}) for item in found.items]

    def beats(self) -> Sequence[Heartbeat] | None:
        """The last sign of life of each of its ranks, by rank."""
        with self.store.read() as connection:
            return tuple(on_our_clock(item).beat for item in progress.beats_of(connection, self.which.id))

    def compared(self) -> Compared | None:
        """What of it can be compared with another run."""
        with self.store.read() as connection:
            return stored_facts(connection, self.which)

    def replayer(self) -> Replayer | None:
        """None: a run's single operations are not kept."""
        return None


def _fact(row: Json) -> WindowFact:
    coverage = row["coverage"]
    return WindowFact(
        index=row["window"],
        first_step=row["first_step"],
        num_steps=row["num_steps"],
        analysed_s=row["analysed_s"],
        coverage_ratio=coverage["ratio"],
        missing_ranks=tuple(coverage["missing_ranks"]),
        unseen=tuple(coverage["unseen"]),
    )


def _point(window: int, first_step: int, num_steps: int, body: bytes, ranks: Sequence[int]) -> StepPoint:
    known, step_s, job_step_s = read_steps(body)
    seen = job_step_s[np.isfinite(job_step_s)]
    place = np.searchsorted(known, ranks)
    mean_s = {
        rank: float(step_s[at])
        for rank, at in zip(ranks, place.tolist(), strict=True)
        if at < len(known) and known[at] == rank and np.isfinite(step_s[at])
    }
    return StepPoint(
        window=window,
        first_step=first_step,
        num_steps=num_steps,
        job_s=float(seen.mean()) if len(seen) else None,
        ranks_s=mean_s,
    )


def _dump(item: Json, which: Which) -> StackDump:
    threads = tuple(Thread(**thread) for thread in item["threads"])
    return StackDump(**{**item, "run": which.run, "attempt": which.attempt, "threads": threads})
