"""Distributions of kernel durations of suspects against their peers, rebuilt from the packed summaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection

from argus.analytics.kernel_kinds import GROUPED, kind_of, short_name
from argus.analytics.kernel_table import Kernel, KernelTable, dense, open_table
from argus.analytics.mixture import Mixture, cdf, fit, quantile
from argus.analytics.peers import classes_of_kind
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
    peers = _peers(topology, ranks, kind="")
    experts = _peers(topology, ranks, kind=GROUPED)
    hosts = sorted({topology.host_of(rank) for rank in (*ranks, *peers, *experts)} - {""})
    blobs = asked.blobs_of_hosts(connection, which.id, window, hosts=hosts)
    table = open_table(blobs, texts=kernels.used_names(connection, blobs))
    known = {int(rank): at for at, rank in enumerate(table.ranks)}
    here = [rank for rank in ranks if rank in known]
    beside = [rank for rank in peers if rank in known]
    mine, theirs, holders = (
        np.array([known[rank] for rank in some if rank in known], np.int64) for some in (here, peers, experts)
    )
    rows = _rows(table, mine, theirs=theirs, holders=holders) if here and beside else []
    return {
        "run": which.run,
        "attempt": which.attempt,
        "window": window,
        "ranks": here,
        "peers": beside,
        "num_kernels": len(table.kernels),
        "kernels": [_curves(table, row, here=here, mine=mine) for row in rows],
    }


def _peers(topology: Topology, ranks: Sequence[int], *, kind: str) -> list[int]:
    everyone = np.arange(topology.world_size, dtype=np.int64)
    classes = classes_of_kind(topology, everyone, kind=kind)
    same = np.flatnonzero(classes == classes[ranks[0]])
    others = same[~np.isin(same, ranks)]
    if not len(others):
        return []
    spread = np.unique(np.linspace(0, len(others) - 1, MAX_PEERS).astype(int))
    return [int(rank) for rank in others[spread]]


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A kernel and the places of those it is compared with; seconds a window beyond theirs, ratio of means."""

    kernel: Kernel
    theirs: Ints
    excess_s: float
    ratio: float


def _rows(table: KernelTable, mine: Ints, *, theirs: Ints, holders: Ints) -> list[_Row]:
    """The costliest kernels first; those of experts are compared with the `holders` of the same ones."""
    peers, found = theirs, []
    for kernel in dense(table, 0, last=len(table.kernels)):
        count, total_s = _sums(kernel)
        is_grouped = kind_of(*(table.text(key) for key in kernel.key)) == GROUPED
        theirs = holders if is_grouped else peers
        if not count[mine].sum() or not count[theirs].sum():
            continue
        excess_s = float(total_s[mine].max() - np.median(total_s[theirs]))
        means = [float(total_s[some].sum() / count[some].sum()) for some in (mine, theirs)]
        ratio = means[0] / means[1] if means[1] > 0 else float("nan")
        found.append(_Row(kernel=kernel, theirs=theirs, excess_s=excess_s, ratio=ratio))
    return sorted(found, key=lambda row: -row.excess_s)[:MAX_KERNELS]


def _sums(kernel: Kernel) -> tuple[Floats, Floats]:
    count = kernel.count.astype(np.float64)
    log_mean = np.where(np.isfinite(kernel.log_mean), kernel.log_mean, kernel.log_p50).astype(np.float64)
    return count.sum(axis=0), (count * np.exp(log_mean)).sum(axis=0) * 1e-9


def _curves(
    table: KernelTable,
    row: _Row,
    *,
    here: Sequence[int],
    mine: Ints,
) -> Json:
    kernel, theirs = row.kernel, row.theirs
    name, role = (table.text(key) for key in kernel.key)
    us, them = _shape(kernel, mine), _shape(kernel, theirs)
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
        "suspects": {str(rank): cdf(us, grid)[at].tolist() for at, rank in enumerate(here)},
        "peers_low": others.min(axis=0).tolist(),
        "peers_mid": np.median(others, axis=0).tolist(),
        "peers_high": others.max(axis=0).tolist(),
    }


def _shape(kernel: Kernel, places: Ints) -> Mixture:
    """The mixtures of some ranks that launched the kernel."""
    seen = places[kernel.count[:, places].sum(axis=0) > 0]
    columns = {
        name: getattr(kernel, name)[:, seen].T.astype(np.float64)
        for name in ("log_p50", "log_p99", "log_max", "log_mean")
    }
    return fit(kernel.count[:, seen].T.astype(np.int64), columns.pop("log_p50"), **columns)
