"""What changed between two topologies: a restart, a repair, another placement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from argus.topology.fleet import Fleet


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A rank that runs elsewhere; "" where a side does not know it."""

    rank: int
    old: str
    new: str


@dataclass(frozen=True, kw_only=True)
class Difference:
    """From an old fleet to a new one. `group_sizes` maps a kind to (count × size) before and after."""

    world: tuple[int, int]
    moved: tuple[Moved, ...]
    devices: tuple[Moved, ...]
    hosts_gone: tuple[str, ...]
    hosts_new: tuple[str, ...]
    elements_gone: tuple[str, ...]
    elements_new: tuple[str, ...]
    group_sizes: Mapping[str, tuple[str, str]]

    @property
    def is_empty(self) -> bool:
        """True if nothing a query could notice differs."""
        return self.world[0] == self.world[1] and not any(
            (
                *(self.moved, self.devices, self.hosts_gone, self.hosts_new),
                *(self.elements_gone, self.elements_new, self.group_sizes),
            )
        )


def difference(old: Fleet, new: Fleet) -> Difference:
    """What the new fleet has otherwise than the old; ranks are compared by number, hardware by id."""
    before, after = old.topology, new.topology
    hosts = {h for h in before.hosts.values() if h}, {h for h in after.hosts.values() if h}
    hardware = old.hardware, new.hardware
    sizes = old.group_sizes, new.group_sizes
    return Difference(
        world=(before.world_size, after.world_size),
        moved=_moved(before.hosts, after.hosts),
        devices=_moved(before.devices, after.devices),
        hosts_gone=tuple(sorted(hosts[0] - hosts[1])),
        hosts_new=tuple(sorted(hosts[1] - hosts[0])),
        elements_gone=tuple(sorted(hardware[0] - hardware[1])),
        elements_new=tuple(sorted(hardware[1] - hardware[0])),
        group_sizes={
            kind: (sizes[0].get(kind, ""), sizes[1].get(kind, ""))
            for kind in sorted(sizes[0].keys() | sizes[1].keys())
            if sizes[0].get(kind) != sizes[1].get(kind)
        },
    )


def _moved(old: Mapping[int, str], new: Mapping[int, str]) -> tuple[Moved, ...]:
    return tuple(
        Moved(rank=rank, old=old.get(rank, ""), new=new.get(rank, ""))
        for rank in sorted(old.keys() | new.keys())
        if old.get(rank, "") != new.get(rank, "")
    )
