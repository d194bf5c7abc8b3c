"""The whole graph of one attempt: parallel groups and hardware in one index."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from argus.topology.axes import Bools, Ints
from argus.topology.compose import Physical, compose
from argus.topology.derive import derive
from argus.topology.facts import Edge, Facts, kind_of_id
from argus.topology.incidence import Incidence, compress_rows, gather, incidence, without
from argus.topology.layout import Topology
from argus.topology.names import NotInTopology, close_names
from argus.topology.pause import collection_paused

UP_KINDS = ("runs_on", "part_of", "uses", "attached")
"""Edges along which a rank belongs to what lies above it."""

HARDWARE_KINDS = (
    *("gpu", "nic", "host", "nvlink_domain", "rail", "leaf", "spine", "rack", "pod", "zone", "pcie"),
)
"""Kinds of elements that can be replaced, recabled or lost."""

_NETWORK_KINDS = ("nic", "rail", "leaf", "spine", "link")


@dataclass(frozen=True, kw_only=True, eq=False)
class Fleet:
    """Ranks, hardware and groups of one attempt. Build it with `build_fleet`.

    Queries take and give ranks and element ids; an unknown one raises NotInTopology.
    """

    topology: Topology
    edges: tuple[Edge, ...]
    attributes: Mapping[str, Mapping[str, str]]
    aliases: Mapping[str, str]
    ranks: Incidence
    conflicts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = field(default_factory=tuple)

    def element(self, asked: str) -> str:
        """Canonical id of an element, by any of its names; NotInTopology with close names."""
        found = self.aliases.get(asked, asked)
        if found not in self.ranks.index:
            kind = kind_of_id(asked)
            same = [name for name in self.ranks.index if kind_of_id(name) == kind]
            known = (
                f"{len(same)} of kind {kind!r} are known" if same else f"kinds are {', '.join(self.kinds)}"
            )
            raise NotInTopology(asked, close=close_names(asked, same or self.ranks.index), known=known)
        return found

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of elements there are."""
        return tuple(dict.fromkeys(self.ranks.kinds))

    def ranks_of(self, element: str) -> tuple[int, ...]:
        """Ranks under an element, ascending."""
        return tuple(self.ranks.items_of(self.ranks.index[self.element(element)]).tolist())

    def elements_of(self, rank: int) -> tuple[str, ...]:
        """Everything above a rank."""
        self.topology.check_rank(rank)
        return tuple(self.ranks.ids[i] for i in self.ranks.elements_of(rank).tolist())

    def elements_of_kind(self, kind: str) -> tuple[str, ...]:
        """Ids of a kind, in order of appearance."""
        return tuple(name for name, own in zip(self.ranks.ids, self.ranks.kinds, strict=True) if own == kind)

    @cached_property
    def above(self) -> Mapping[str, tuple[Edge, ...]]:
        """Edges from each element."""
        found: dict[str, list[Edge]] = defaultdict(list)
        for edge in self.edges:
            found[edge.source].append(edge)
        return {element: tuple(edges) for element, edges in found.items()}

    @cached_property
    def hardware(self) -> frozenset[str]:
        """Ids of elements that are things, not groups or derived sets."""
        rows = zip(self.ranks.ids, self.ranks.kinds, strict=True)
        return frozenset(name for name, kind in rows if kind in HARDWARE_KINDS)

    @cached_property
    def kind_codes(self) -> Ints:
        """Each element's kind as its place in `kinds`. (element,)"""
        code = {kind: i for i, kind in enumerate(self.kinds)}
        return np.array([code[kind] for kind in self.ranks.kinds], np.int64)

    @cached_property
    def group_sizes(self) -> Mapping[str, str]:
        """Per kind how many groups of which sizes, such as "128 × 8"."""
        found: dict[str, Counter[int]] = defaultdict(Counter)
        for group in self.topology.groups:
            found[group.kind][len(group.ranks)] += 1
        return {
            kind: ", ".join(f"{count} × {size}" for size, count in sorted(sizes.items()))
            for kind, sizes in found.items()
        }

    @cached_property
    def groups(self) -> Incidence:
        """Groups × what their traffic crosses; items are `comm_groups` in order."""
        return _group_incidence(self)

    @collection_paused()
    def prepare(self) -> None:
        """Build every index now, so that no query pays for one."""
        _ = self.above, self.comm_groups, self.hardware, self.kind_codes, self.group_sizes
        for over in (self.ranks, self.groups):
            _ = over.index, over.sizes, over.classes

    @cached_property
    def comm_groups(self) -> tuple[str, ...]:
        """Groups of two ranks or more, without the world."""
        return tuple(g.id for g in self.topology.groups if len(g.ranks) > 1 and g.kind != "world")


@collection_paused()
def build_fleet(
    facts: Iterable[Facts] = (), *, topology: Topology | None = None, at_s: float | None = None
) -> Fleet:
    """Fleet of everything known; with `at_s` only relations in force at that time.

    ValueError if nothing is known of any rank.
    """
    physical = compose(facts, topology=topology)
    edges: Sequence[Edge] = physical.edges
    if at_s is not None:
        edges = [edge for edge in edges if edge.holds_at(at_s)]
    edges = [*edges, *derive(physical.topology, edges)]
    return Fleet(
        topology=physical.topology,
        edges=tuple(edges),
        attributes=physical.attributes,
        aliases=_short_names(physical),
        ranks=_rank_incidence(physical.topology, edges),
        conflicts=physical.conflicts,
        warnings=physical.warnings,
    )


def _short_names(physical: Physical) -> dict[str, str]:
    """Names people use beside the ids: groups without their kind in front."""
    names = {name: to for name, to in physical.aliases.items() if name != to}
    return names | {group.id: f"group:{group.id}" for group in physical.topology.groups}


def _rank_incidence(topology: Topology, edges: Sequence[Edge]) -> Incidence:
    """Everything reachable upwards from each rank, found for all ranks at once, and its groups."""
    world = topology.world_size
    ids: dict[str, int] = {f"rank:{rank}": rank for rank in range(world)}
    ptr, up = _up(edges, ids)
    items = elements = np.arange(world, dtype=np.int64)
    span = len(ids) + len(topology.groups)
    seen = items * span + elements
    while len(items):
        lengths = ptr[elements + 1] - ptr[elements]
        new = without(np.repeat(items, lengths) * span + gather(ptr, up, rows=elements), seen)
        seen = np.sort(np.concatenate([seen, new]))
        items, elements = new // span, new % span
    sizes = [len(group.ranks) for group in topology.groups]
    members = np.fromiter((rank for group in topology.groups for rank in group.ranks), np.int64, sum(sizes))
    owners = np.repeat(np.arange(len(ids), span), sizes)
    names = (*ids, *(f"group:{group.id}" for group in topology.groups))
    return incidence(
        np.concatenate([seen // span, members]),
        np.concatenate([seen % span, owners]),
        num_items=world,
        ids=names,
        kinds=[kind_of_id(name) for name in names],
    )


def _up(edges: Sequence[Edge], ids: dict[str, int]) -> tuple[Ints, Ints]:
    """Upward edges as compressed rows; names new to `ids` are added to it."""
    switched = {e.source for e in edges if e.kind == "attached" and e.source.startswith("nic:")}
    hosts_by_nic = {e.target for e in edges if e.kind == "part_of" and e.source in switched}
    sources, targets = [], []
    for edge in edges:
        source = ids.setdefault(edge.source, len(ids))
        target = ids.setdefault(edge.target, len(ids))
        # A host whose NICs are cabled one by one reaches the fabric through them, rank by rank.
        through_nics = edge.kind == "attached" and edge.source in hosts_by_nic
        if edge.kind in UP_KINDS and not through_nics:
            sources.append(source)
            targets.append(target)
    return compress_rows(np.array(sources, np.int64), np.array(targets, np.int64), num_rows=len(ids))


def _group_incidence(fleet: Fleet) -> Incidence:
    """What each group's traffic crosses: members' devices always, the network only between hosts."""
    ranks = fleet.ranks
    groups = [fleet.topology.group(group_id) for group_id in fleet.comm_groups]
    sizes = np.array([len(group.ranks) for group in groups], np.int64)
    member = np.array([rank for group in groups for rank in group.ranks], np.int64)
    owner = np.repeat(np.arange(len(groups)), sizes)
    lengths = ranks.item_ptr[member + 1] - ranks.item_ptr[member]
    keys = np.repeat(owner, lengths) * len(ranks.ids) + gather(
        ranks.item_ptr, ranks.item_elements, rows=member
    )
    keys = np.sort(keys)
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else keys
    inside = np.diff(np.append(first, len(keys)))
    keys = keys[first]
    group, element = keys // len(ranks.ids), keys % len(ranks.ids)
    codes = fleet.kind_codes

    def among(*kinds: str) -> Bools:
        wanted = np.array([kind in kinds for kind in fleet.kinds])[codes]
        return np.asarray(wanted[element], np.bool_)

    hosts = np.bincount(group[among("host")], minlength=len(groups))
    leaves = np.bincount(group[among("leaf")], minlength=len(groups))
    uplink = np.array([name.startswith("link:") and name.endswith("--up") for name in ranks.ids])[element]
    crosses = ~among("group", "stage", "rank")
    crosses &= ~(among(*_NETWORK_KINDS) & (hosts < 2)[group])
    crosses &= ~(among("spine") & (leaves < 2)[group])
    crosses &= ~(uplink & (inside == sizes[group]))
    crosses &= ~(among("nvlink_domain") & (inside < 2))
    return incidence(
        group[crosses], element[crosses], num_items=len(groups), ids=ranks.ids, kinds=ranks.kinds
    )


def rename(fleet: Fleet, new_rank: Sequence[int]) -> Fleet:
    """The same fleet with rank r called new_rank[r]: every query follows the names.

    ValueError unless `new_rank` is a permutation.
    """
    world = fleet.topology.world_size
    if sorted(new_rank) != list(range(world)):
        raise ValueError(f"new_rank must be a permutation of 0–{world - 1}")
    old = fleet.topology
    moved = {f"rank:{rank}": f"rank:{new_rank[rank]}" for rank in range(world)}
    groups = tuple(replace(g, ranks=tuple(sorted(new_rank[r] for r in g.ranks))) for g in old.groups)
    renamed = dict(zip((g.id for g in old.groups), groups, strict=True))
    topology = replace(
        old,
        groups=groups,
        named={(new_rank[rank], name): renamed[g.id] for (rank, name), g in old.named.items()},
        hosts={new_rank[rank]: host for rank, host in old.hosts.items()},
        devices={new_rank[rank]: device for rank, device in old.devices.items()},
        gpu_models={new_rank[rank]: model for rank, model in old.gpu_models.items()},
        local_ranks={new_rank[rank]: local for rank, local in old.local_ranks.items()},
        coords={new_rank[rank]: at for rank, at in old.coords.items()},
    )
    edges = tuple(replace(e, source=moved.get(e.source, e.source)) for e in fleet.edges)
    return replace(fleet, topology=topology, edges=edges, ranks=_rank_incidence(topology, edges))


def rank_array(fleet: Fleet, ranks: Iterable[int]) -> Ints:
    """Distinct ranks as an array; NotInTopology for one the attempt has not."""
    found = np.unique(np.fromiter(ranks, np.int64))
    for rank in (found[0], found[-1]) if len(found) else ():
        fleet.topology.check_rank(int(rank))
    return found
