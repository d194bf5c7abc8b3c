"""Relations nobody wrote down but the rest implies: halves, rails, stages, NICs by position, cables."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from argus.topology.facts import Edge, kind_of_id, name_of_id
from argus.topology.layout import Topology

MIN_RANKS_TO_HALVE = 4
"""A host of fewer ranks has no halves worth naming apart from its GPUs."""

SWITCH_KINDS = ("leaf", "spine", "pod", "zone")


def derive(topology: Topology, edges: Sequence[Edge]) -> tuple[Edge, ...]:
    """Edges that follow; each says in its provenance that it is derived and from what."""
    by_source: dict[str, list[Edge]] = defaultdict(list)
    for edge in edges:
        by_source[edge.source].append(edge)
    seat = _seats(topology, by_source)
    new = [*_halves(topology, seat, by_source), *_nics_used(topology, seat, edges, by_source)]
    new += _stages(topology)
    for edge in new:
        by_source[edge.source].append(edge)
    new += _rails(topology, seat, edges)
    return (*new, *_links([*edges, *new]))


def _edge(source: str, target: str, kind: str, why: str, gbps: float | None = None) -> Edge:
    return Edge(source=source, target=target, kind=kind, provenance=f"derived: {why}", capacity_gbps=gbps)


def _seats(topology: Topology, by_source: Mapping[str, list[Edge]]) -> dict[int, str]:
    """What each rank runs on: its GPU, else the rank itself."""
    return {
        rank: next(
            (e.target for e in by_source.get(f"rank:{rank}", ()) if e.target.startswith("gpu:")),
            f"rank:{rank}",
        )
        for rank in topology.hosts
    }


def _hosts(topology: Topology) -> Iterator[tuple[str, tuple[int, ...]]]:
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank, host in sorted(topology.hosts.items()):
        if host:
            by_host[host].append(rank)
    local = topology.local_ranks
    for host, ranks in by_host.items():
        yield host, tuple(sorted(ranks, key=lambda rank: (local.get(rank, rank), rank)))


def _halves(
    topology: Topology, seat: Mapping[int, str], by_source: Mapping[str, list[Edge]]
) -> Iterator[Edge]:
    for host, ranks in _hosts(topology):
        known = any(e.target.startswith("half:") for rank in ranks for e in by_source.get(seat[rank], ()))
        if known or len(ranks) < MIN_RANKS_TO_HALVE or len(ranks) % 2:
            continue
        for at, rank in enumerate(ranks):
            half = f"half:{host}/{int(at >= len(ranks) // 2)}"
            yield _edge(seat[rank], half, "part_of", "first and second half of the local ranks")


def _nics_used(
    topology: Topology, seat: Mapping[int, str], edges: Sequence[Edge], by_source: Mapping[str, list[Edge]]
) -> Iterator[Edge]:
    """NICs of a host shared out by position where no file says which GPU uses which."""
    nics: dict[str, list[str]] = defaultdict(list)
    for edge in edges:
        if edge.kind == "part_of" and edge.source.startswith("nic:") and edge.target.startswith("host:"):
            nics[name_of_id(edge.target)].append(edge.source)
    for host, ranks in _hosts(topology):
        mine = sorted(set(nics.get(host, ())), key=natural)
        if not mine or any(e.kind == "uses" for rank in ranks for e in by_source.get(seat[rank], ())):
            continue
        for at, rank in enumerate(ranks):
            for nic in _share(mine, at, len(ranks)):
                yield _edge(seat[rank], nic, "uses", "NICs shared out over the local ranks in order")


def _share(nics: Sequence[str], at: int, total: int) -> Sequence[str]:
    if total % len(nics) == 0:
        return (nics[at // (total // len(nics))],)
    if len(nics) % total == 0:
        per = len(nics) // total
        return nics[at * per : (at + 1) * per]
    return nics


def natural(text: str) -> tuple[tuple[int, str], ...]:
    """Sort key that counts: mlx5_2 before mlx5_10."""
    return tuple(
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]{1,18})", text)
    )


def _stages(topology: Topology) -> Iterator[Edge]:
    if "pp" not in topology.dims:
        return
    at = topology.dims.index("pp")
    for rank, coords in topology.coords.items():
        yield _edge(f"rank:{rank}", f"stage:{coords[at]}", "part_of", "pipeline coordinate")


def _rails(topology: Topology, seat: Mapping[int, str], edges: Sequence[Edge]) -> Iterator[Edge]:
    """Rail k: the k-th rank of every host, where no NIC says its rail."""
    if any(e.target.startswith("rail:") for e in edges):
        return
    hosts = [ranks for _, ranks in _hosts(topology)]
    if len(hosts) < 2 or max(map(len, hosts)) < 2:
        return
    for ranks in hosts:
        for at, rank in enumerate(ranks):
            yield _edge(seat[rank], f"rail:{at}", "part_of", "same place among the local ranks")


def _links(edges: Iterable[Edge]) -> Iterator[Edge]:
    """Cables as elements: NIC to switch one by one, a switch's uplinks as one set."""
    seen: set[str] = set()
    for edge in edges:
        if edge.kind != "attached":
            continue
        name = name_of_id(edge.source)
        if edge.source.startswith("nic:"):
            link = f"link:{name}--{name_of_id(edge.target)}"
        elif kind_of_id(edge.source) in SWITCH_KINDS:
            link = f"link:{name}--up"
        else:
            continue
        if link not in seen:
            seen.add(link)
            yield _edge(edge.source, link, "part_of", "the cables of an attachment", edge.capacity_gbps)
