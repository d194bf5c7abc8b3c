"""One name per host: files say `n7` and `n7.cluster.local` of the same machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from argus.topology.facts import Facts, kind_of_id, moved, name_of_id
from argus.topology.layout import Topology

ON_A_HOST = ("host", "gpu", "nic", "pcie", "half", "nvlink_domain")
"""Kinds whose ids start with their host's name."""


def host_in_id(element: str) -> str:
    """The host an id is of, "" if it is of none.

    >>> host_in_id("nic:n7/mlx5_0"), host_in_id("leaf:12"), host_in_id("gpu:GPU-4f"), host_in_id("half:r1/n7/0")
    ('n7', '', '', 'r1/n7')
    """
    kind, name = kind_of_id(element), name_of_id(element)
    if kind in ("host", "nvlink_domain"):
        return name
    return (
        name.rpartition("/")[0] if kind in ON_A_HOST else ""
    )  # a host's name may hold a slash, its parts' do not


def one_name_per_host(topology: Topology, parts: Sequence[Facts]) -> dict[str, str]:
    """What to call hosts that the ranks know by a longer or shorter name, where that is certain.

    The ranks' own names count; without any, those of the first file that places ranks.
    """
    known = {host for host in topology.hosts.values() if host}
    if not known:
        known = set(next((part.ranks_on for part in parts if part.ranks_on), {}).values())
    by_short: dict[str, set[str]] = defaultdict(set)
    for host in known:
        by_short[host.partition(".")[0]].add(host)
    names: dict[str, str] = {}
    for host in {host for part in parts for host in _hosts(part)} - known:
        same = by_short.get(host.partition(".")[0], set())
        if len(same) == 1 and ("." in host) != ("." in min(same)):
            names[host] = min(same)
    return names


def _hosts(part: Facts) -> Iterator[str]:
    for edge in part.edges:
        for element in (edge.source, edge.target):
            if element.startswith("host:"):
                yield name_of_id(element)
    yield from part.ranks_on.values()
    for layout in part.layouts:
        yield layout.env.get("SLURM_TOPOLOGY_ADDR", "").rpartition(".")[2]


def rename_hosts(part: Facts, names: Mapping[str, str]) -> Facts:
    """The facts with hosts called by their new names."""
    if not names:
        return part

    def new(element: str) -> str:
        host = host_in_id(element)
        if host not in names:
            return element
        return f"{kind_of_id(element)}:{names[host]}{name_of_id(element)[len(host) :]}"

    return replace(
        part,
        edges=tuple(moved(edge, source=new(edge.source), target=new(edge.target)) for edge in part.edges),
        attributes={new(element): values for element, values in part.attributes.items()},
        ranks_on={rank: names.get(host, host) for rank, host in part.ranks_on.items()},
    )
