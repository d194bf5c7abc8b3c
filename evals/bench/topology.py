"""The graph of 10,240 ranks: time to build it, the slowest query, and the memory of it all."""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from argus.collectors.records.layout import GroupInfo, Layout
from argus.evals.bench import Size
from argus.topology.collect import Collector
from argus.topology.compare import difference
from argus.topology.facts import Facts
from argus.topology.fleet import Fleet, build_fleet
from argus.topology.graph import to_networkx
from argus.topology.megatron import megatron
from argus.topology.paths import path_between
from argus.topology.reach import blast_radius, waiters_on, waits_of
from argus.topology.scope import scope_of_groups, shared_elements, smallest_scope
from argus.topology.words import describe_rank

BUILD_LIMIT_S = 3.0
QUERY_LIMIT_MS = 50.0
MEMORY_LIMIT_MB = 1024.0

RANKS = {"smoke": 1024, "default": 10_240, "full": 10_240}
PER_HOST = 8
HOSTS_PER_BLOCK = 16
SPINES = 8
KINDS = ("tp", "dp", "pp", "ep", "edp")
REPEATS = 3
"""Each call counts by its best of three: on a busy machine the rest measures the neighbours."""

ELEMENTS = (
    "gpu:GPU-00000005",
    "nic:h-0003/mlx5_1",
    "host:h-0003",
    "half:h-0003/1",
    "leaf:b1-r2",
    "rail:5",
    "spine:s2",
    "rack:r1",
    "stage:1",
    "group:dp/1",
    "group:edp/1",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--ranks` for another size of cluster."""
    parser.add_argument("--ranks", type=int, default=0, metavar="N", help="ranks, a multiple of 1024")


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Build and query in a process of its own, whose peak memory is then the graph's."""
    ranks = args.ranks or RANKS[size]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measure, ranks).result()


def table(result: Mapping[str, Any]) -> str:
    """The figures as a Markdown table."""
    rows = [
        ("ranks", f"{result['ranks']:,}", ""),
        ("elements, relations", f"{result['elements']:,}, {result['relations']:,}", ""),
        ("built, networkx graph included (s)", f"{result['build_s']:.2f}", f"≤ {BUILD_LIMIT_S:g}"),
        (
            f"slowest query: {result['slowest']} (ms)",
            f"{result['query_ms_max']:.1f}",
            f"≤ {QUERY_LIMIT_MS:g}",
        ),
        ("peak memory of the process (MB)", f"{result['peak_rss_mb']:.0f}", f"≤ {MEMORY_LIMIT_MB:g}"),
    ]
    lines = [f"| {name} | {value} | {limit} |" for name, value, limit in rows]
    return "\n".join(["| what | measured | must |", "|---|---|---|", *lines])


def measure(ranks: int) -> dict[str, Any]:
    """Figures of one cluster size."""
    layouts, facts = records(ranks), cabling(ranks)
    begin = time.perf_counter()
    fleet = build_fleet((Facts(loader="layouts", origin="live", layouts=layouts), facts))
    fleet.prepare()
    graph = to_networkx(fleet)
    build_s = time.perf_counter() - begin
    times = {name: max(_best_ms(call) for call in calls) for name, calls in queries(fleet).items()}
    slowest = max(times, key=lambda name: times[name])
    peak_rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "build_s": round(build_s, 3),
        "query_ms_max": round(times[slowest], 3),
        "peak_rss_mb": round(peak_rss_mb, 1),
        "slowest": slowest,
        "query_ms": {name: round(value, 3) for name, value in times.items()},
        "ranks": ranks,
        "elements": graph.number_of_nodes(),
        "relations": graph.number_of_edges(),
        "ok": build_s <= BUILD_LIMIT_S
        and times[slowest] <= QUERY_LIMIT_MS
        and peak_rss_mb <= MEMORY_LIMIT_MB,
    }


def _best_ms(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return best * 1e3


def records(ranks: int) -> tuple[Layout, ...]:
    """Live layout records with five kinds of groups."""
    parallel = megatron(ranks, tp=8, pp=8, ep=8, etp=1)
    mine: list[list[GroupInfo]] = [[] for _ in range(ranks)]
    for kind in KINDS:
        for number, row in enumerate(parallel.members(kind).tolist()):
            info = GroupInfo(name=f"{kind}{number}", desc=kind, ranks=tuple(row))
            for rank in row:
                mine[rank].append(info)
    return tuple(
        Layout(
            run="bench",
            attempt=0,
            rank=rank,
            world_size=ranks,
            local_rank=rank % PER_HOST,
            host=f"h-{rank // PER_HOST:04d}",
            device=f"GPU-{rank:08d}",
            groups=tuple(groups),
        )
        for rank, groups in enumerate(mine)
    )


def cabling(ranks: int) -> Facts:
    """A rail-optimised fabric: NIC k of a block's hosts on its leaf k, leaves under all spines."""
    found = Collector("topology_yaml", origin="bench")
    for host in range(ranks // PER_HOST):
        name, block = f"h-{host:04d}", host // HOSTS_PER_BLOCK
        found.edge(f"host:{name}", f"rack:r{host // 4}", kind="part_of")
        for k in range(PER_HOST):
            nic = f"nic:{name}/mlx5_{k}"
            found.edge(f"gpu:{name}/{k}", nic, kind="uses")
            found.edge(nic, f"host:{name}", kind="part_of")
            found.edge(nic, f"rail:{k}", kind="part_of")
            found.edge(nic, f"leaf:b{block}-r{k}", kind="attached", gbps=400.0)
    for block in range(-(-ranks // PER_HOST // HOSTS_PER_BLOCK)):
        for k in range(PER_HOST):
            for spine in range(SPINES):
                found.edge(f"leaf:b{block}-r{k}", f"spine:s{spine}", kind="attached", gbps=400.0)
    return found.facts()


Calls = list[Callable[[], object]]


def queries(fleet: Fleet) -> dict[str, Calls]:
    """Every query of the product with arguments from the easiest to the hardest."""
    world = fleet.topology.world_size
    some = (0, world // 3, world - 1)
    sets = list(_suspects(fleet))
    crossing = [
        [fleet.comm_groups[i] for i in fleet.groups.items_of(fleet.groups.index[name]).tolist()]
        for name in ELEMENTS[1:6]
    ]
    natures = ("self_time", "transfer", "copy")
    phases = ("grad_sync", "forward", "backward", "ep_comm")
    return {
        "groups of a rank": [partial(fleet.topology.groups_of, r) for r in some],
        "peers of a rank": [partial(fleet.topology.peers_of, r, "grad_sync") for r in some],
        "ranks of an element": [partial(fleet.ranks_of, e) for e in ELEMENTS],
        "shared elements": [partial(shared_elements, fleet, s) for s in sets],
        "scope of ranks": [partial(smallest_scope, fleet, s, nature=n) for s in sets for n in natures],
        "scope of groups": [partial(scope_of_groups, fleet, names) for names in crossing],
        "path between ranks": [
            partial(path_between, fleet, source=a, target=b) for a in some for b in (1, world - 2)
        ],
        "blast radius": [partial(blast_radius, fleet, e) for e in ELEMENTS],
        "waits of a rank": [partial(waits_of, fleet, r, phase=p) for r in some for p in phases],
        "waiters on a rank": [partial(waiters_on, fleet, r, phase=p) for r in some for p in phases],
        "difference": [partial(difference, fleet, fleet)],
        "words": [partial(describe_rank, fleet, r) for r in some],
    }


def _suspects(fleet: Fleet) -> Iterator[Sequence[int]]:
    """Each element's ranks with noise, two elements at once, and no cause at all."""
    rng = np.random.default_rng(0)
    world = fleet.topology.world_size
    for name in ELEMENTS:
        members = np.array(fleet.ranks_of(name))
        kept = rng.permutation(members)[round(len(members) * 0.1) :]
        yield np.unique([*kept, *rng.choice(world, max(1, len(members) // 50))]).tolist()
    yield [*fleet.ranks_of("host:h-0003"), *fleet.ranks_of("leaf:b1-r2")]
    yield rng.choice(world, world // 20, replace=False).tolist()
    yield rng.choice(world, world // 2, replace=False).tolist()
