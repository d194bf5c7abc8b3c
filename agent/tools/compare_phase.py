"""How long ranks take in a phase beside their peers: own work, waiting, CPU time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from argus.agent.context import ToolContext, Unknown, as_of, fleet_of, numbers_of, window_of
from argus.agent.coverage import with_gaps
from argus.agent.evidence import Answer, Cut, Json
from argus.agent.rows import DOC_RUN, DOC_WINDOW, MAX_NAME, number
from argus.analytics.numbers import WindowNumbers
from argus.analytics.peers import peer_medians, work_classes
from argus.analytics.robust import middle
from argus.analytics.window import Floats, Ints
from argus.collectors.records.text import tame
from argus.topology.layout import Topology
from argus.topology.names import close_names

MAX_ROWS = 12
MAX_PHASES = 16
"""Phases of the outline, the longest first."""


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    window: Annotated[int | None, DOC_WINDOW],
    phase: Annotated[str | None, "null = all phases"],
    ranks: Annotated[list[int] | None, "null = those slowest beside their peers"],
) -> Answer:
    """Seconds per step in a phase, each rank beside the median of its peers: self_s = own work, wait_s, cpu_s.
    Only self_s blames a rank, wait_s is done to it. self_s up with cpu_s flat = it did not get the CPU."""
    facts = context.of_run(run)
    at = window_of(context, facts, window)
    beside = Beside(topology=fleet_of(facts).topology, numbers=numbers_of(facts, at))
    asked = tuple(beside.topology.check_rank(rank) for rank in dict.fromkeys(ranks or ()))
    places = [_place(beside.numbers, phase)] if phase else list(range(len(beside.numbers.phases)))
    pairs = beside.pairs(places, asked) if asked else beside.slowest(places)
    rows = [beside.row(place, rank) for place, rank in pairs[:MAX_ROWS]]
    cut = (Cut(path="/rows", shown=len(rows), total=len(pairs)),) if len(rows) < len(pairs) else ()
    data: Json = {"rows": rows, "outline": beside.outline() if phase is None else []}
    answer = Answer(data=data, as_of=as_of(facts, at), cut=cut)
    if not rows and not asked:
        answer = Answer(
            data=data, as_of=as_of(facts, at), status="no_data", note="no rank is slower than its peers"
        )
    return with_gaps(answer, at, asked=asked, world_size=beside.topology.world_size)


def _place(numbers: WindowNumbers, phase: str) -> int:
    if phase not in numbers.phases:
        close = close_names(phase, numbers.phases) or numbers.phases
        raise Unknown(
            f"no phase {phase[:40]!r} in this window", close=tuple(tame(name, 40) for name in close[:12])
        )
    return numbers.phases.index(phase)


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A window's numbers with who is whose peer. Arrays are (phase, rank)."""

    topology: Topology
    numbers: WindowNumbers

    @property
    def self_s(self) -> Floats:
        """Own work."""
        return np.maximum(self.numbers.phase_s - self.numbers.wait_s, 0.0)

    def at(self, ranks: Sequence[int]) -> Ints:
        """Places of the ranks that were observed."""
        place = np.searchsorted(self.numbers.ranks, np.asarray(ranks, np.int64))
        place = place[place < len(self.numbers.ranks)]
        place = place[np.isin(self.numbers.ranks[place], ranks)]
        return np.asarray(place[np.isfinite(self.numbers.step_s[place])])

    def pairs(self, places: Sequence[int], ranks: Sequence[int]) -> list[tuple[int, int]]:
        """(phase, rank) of the ranks asked for, the largest difference to the peers first."""
        excess, here = self._excess(places), self.at(ranks)
        found = [(line, place) for place in here for line in range(len(places))]
        found.sort(key=lambda one: -abs(np.nan_to_num(excess[one])))
        return [(places[line], int(self.numbers.ranks[place])) for line, place in found]

    def slowest(self, places: Sequence[int]) -> list[tuple[int, int]]:
        """(phase, rank) of own work beyond the peers', the most first."""
        excess = self._excess(places)
        order = np.argsort(-np.nan_to_num(excess, nan=-np.inf), axis=None, kind="stable")[: MAX_ROWS * 2]
        line, rank = np.unravel_index(order, excess.shape)
        return [
            (places[int(i)], int(self.numbers.ranks[r]))
            for i, r in zip(line, rank, strict=True)
            if excess[i, r] > 0
        ]

    def row(self, place: int, rank: int) -> Json:
        """One rank in one phase beside its peers."""
        name = self.numbers.phases[place]
        mine, peers = self._mine(rank)[0], self.at(self.topology.peers_of(rank, name))
        columns = {"self_s": self.self_s, "wait_s": self.numbers.wait_s, "cpu_s": self.numbers.cpu_s}
        row: Json = {
            "rank": rank,
            "host": tame(self.topology.host_of(rank), MAX_NAME),
            "phase": tame(name, 40),
        }
        for key, column in columns.items():
            row[key] = number(float(column[place, mine]))
            row[f"peers_{key}"] = number(middle(column[place, peers]))
        own, theirs = row["self_s"], row["peers_self_s"]
        row["ratio"] = number(own / theirs) if own is not None and theirs else None
        return {**row, "num_peers": len(peers)}

    def outline(self) -> list[Json]:
        """Each phase in the median over ranks, the longest first."""
        own, wait = self.self_s, self.numbers.wait_s
        rows: list[Json] = [
            {
                "phase": tame(name, 40),
                "clock": self.numbers.clocks[i],
                "median_self_s": number(middle(own[i])),
                "median_wait_s": number(middle(wait[i])),
            }
            for i, name in enumerate(self.numbers.phases)
        ]
        rows.sort(key=lambda row: -(row["median_self_s"] or 0.0) - (row["median_wait_s"] or 0.0))
        return rows[:MAX_PHASES]

    def _mine(self, rank: int) -> Ints:
        return self.at([rank])

    def _excess(self, places: Sequence[int]) -> Floats:
        """Own work of every rank beyond its peers', for an order: (phase, rank), at once for all.

        Phase by phase: who never comes to one of them is no less a peer in the others.
        """
        classes = work_classes(self.topology, self.numbers.ranks)
        return np.stack([own - peer_medians(own, classes) for own in self.self_s[places]])
