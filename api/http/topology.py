"""The JSON form of an attempt's topology."""

from __future__ import annotations

from collections import defaultdict

from argus.topology.groups import Group
from argus.topology.layout import Topology

MAX_LISTED_RANKS = 1 << 16
"""Ranks listed one by one; a layout that claims more is told by its groups only."""


def topology_json(topology: Topology) -> dict[str, object]:
    """Groups, hosts, devices, and per rank its place in the groups of each kind.

    `coords` maps a kind to the rank's position in its first group of that kind.
    """
    coords: dict[int, dict[str, int]] = defaultdict(dict)
    for group in topology.groups:
        for position, rank in enumerate(group.ranks):
            coords[rank].setdefault(group.kind, position)
    hosts: dict[str, list[int]] = defaultdict(list)
    for rank, host in sorted(topology.hosts.items()):
        hosts[host].append(rank)
    return {
        "run": topology.run,
        "attempt": topology.attempt,
        "world_size": topology.world_size,
        "hosts": [{"host": host, "ranks": ranks} for host, ranks in sorted(hosts.items())],
        "groups": [_group(group) for group in topology.groups],
        "ranks": [
            {
                "rank": rank,
                "host": topology.host_of(rank),
                "device": topology.devices.get(rank, ""),
                "gpu_model": topology.gpu_models.get(rank, ""),
                "coords": coords.get(rank, {}),
            }
            for rank in topology.ranks[:MAX_LISTED_RANKS]
        ],
        "conflicts": list(topology.conflicts),
    }


def _group(group: Group) -> dict[str, object]:
    return {"id": group.id, "kind": group.kind, "ranks": list(group.ranks)}
