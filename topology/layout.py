"""The parallel layout of an attempt, built from its ranks' layout records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from argus.collectors.records.layout import Layout
from argus.topology.groups import Group, kind_of


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Groups, hosts and devices of one attempt.

    `named` maps (rank, the runtime's group name) to the group. `conflicts` says where sources
    contradict each other; both versions are in the sentence.
    """

    run: str
    attempt: int
    world_size: int
    hosts: Mapping[int, str] = field(default_factory=dict)
    devices: Mapping[int, str] = field(default_factory=dict)
    gpu_models: Mapping[int, str] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    named: Mapping[tuple[int, str], Group] = field(default_factory=dict)
    conflicts: tuple[str, ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        """Every rank the attempt should have."""
        return tuple(range(self.world_size))

    def host_of(self, rank: int) -> str:
        """Host of a rank, "" if it never reported."""
        return self.hosts.get(rank, "")

    def ranks_of_host(self, host: str) -> tuple[int, ...]:
        """Ranks on a host, in order; empty if the host is not in the topology."""
        return tuple(sorted(rank for rank, name in self.hosts.items() if name == host))

    def groups_of(self, rank: int) -> tuple[Group, ...]:
        """Groups a rank belongs to."""
        return tuple(group for group in self.groups if rank in group.ranks)

    def peers_of(self, rank: int) -> tuple[int, ...]:
        """Other ranks that do the same work: the data-parallel group, else all ranks of the model."""
        for kinds in (("dp_cp", "dp"), ("world",)):
            for group in self.groups_of(rank):
                if group.kind in kinds and len(group.ranks) > 1:
                    return tuple(peer for peer in group.ranks if peer != rank)
        return tuple(peer for peer in self.ranks if peer != rank)


def build(layouts: Iterable[Layout]) -> Topology:
    """Topology of the one attempt all `layouts` belong to; ValueError if there is none."""
    by_rank: dict[int, Layout] = {}
    conflicts: list[str] = []
    for layout in layouts:
        known = by_rank.get(layout.rank)
        if known is not None and known.host != layout.host:
            conflicts.append(f"rank {layout.rank} is on host {known.host!r} and on host {layout.host!r}")
        by_rank[layout.rank] = layout
    if not by_rank:
        raise ValueError("no layout record: nothing is known of the ranks")
    some = by_rank[min(by_rank)]
    world = _agreed_world(by_rank, conflicts)
    groups, named = _groups(by_rank, world, conflicts)
    return Topology(
        run=some.run,
        attempt=some.attempt,
        world_size=world,
        hosts={rank: layout.host for rank, layout in by_rank.items()},
        devices={rank: layout.device for rank, layout in by_rank.items()},
        gpu_models={rank: layout.gpu_model for rank, layout in by_rank.items()},
        groups=groups,
        named=named,
        conflicts=tuple(conflicts),
    )


def _agreed_world(by_rank: Mapping[int, Layout], conflicts: list[str]) -> int:
    sizes = sorted({layout.world_size for layout in by_rank.values()})
    if len(sizes) > 1:
        conflicts.append(
            f"ranks disagree on the world size: {', '.join(map(str, sizes))}; {sizes[-1]} is used"
        )
    return sizes[-1]


def _groups(
    by_rank: Mapping[int, Layout], world: int, conflicts: list[str]
) -> tuple[tuple[Group, ...], dict[tuple[int, str], Group]]:
    """Merge what each member calls a group: the same description and ranks are one group."""
    members: dict[tuple[str, tuple[int, ...]], list[tuple[int, str]]] = defaultdict(list)
    for rank, layout in sorted(by_rank.items()):
        for info in layout.groups:
            kind = kind_of(info.desc, size=len(info.ranks), world_size=world)
            if rank not in info.ranks:
                conflicts.append(f"rank {rank} reports group {info.name!r} of ranks it is not part of")
                continue
            members[kind, tuple(sorted(info.ranks))].append((rank, info.name))
    members = members or {("world", tuple(range(world))): []}
    numbers: dict[str, int] = defaultdict(int)
    groups: list[Group] = []
    named: dict[tuple[int, str], Group] = {}
    for (kind, ranks), names in sorted(members.items()):
        group = Group(id=f"{kind}/{numbers[kind]}", kind=kind, desc=kind, ranks=ranks)
        numbers[kind] += 1
        groups.append(group)
        named.update(dict.fromkeys(names, group))
    return tuple(groups), named
