"""The parallel layout of an attempt: groups, coordinates and places of its ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from argus.collectors.records.layout import Layout
from argus.topology.groups import DATA_KINDS, Group
from argus.topology.identity import Declared, Identity, merge_identity
from argus.topology.merge import merge_groups
from argus.topology.names import NotInTopology, close_names, unknown_rank

EXPERT_PHASES = ("ep_comm", "expert")
"""Phases of expert layers: their peers are the ranks that hold the same experts."""


@dataclass(frozen=True, kw_only=True)
class Topology:
    """Groups, hosts and devices of one attempt.

    `named` maps (rank, the runtime's group name) to the group; `roles` maps what a stream role calls a
    group, as a rank names it before it knows the others, to the kinds such groups have here. `conflicts`
    says where sources contradict each other; both versions are in the sentence. `coords` holds each rank's place along
    `dims`. `sources` says what each fact was taken from; `inferred` lists kinds guessed from patterns.
    """

    run: str
    attempt: int
    world_size: int
    hosts: Mapping[int, str] = field(default_factory=dict)
    devices: Mapping[int, str] = field(default_factory=dict)
    gpu_models: Mapping[int, str] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    named: Mapping[tuple[int, str], Group] = field(default_factory=dict)
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    conflicts: tuple[str, ...] = ()
    local_ranks: Mapping[int, int] = field(default_factory=dict)
    dims: tuple[str, ...] = ()
    coords: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    inferred: tuple[str, ...] = ()

    @property
    def ranks(self) -> tuple[int, ...]:
        """Every rank the attempt should have."""
        return tuple(range(self.world_size))

    def check_rank(self, rank: int) -> int:
        """The rank itself; NotInTopology if the attempt has no such rank."""
        if not 0 <= rank < self.world_size:
            raise unknown_rank(rank, self.world_size)
        return rank

    def host_of(self, rank: int) -> str:
        """Host of a rank, "" if it never reported."""
        return self.hosts.get(rank, "")

    def ranks_of_host(self, host: str) -> tuple[int, ...]:
        """Ranks on a host, in order; NotInTopology, with close names, if no rank is on it.

        "" gives the ranks whose host is not known.
        """
        if not host:
            return tuple(rank for rank in self.ranks if not self.host_of(rank))
        if host not in self._by_host:
            known = f"{len(self._by_host)} hosts are known"
            raise NotInTopology(f"host {host!r}", close=close_names(host, self._by_host), known=known)
        return self._by_host[host]

    def groups_of(self, rank: int) -> tuple[Group, ...]:
        """Groups a rank belongs to; NotInTopology for an unknown rank."""
        return self._by_rank.get(self.check_rank(rank), ())

    def group(self, group_id: str) -> Group:
        """The group with the id; NotInTopology, with close names, if there is none."""
        if group_id not in self._by_id:
            close = close_names(group_id, self._by_id)
            kinds = ", ".join(dict.fromkeys(group.kind for group in self.groups))
            raise NotInTopology(f"group {group_id!r}", close=close, known=f"kinds are {kinds}")
        return self._by_id[group_id]

    def coordinates_of(self, rank: int) -> dict[str, int]:
        """Place of a rank along each dimension; empty if the run's groups do not tell ranks apart."""
        at = self.coords.get(self.check_rank(rank), ())
        return dict(zip(self.dims, at, strict=False))

    def peers_of(self, rank: int, phase: str = "") -> tuple[int, ...]:
        """Other ranks that do the same work in a phase, by canonical name.

        The data-parallel ranks of the same stage and shard (with CP, sharded and replicated halves
        joined); in expert phases those with the same experts; without any of these the ranks of a
        tensor or context group, else all.
        """
        self.check_rank(rank)
        kinds = (("edp",), ("tp",), ("cp",), ("world",)) if phase in EXPERT_PHASES else ()
        if not kinds and len(self._same_role.get(rank, ())) > 1:
            return tuple(peer for peer in self._same_role[rank] if peer != rank)
        for wanted in kinds or (("tp",), ("cp",), ("world",)):
            for group in self.groups_of(rank):
                if group.kind in wanted and len(group.ranks) > 1:
                    return tuple(peer for peer in group.ranks if peer != rank)
        return tuple(peer for peer in self.ranks if peer != rank)

    @cached_property
    def dim_sizes(self) -> dict[str, int]:
        """Size of each dimension."""
        return {name: 1 + max(row[i] for row in self.coords.values()) for i, name in enumerate(self.dims)}

    @cached_property
    def _by_host(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, list[int]] = {}
        for rank in sorted(self.hosts):
            found.setdefault(self.hosts[rank], []).append(rank)
        return {host: tuple(ranks) for host, ranks in found.items()}

    @cached_property
    def _by_id(self) -> dict[str, Group]:
        return {group.id: group for group in self.groups}

    @cached_property
    def _by_rank(self) -> dict[int, tuple[Group, ...]]:
        found: dict[int, list[Group]] = {}
        for group in self.groups:
            for rank in group.ranks:
                found.setdefault(rank, []).append(group)
        return {rank: tuple(groups) for rank, groups in found.items()}

    @cached_property
    def _same_role(self) -> dict[int, tuple[int, ...]]:
        """Ranks joined by data-parallel groups of any sort, directly or over others."""
        joined: dict[int, set[int]] = {}
        for group in self.groups:
            if group.kind not in DATA_KINDS:
                continue
            sets = {id(joined[rank]): joined[rank] for rank in group.ranks if rank in joined}
            largest = max(sets.values(), key=len, default=set())
            new = [ranks for ranks in sets.values() if ranks is not largest]
            for rank in (*group.ranks, *(rank for ranks in new for rank in ranks)):
                largest.add(rank)
                joined[rank] = largest
        frozen = {key: tuple(sorted(ranks)) for key, ranks in {id(s): s for s in joined.values()}.items()}
        return {rank: frozen[id(ranks)] for rank, ranks in joined.items()}


def build(layouts: Iterable[Layout], *, declared: Iterable[Declared] = ()) -> Topology:
    """Topology of the one attempt all `layouts` belong to; ValueError if nothing is known.

    Records of several sources may be mixed; `declared` adds layouts computed from arguments or a file.
    What the most trusted source says is used, every contradiction is reported with both versions.
    """
    conflicts: list[str] = []
    named_by = tuple(declared)
    who: Identity = merge_identity(layouts, declared=named_by, conflicts=conflicts)
    merged = merge_groups(who, declared=named_by, conflicts=conflicts)
    return Topology(
        run=who.run,
        attempt=who.attempt,
        world_size=who.world_size,
        hosts=who.hosts,
        devices=who.devices,
        gpu_models=who.gpu_models,
        local_ranks=who.local_ranks,
        groups=merged.groups,
        named=merged.named,
        roles=merged.roles,
        dims=merged.dims,
        coords=merged.coords,
        sources={**who.sources, **merged.sources},
        inferred=merged.inferred,
        conflicts=tuple(conflicts),
    )
