"""Several files and records as one graph: names resolved, contradictions told, gaps derived."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from argus.topology.collect import Collector, gpu_id
from argus.topology.facts import ANY_HOST, Edge, Facts, kind_of_id, moved, name_of_id, whole_number
from argus.topology.hosts import host_in_id, one_name_per_host, rename_hosts
from argus.topology.layout import Topology, build
from argus.topology.loaders.slurm_env import emit_address

LOADER_TRUST = (
    "layouts",
    "inventory",
    "nccl_xml",
    "nvidia_smi_topo",
    "kubernetes",
    "slurm_topology",
    "slurm_yaml",
    "slurm_env",
    "hostlist",
    "saved",
    "topology_yaml",
)
"""Who is believed where physical facts differ: the device itself, the scheduler, then what people wrote."""

ONE_PARENT = frozenset(
    {
        ("rank", "gpu"),
        ("rank", "host"),
        ("gpu", "host"),
        ("gpu", "pcie"),
        ("gpu", "half"),
        ("nic", "host"),
        ("host", "rack"),
        ("host", "nvlink_domain"),
        ("host", "pod"),
        ("host", "zone"),
        ("rack", "pod"),
        ("pod", "zone"),
    }
)
"""Relations with one answer: two sources that give two are in conflict."""


@dataclass(frozen=True, kw_only=True)
class Physical:
    """The composed graph: edges between canonical ids, and what could not be used."""

    topology: Topology
    edges: tuple[Edge, ...]
    attributes: Mapping[str, Mapping[str, str]]
    aliases: Mapping[str, str] = field(default_factory=dict)
    conflicts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Claim:
    loader: str
    edge: Edge


def compose(facts: Iterable[Facts], *, topology: Topology | None = None) -> Physical:
    """One graph of all facts, and of `topology` if a live one is known; ValueError if there is no rank."""
    parts = tuple(facts)
    conflicts: list[str] = []
    if topology is None:
        topology = build(
            (layout for part in parts for layout in part.layouts),
            declared=[item for part in parts for item in part.declared],
        )
    names = one_name_per_host(topology, parts)
    parts = tuple(rename_hosts(part, names) for part in parts)
    topology = _place_ranks(topology, parts, conflicts)
    parts = tuple(_expand(part, topology, parts) for part in parts)
    parts = (*parts, rename_hosts(_from_layouts(topology, parts), names))
    canonical = _canonical(edge for part in parts for edge in part.edges if edge.kind == "same")
    claims = _claims(parts, canonical)
    edges = _settle(claims, conflicts)
    attributes: dict[str, dict[str, str]] = defaultdict(dict)
    for part in sorted(parts, key=lambda part: -_trust(part.loader)):
        for element, values in part.attributes.items():
            attributes[canonical.get(element, element)].update(values)
    return Physical(
        topology=replace(topology, conflicts=(*topology.conflicts, *conflicts)),
        edges=tuple(edges),
        attributes=attributes,
        aliases=canonical,
        conflicts=(*topology.conflicts, *conflicts),
        warnings=tuple(text for part in parts for text in part.warnings),
    )


def _trust(loader: str) -> int:
    return LOADER_TRUST.index(loader) if loader in LOADER_TRUST else len(LOADER_TRUST)


def _place_ranks(topology: Topology, parts: Sequence[Facts], conflicts: list[str]) -> Topology:
    """Hosts of ranks that no record places, from the scheduler or a file."""
    hosts = {rank: host for rank, host in topology.hosts.items() if host}
    said_by = dict.fromkeys(hosts, "the rank's record")
    sources: dict[str, str] = {}
    for part in sorted(parts, key=lambda part: _trust(part.loader)):
        disputed: list[int] = []
        for rank, host in part.ranks_on.items():
            if not 0 <= rank < topology.world_size:
                continue
            if rank not in hosts:
                hosts[rank], said_by[rank] = host, f"{part.loader} {part.origin}"
                sources["hosts"] = part.loader
            elif hosts[rank] != host:
                disputed.append(rank)
        if disputed:
            rank = disputed[0]
            conflicts.append(
                f"rank {rank} is on host {hosts[rank]!r}, says {said_by[rank]}, and on host "
                f"{part.ranks_on[rank]!r}, says {part.loader} {part.origin} ({len(disputed)} ranks); "
                f"{said_by[rank]} is used"
            )
    return replace(topology, hosts=hosts, sources={**sources, **topology.sources})


def _expand(part: Facts, topology: Topology, parts: Sequence[Facts]) -> Facts:
    """Facts of every host (`*`) written out for each host that no file describes by itself."""
    if not any(host_in_id(e.source) == ANY_HOST for e in part.edges):
        return part
    described = {
        name_of_id(edge.target)
        for other in parts
        if other.loader == part.loader
        for edge in other.edges
        if kind_of_id(edge.target) == "host"
    }
    hosts = [host for host in dict.fromkeys(topology.hosts.values()) if host and host not in described]
    copies = [rename_hosts(part, {ANY_HOST: host}) for host in hosts]
    return replace(
        part,
        edges=tuple(edge for copy in copies for edge in copy.edges),
        attributes={element: row for copy in copies for element, row in copy.attributes.items()},
    )


def _from_layouts(topology: Topology, parts: Sequence[Facts]) -> Facts:
    """Edges rank → GPU → host of the records, and the switches a task's Slurm address names."""
    found = Collector("layouts", origin="records")
    indexed = {e.source for p in parts for e in p.edges if e.source.startswith("gpu:")}
    indexed |= {e.target for p in parts for e in p.edges if e.target.startswith("gpu:")}
    local = gpu_indices(topology, parts)
    for rank, host in topology.hosts.items():
        device = topology.devices.get(rank, "")
        by_index = f"gpu:{host}/{local[rank]}" if rank in local else ""
        if not host and not device:
            continue
        if device:
            gpu = gpu_id(host, device)
            found.edge(f"rank:{rank}", gpu, kind="runs_on")
            found.note(gpu, model=topology.gpu_models.get(rank, ""))
            if host:
                found.edge(gpu, f"host:{host}", kind="part_of")
            if by_index != gpu and by_index in indexed:
                found.edge(gpu, by_index, kind="same")
        elif by_index in indexed:
            found.edge(f"rank:{rank}", by_index, kind="runs_on")
            found.edge(by_index, f"host:{host}", kind="part_of")
        else:
            found.edge(f"rank:{rank}", f"host:{host}", kind="runs_on")
    for address, pattern in {_address(part, i) for part in parts for i in range(len(part.layouts))}:
        if address:
            emit_address(found, address, pattern=pattern)
    return found.facts()


def gpu_indices(topology: Topology, parts: Sequence[Facts]) -> dict[int, int]:
    """Index of each rank's GPU on its host: its local rank, seen through CUDA_VISIBLE_DEVICES.

    Without those of which that tells no index: UUIDs, and containers of one GPU each, in every one of which it is 0.
    """
    local = local_ranks(topology)
    found = dict(local)
    for layout in (layout for part in parts for layout in part.layouts):
        visible = layout.env.get("CUDA_VISIBLE_DEVICES", "").split(",")
        if layout.rank not in local or visible == [""]:
            continue
        at = 0 if len(visible) == 1 else local[layout.rank]  # one each, or the same list for all
        index = whole_number(visible[at].strip()) if at < len(visible) else None
        if index is not None:
            found[layout.rank] = index
        else:
            found.pop(layout.rank, None)
    claims: dict[tuple[str, int], list[int]] = defaultdict(list)
    for rank, index in found.items():
        claims[topology.hosts[rank], index].append(rank)
    return {
        rank: index
        for (_, index), ranks in claims.items()
        for rank in ranks
        if len(ranks) == 1 or len({topology.devices.get(one) or f"unknown {one}" for one in ranks}) == 1
    }


def local_ranks(topology: Topology) -> dict[int, int]:
    """Place of each rank on its host: as recorded where that tells ranks apart, else in order."""
    by_host: dict[str, list[int]] = defaultdict(list)
    for rank, host in sorted(topology.hosts.items()):
        by_host[host].append(rank)
    found: dict[int, int] = {}
    for ranks in by_host.values():
        said = [topology.local_ranks.get(rank, 0) for rank in ranks]
        order = said if len(set(said)) == len(said) else range(len(ranks))
        found |= dict(zip(ranks, order, strict=True))
    return found


def _address(part: Facts, at: int) -> tuple[str, str]:
    env = part.layouts[at].env
    return env.get("SLURM_TOPOLOGY_ADDR", ""), env.get("SLURM_TOPOLOGY_ADDR_PATTERN", "")


def _canonical(same: Iterable[Edge]) -> dict[str, str]:
    """One id per element of several names: UUID before PCI address before index."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for edge in same:
        a, b = sorted((root(edge.source), root(edge.target)), key=_preference)
        if _preference(a)[0] == 0 and _preference(b)[0] == 0 and a != b:
            continue  # two UUIDs are two devices, whatever an index says
        parent[b] = a
    return {name: root(name) for name in parent}


def _preference(element: str) -> tuple[int, str]:
    name = name_of_id(element)
    order = 0 if name.startswith(("GPU-", "MIG-")) else 1 if name.count(":") == 2 else 2
    return order, element


def _claims(parts: Sequence[Facts], canonical: Mapping[str, str]) -> dict[tuple[str, str, str], list[_Claim]]:
    """All edges by (source, edge kind, kind of target), each under its canonical names."""
    claims: dict[tuple[str, str, str], list[_Claim]] = defaultdict(list)
    for part in parts:
        for edge in part.edges:
            if edge.kind == "same":
                continue
            source = canonical.get(edge.source, edge.source)
            target = canonical.get(edge.target, edge.target)
            if source != target:
                if source is not edge.source or target is not edge.target:
                    edge = moved(edge, source=source, target=target)
                key = (source, edge.kind, kind_of_id(target))
                claims[key].append(_Claim(loader=part.loader, edge=edge))
    return claims


def _settle(claims: Mapping[tuple[str, str, str], list[_Claim]], conflicts: list[str]) -> list[Edge]:
    edges: list[Edge] = []
    for (source, _, target_kind), rows in claims.items():
        if len(rows) == 1:
            edges.append(rows[0].edge)
            continue
        rows = sorted(rows, key=lambda claim: _trust(claim.loader))
        best = {claim.edge.target for claim in rows if claim.loader == rows[0].loader}
        single = (kind_of_id(source), target_kind) in ONE_PARENT
        kept: dict[str, Edge] = {}
        for claim in rows:
            target = claim.edge.target
            timed = claim.edge.since_s is not None or claim.edge.until_s is not None
            differs = target not in best and claim.loader != rows[0].loader and claim.edge.kind != "nvlink"
            if not timed and ((single and kept and target not in kept) or (differs and target not in kept)):
                conflicts.append(
                    f"{source} is at {rows[0].edge.target} ({rows[0].edge.provenance}) and at {target} "
                    f"({claim.edge.provenance}); the first is used"
                )
            elif target not in kept:
                kept[target] = claim.edge
            elif kept[target].capacity_gbps is None and claim.edge.capacity_gbps is not None:
                kept[target] = replace(kept[target], capacity_gbps=claim.edge.capacity_gbps)
        edges += kept.values()
    return edges
