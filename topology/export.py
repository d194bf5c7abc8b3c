"""Topologies and fleets as JSON, and back."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from argus.collectors.records.errors import WireError
from argus.collectors.records.layout import GroupInfo, Layout
from argus.topology.facts import Edge
from argus.topology.fleet import Fleet
from argus.topology.layout import Topology

FORMAT = "argus.topology/1"


MAX_LISTED_RANKS = 1 << 16
"""Ranks listed one by one; a layout that claims more is told by its groups only."""


def topology_to_json(topology: Topology) -> dict[str, Any]:
    """Groups, hosts, and per rank its place and coordinates; the HTTP form with more fields."""
    hosts: dict[str, list[int]] = defaultdict(list)
    for rank, host in sorted(topology.hosts.items()):
        hosts[host].append(rank)
    return {
        "run": topology.run,
        "attempt": topology.attempt,
        "world_size": topology.world_size,
        "dims": list(topology.dims),
        "hosts": [{"host": host, "ranks": ranks} for host, ranks in sorted(hosts.items())],
        "groups": [{"id": g.id, "kind": g.kind, "ranks": list(g.ranks)} for g in topology.groups],
        "ranks": [
            {
                "rank": rank,
                "host": topology.host_of(rank),
                "local_rank": topology.local_ranks.get(rank),
                "device": topology.devices.get(rank, ""),
                "gpu_model": topology.gpu_models.get(rank, ""),
                "coords": topology.coordinates_of(rank),
            }
            for rank in topology.ranks[:MAX_LISTED_RANKS]
        ],
        "sources": dict(topology.sources),
        "inferred": list(topology.inferred),
        "conflicts": list(topology.conflicts),
    }


def layouts_from_json(raw: Mapping[str, Any]) -> tuple[Layout, ...]:
    """Records that make the topology of `topology_to_json`, or of `GET /v1/runs/{run}/topology`, again.

    Raises WireError naming the field.
    """
    mine: dict[int, list[GroupInfo]] = defaultdict(list)
    groups = raw.get("groups", [])
    ranks = raw.get("ranks", [])
    if not isinstance(groups, list) or not isinstance(ranks, list):
        raise WireError("topology.groups and topology.ranks must be lists")
    for at, group in enumerate(groups):
        info = _group(group, f"topology.groups[{at}]", world=raw.get("world_size"))
        for rank in info.ranks:
            mine[rank].append(info)
    layouts = []
    seats: dict[str, int] = defaultdict(int)
    for at, row in enumerate(ranks):
        if not isinstance(row, dict):
            raise WireError(f"topology.ranks[{at}] must be an object")
        fields = {key: raw.get(key) for key in ("run", "attempt", "world_size")}
        fields |= {key: row.get(key) or "" for key in ("host", "device", "gpu_model")}
        host = str(row.get("host"))
        seat = seats[host]  # the HTTP form has no local ranks: they are in order
        seats[host] += 1
        local = row.get("local_rank")
        body = {**fields, "rank": row.get("rank"), "local_rank": seat if local is None else local}
        layout = Layout.from_json({**body, "source": "file"})
        layouts.append(replace(layout, groups=tuple(mine.get(layout.rank, ()))))
    return tuple(layouts)


def _group(raw: object, place: str, *, world: object) -> GroupInfo:
    """One group, checked once for all its members, who share it."""
    fields = raw if isinstance(raw, dict) else {}
    name, kind, ranks = fields.get("id"), fields.get("kind"), fields.get("ranks")
    if not isinstance(name, str) or not isinstance(kind, str) or not isinstance(ranks, list):
        raise WireError(f"{place} must be an object with id, kind and ranks")
    limit = world if isinstance(world, int) else 0
    if not all(isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < limit for rank in ranks):
        raise WireError(f"{place}.ranks must be ranks below the world size")
    return GroupInfo(name=name[:256], desc=kind[:256], ranks=tuple(ranks))


def fleet_to_json(fleet: Fleet) -> dict[str, Any]:
    """Everything of a fleet; a file of it loads again as a saved topology."""
    counts = Counter(fleet.ranks.kinds)
    return {
        "format": FORMAT,
        "topology": topology_to_json(fleet.topology),
        "elements": {kind: counts[kind] for kind in fleet.kinds},
        "edges": [edge_to_json(edge) for edge in fleet.edges if not edge.provenance.startswith("derived")],
        "attributes": {element: dict(values) for element, values in fleet.attributes.items() if values},
        "conflicts": list(fleet.conflicts),
        "warnings": list(fleet.warnings),
    }


def edge_to_json(edge: Edge) -> dict[str, Any]:
    """One relation; fields that are not known are left out."""
    row = {"source": edge.source, "target": edge.target, "kind": edge.kind, "provenance": edge.provenance}
    extra = {"capacity_gbps": edge.capacity_gbps, "since_s": edge.since_s, "until_s": edge.until_s}
    return {**row, **{key: value for key, value in extra.items() if value is not None}}
