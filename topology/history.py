"""Where ranks ran over attempts, and what ran on a GPU: hardware by host and UUID, training by rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from argus.topology.collect import gpu_id
from argus.topology.facts import Edge
from argus.topology.layout import Topology


@dataclass(frozen=True, kw_only=True)
class Stay:
    """One rank on one device of one host for a time; `until_s` is None while it lasts (Unix time)."""

    run: str
    attempt: int
    rank: int
    host: str
    device: str
    since_s: float
    until_s: float | None = None

    def holds_at(self, time_s: float) -> bool:
        """True if the rank was there at the time."""
        return self.since_s <= time_s and (self.until_s is None or time_s < self.until_s)


@dataclass(frozen=True, kw_only=True)
class History:
    """Stays in order of their start. A value: `begin` and `end` give a new one."""

    stays: tuple[Stay, ...] = ()

    def begin(self, topology: Topology, *, since_s: float) -> History:
        """The attempt's ranks take their places; earlier attempts of the run end there.

        A record that comes again, or later in the same attempt, changes only ranks that moved.
        """
        known = {
            (stay.rank, stay.host, stay.device)
            for stay in self.stays
            if stay.until_s is None and (stay.run, stay.attempt) == (topology.run, topology.attempt)
        }
        new = [
            Stay(
                run=topology.run,
                attempt=topology.attempt,
                rank=rank,
                host=host,
                device=topology.devices.get(rank, ""),
                since_s=since_s,
            )
            for rank, host in sorted(topology.hosts.items())
            if host and (rank, host, topology.devices.get(rank, "")) not in known
        ]
        replaced = {stay.rank for stay in new}
        kept = tuple(
            replace(stay, until_s=since_s)
            if stay.run == topology.run
            and stay.until_s is None
            and (stay.attempt != topology.attempt or stay.rank in replaced)
            else stay
            for stay in self.stays
        )
        return History(stays=(*kept, *new))

    def end(self, run: str, attempt: int, *, until_s: float) -> History:
        """The attempt is over: its ranks leave their places."""
        return History(
            stays=tuple(
                replace(stay, until_s=until_s)
                if stay.until_s is None and (stay.run, stay.attempt) == (run, attempt)
                else stay
                for stay in self.stays
            )
        )

    def of_rank(self, run: str, rank: int) -> tuple[Stay, ...]:
        """Everywhere a rank of a run was, over all attempts."""
        return tuple(stay for stay in self.stays if stay.run == run and stay.rank == rank)

    def of_device(self, host: str, device: str = "") -> tuple[Stay, ...]:
        """Whatever ran on a GPU of a host, or on any of its GPUs; a card that moved is another place."""
        return tuple(s for s in self.stays if s.host == host and device in ("", s.device))

    def of_uuid(self, device: str) -> tuple[Stay, ...]:
        """Whatever ran on a GPU, wherever it was plugged in."""
        return tuple(stay for stay in self.stays if stay.device == device)

    def edges(self, run: str) -> tuple[Edge, ...]:
        """Where the run's ranks ran, as relations in force for the time of each stay."""
        found = []
        for stay in (stay for stay in self.stays if stay.run == run):
            seat = gpu_id(stay.host, stay.device) if stay.device else f"host:{stay.host}"
            edge = Edge(
                source=f"rank:{stay.rank}",
                target=seat,
                kind="runs_on",
                provenance=f"attempt {stay.attempt}",
                since_s=stay.since_s,
                until_s=stay.until_s,
            )
            found.append(edge)
            if stay.device:
                found.append(replace(edge, source=seat, target=f"host:{stay.host}", kind="part_of"))
        return tuple(found)

    def moved(self, run: str) -> tuple[tuple[Stay, Stay], ...]:
        """Ranks whose next stay is elsewhere: pairs before and after."""
        last: dict[int, Stay] = {}
        pairs = []
        for stay in (stay for stay in self.stays if stay.run == run):
            before = last.get(stay.rank)
            if before and (before.host, before.device) != (stay.host, stay.device):
                pairs.append((before, stay))
            last[stay.rank] = stay
        return tuple(pairs)


def dated(edges: Iterable[Edge], *, since_s: float | None, until_s: float | None = None) -> tuple[Edge, ...]:
    """The edges, in force in the given time only."""
    return tuple(replace(edge, since_s=since_s, until_s=until_s) for edge in edges)
