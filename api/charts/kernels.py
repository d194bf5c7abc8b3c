"""Distributions of kernel durations of suspects against their peers, rebuilt from the packed summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection

from argus.analytics.kernels.kinds import is_of_experts, kind_of, short_name
from argus.analytics.kernels.mixture import Mixture, cdf, fit, quantile
from argus.analytics.kernels.table import Kernel, KernelTable, dense, open_table
from argus.analytics.peers import expert_classes, work_classes
from argus.analytics.store import asked, charts, kernels
from argus.analytics.store.queries import Which
from argus.analytics.window import Floats, Ints
from argus.collectors.records.text import tame
from argus.topology.layout import Topology

Json = dict[str, Any]

MAX_KERNELS = 8
"""Kernels shown, those that cost the suspects most beyond their peers."""

MAX_PEERS = 15
"""Peers read, spread over all of them: their band moves little with more."""

POINTS = 96
LOWEST, HIGHEST = 0.001, 0.999
MAX_NAME = 80


def kernel_chart(
    connection: Connection, which: Which, topology: Topology, *, ranks: Sequence[int], upto: int | None
) -> Json | None:
    """CDFs of the costliest kernels in the last window that has any; None if none has."""
    window = charts.kernel_window(connection, which.id, upto=upto)
    if window is None:
        return None
    everyone = np.arange(topology.world_size, dtype=np.int64)
    plain, holders = work_classes(topology, everyone), expert_classes(topology, everyone)
    peers = _peers(plain, ranks)
    experts = peers if holders is None else _peers(holders, ranks)
    hosts = sorted({topology.host_of(rank) for rank in (*ranks, *peers, *experts)} - {""})
    blobs = asked.blobs_of_hosts(connection, which.id, window, hosts=hosts)
    table = open_table(blobs, texts=kernels.used_names(connection, blobs))
    known = {int(rank): at for at, rank in enumerate(table.ranks)}
    here = [rank for rank in ranks if rank in known]
    alike = [rank for rank in here if holders is None or holders[rank] == holders[ranks[0]]]
    whole, of_experts = (
        _Sides(ours={rank: known[rank] for rank in mine}, theirs=[known[r] for r in others if r in known])
        for mine, others in ((here, peers), (alike, experts))
    )
    rows = _rows(table, whole, of_experts=of_experts)
    return {
        "run": which.run,
        "attempt": which.attempt,
        "window": window,
        "ranks": here,
        "peers": [rank for rank in peers if rank in known],
        "num_kernels": len(table.kernels),
        "kernels": [_curves(table, row) for row in rows],
    }


def _peers(classes: Ints, ranks: Sequence[int]) -> list[int]:
    same = np.flatnonzero(classes == classes[ranks[0]])
    others = same[~np.isin(same, ranks)]
    if not len(others):
        return []
    spread = np.unique(np.linspace(0, len(others) - 1, MAX_PEERS).astype(int))
    return [int(rank) for rank in others[spread]]


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """Who is compared with whom: `ours` are ranks with their places in the table, `theirs` places."""

    ours: Mapping[int, int]
    theirs: Sequence[int]

    def of(self, count: Floats) -> _Sides:
        """Those who launched a kernel; `count` is theirs by place."""
        return _Sides(
            ours={rank: at for rank, at in self.ours.items() if count[at] > 0},
            theirs=[at for at in self.theirs if count[at] > 0],
        )


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A kernel and who is compared in it; seconds a window beyond the peers' and the ratio of means."""

    kernel: Kernel
    sides: _Sides
    excess_s: float
    ratio: float


def _rows(table: KernelTable, whole: _Sides, *, of_experts: _Sides) -> list[_Row]:
    """The costliest kernels first; those of experts are compared between ranks that hold the same ones."""
    found = []
    for kernel in dense(table, 0, last=len(table.kernels)):
        count, total_s = _sums(kernel)
        is_expert = is_of_experts(*(table.text(key) for key in kernel.key))
        sides = (of_experts if is_expert else whole).of(count)
        if not sides.ours or not sides.theirs:
            continue
        mine = list(sides.ours.values())
        excess_s = float(total_s[mine].max() - np.median(total_s[sides.theirs]))
        means = [float(total_s[some].sum() / count[some].sum()) for some in (mine, sides.theirs)]
        ratio = means[0] / means[1] if means[1] > 0 else float("nan")
        found.append(_Row(kernel=kernel, sides=sides, excess_s=excess_s, ratio=ratio))
    return sorted(found, key=lambda row: -row.excess_s)[:MAX_KERNELS]


def _sums(kernel: Kernel) -> tuple[Floats, Floats]:
    count = kernel.count.astype(np.float64)
    log_mean = np.where(np.isfinite(kernel.log_mean), kernel.log_mean, kernel.log_p50).astype(np.float64)
    return count.sum(axis=0), (count * np.exp(log_mean)).sum(axis=0) * 1e-9


def _curves(table: KernelTable, row: _Row) -> Json:
    kernel, ours = row.kernel, row.sides.ours
    name, role = (table.text(key) for key in kernel.key)
    us, them = _shape(kernel, list(ours.values())), _shape(kernel, row.sides.theirs)
    ends = np.array([LOWEST, HIGHEST])
    bounds = np.concatenate([quantile(us, ends), quantile(them, ends)])
    low, high = np.log(np.nanmin(bounds)), np.log(np.nanmax(bounds))
    grid = np.linspace(low - 0.01, high + 0.01, POINTS)
    others = cdf(them, grid)
    return {
        "kernel": tame(short_name(name), MAX_NAME),
        "role": tame(role, 32),
        "kind": kind_of(name, role),
        "ratio": row.ratio,
        "excess_s": row.excess_s,
        "x_s": (np.exp(grid) * 1e-9).tolist(),
        "suspects": {str(rank): cdf(us, grid)[at].tolist() for at, rank in enumerate(ours)},
        "peers_low": others.min(axis=0).tolist(),
        "peers_mid": np.median(others, axis=0).tolist(),
        "peers_high": others.max(axis=0).tolist(),
    }


def _shape(kernel: Kernel, seen: Sequence[int]) -> Mixture:
    """The mixtures of some ranks that launched the kernel."""
    columns = {
        name: getattr(kernel, name)[:, seen].T.astype(np.float64)
        for name in ("log_p50", "log_p99", "log_max", "log_mean")
    }
    return fit(kernel.count[:, seen].T.astype(np.int64), columns.pop("log_p50"), **columns)
