"""Clusters for the tests: hosts, NICs, switches and a Megatron layout of any size."""

from __future__ import annotations

from dataclasses import dataclass

from argus.topology.collect import Collector
from argus.topology.facts import Facts
from argus.topology.fleet import Fleet, build_fleet
from argus.topology.identity import Declared
from argus.topology.megatron import megatron


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A cluster: sizes of the layout and of the fabric."""

    world: int = 64
    per_host: int = 8
    nics_per_host: int = 4
    hosts_per_leaf: int = 4
    leaves_per_pod: int = 4
    spines: int = 4
    is_rail_optimised: bool = False
    tp: int = 2
    pp: int = 2
    ep: int = 4


def cluster(shape: Shape) -> Facts:
    """Facts as a site's own loader would give them."""
    found = Collector("topology_yaml", origin="cluster.yaml")
    gpus_per_nic = shape.per_host // shape.nics_per_host
    for h in range(shape.world // shape.per_host):
        host = f"h-{h:04d}"
        block = h // shape.hosts_per_leaf
        found.edge(f"host:{host}", f"rack:r{h // 2:03d}", kind="part_of")
        for n in range(shape.nics_per_host):
            nic = f"nic:{host}/mlx5_{n}"
            leaf = f"leaf:l{block}-{n}" if shape.is_rail_optimised else f"leaf:l{block}"
            found.edge(nic, f"host:{host}", kind="part_of")
            found.edge(nic, leaf, kind="attached", gbps=400.0)
            found.edge(nic, f"rail:{n}", kind="part_of")
            for s in range(shape.spines):
                found.edge(leaf, f"spine:s{block // shape.leaves_per_pod}-{s}", kind="attached")
            for g in range(n * gpus_per_nic, (n + 1) * gpus_per_nic):
                found.edge(f"gpu:{host}/{g}", nic, kind="uses")
        for g in range(shape.per_host):
            found.edge(f"gpu:{host}/{g}", f"host:{host}", kind="part_of")
    ranks_on = {rank: f"h-{rank // shape.per_host:04d}" for rank in range(shape.world)}
    parallel = megatron(shape.world, tp=shape.tp, pp=shape.pp, ep=shape.ep, etp=1)
    facts = found.facts(ranks_on=ranks_on)
    return Facts(
        loader=facts.loader,
        origin=facts.origin,
        edges=facts.edges,
        attributes=facts.attributes,
        ranks_on=ranks_on,
        declared=(Declared(parallel=parallel, source="file", origin="cluster.yaml"),),
    )


def fleet(shape: Shape) -> Fleet:
    """The fleet of a shape."""
    return build_fleet((cluster(shape),))
