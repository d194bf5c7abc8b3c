"""What is known of a job besides its own records, and which ranks of it that is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from argus.analytics.run_diff import RunDiff
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.stacks import StackDump
from argus.topology.collect import bus_id, gpu_id
from argus.topology.hosts import host_in_id
from argus.topology.layout import Topology
from argus.topology.names import NotInTopology


@dataclass(frozen=True, kw_only=True)
class Outside:
    """Told by others than the ranks: confirms, contradicts or explains, never accuses.

    `events` are what was said of the cluster lately, `stacks` what the ranks' threads did, `change` what the
    attempt differs in from the one before it, None if it is the first or too young to tell. `other_runs` counts the other runs in which a rank's device was bad.
    """

    events: tuple[OutsideEvent, ...] = ()
    stacks: tuple[StackDump, ...] = ()
    change: RunDiff | None = None
    other_runs: Mapping[int, int] = field(default_factory=dict)


NOTHING = Outside()
"""Nobody told anything."""


def unit_of(topology: Topology, rank: int) -> tuple[str, str]:
    """Host and device of a rank; a rank without a GPU is known by its place on the host."""
    device = topology.devices.get(rank, "") or f"slot:{topology.local_ranks.get(rank, 0)}"
    return topology.host_of(rank), device


def ranks_under(topology: Topology, node: str) -> tuple[int, ...]:
    """Ranks of a run that a node of an event stands over; empty if it is none of the run's.

    A port stands over all ranks of its host: which of them use it, layouts do not tell.
    """
    kind, _, name = node.partition(":")
    if kind == "rank":
        return (int(name),) if name.isdecimal() and int(name) < topology.world_size else ()
    if kind == "run":
        return topology.ranks if name == topology.run else ()
    if kind == "gpu":
        return tuple(rank for rank in topology.devices if _is_gpu(topology, rank, node))
    try:
        if kind == "host":
            return topology.ranks_of_host(name)
        if kind == "group":
            return topology.group(name).ranks
        if kind in ("nic", "pcie", "half") and "/" in name:
            return topology.ranks_of_host(host_in_id(node))
    except NotInTopology:
        return ()
    return ()


def _is_gpu(topology: Topology, rank: int, node: str) -> bool:
    host, device = topology.host_of(rank), topology.devices[rank]
    own, _, place = node.removeprefix("gpu:").rpartition("/")
    if gpu_id(host, device) == node or node == f"gpu:{device}":
        return True
    if own != host or not place:
        return False
    return (bus_id(place) or place) == device or place == str(topology.local_ranks.get(rank, ""))


def has_grown(event: OutsideEvent, events: Sequence[OutsideEvent]) -> bool | None:
    """Whether the counter of `event` rose among `events`; None where it is no counter or was told once."""
    if event.value is None:
        return None
    same = [
        each.value
        for each in sorted(events, key=lambda each: each.time_s)
        if (each.node, each.source, each.kind) == (event.node, event.source, event.kind)
        and each.value is not None
    ]
    return same[-1] > same[0] if len(same) > 1 else None
