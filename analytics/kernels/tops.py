"""The few kernels of a window that are worth a time series: the longest, and those something was found of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from argus.analytics.finding import Finding
from argus.analytics.kernels.kinds import short_name
from argus.analytics.kernels.table import Kernel, KernelTable, dense, open_table
from argus.analytics.window import Window

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NUM_LONGEST = 5
"""Kernels by time; in a training step they hold more than half of it."""

NUM_FOUND = 5
"""Kernels of findings; one slow device shifts hundreds, which one series each would not tell apart."""

SAMPLED_HOSTS = 16
"""Hosts whose kernels decide which are the longest: ranks of one stage run the same ones."""


@dataclass(frozen=True, kw_only=True)
class KernelTop:
    """One (kernel, stream role) on the ranks that ran it; arrays (rank,). `calls` count since it is shown."""

    ident: int
    name: str
    role: str
    ranks: Ints
    calls: Ints
    p50_s: Floats
    p99_s: Floats


def kernel_tops(window: Window, findings: Iterable[Finding] = ()) -> tuple[KernelTop, ...]:
    """The window's longest kernels, then those `findings` name. Raises WireError on a damaged summary."""
    table = open_table(window.kernels, texts=window.kernel_names)
    chosen = dict.fromkeys([*_longest(window, table), *_found(table, findings)])
    made = (_top(table, place, dense(table, place, last=place + 1)[0]) for place in chosen)
    return tuple(top for top in made if len(top.ranks))


def added_up(tops: Sequence[KernelTop], before: Sequence[KernelTop]) -> tuple[KernelTop, ...]:
    """The tops with their calls added to those of the window before; one that comes back begins anew."""
    known = {top.ident: dict(zip(top.ranks.tolist(), top.calls.tolist(), strict=True)) for top in before}
    return tuple(
        replace(
            top,
            calls=top.calls + np.array([known.get(top.ident, {}).get(r, 0) for r in top.ranks.tolist()]),
        )
        for top in tops
    )


def _longest(window: Window, table: KernelTable) -> list[int]:
    """Places in `table` of the kernels that took most of the time on a few hosts."""
    step = max(1, len(window.kernels) // SAMPLED_HOSTS)
    sample = open_table(window.kernels[::step], texts=window.kernel_names)
    if not sample.kernels:
        return []
    total = [_total_s(kernel) for kernel in dense(sample, 0, last=len(sample.kernels))]
    place = {mixed: i for i, mixed in enumerate(table.mixed.tolist())}
    ordered = sample.mixed[np.argsort(-np.array(total), kind="stable")].tolist()
    # Of a rank that was sent twice `table` has what came first, the sample perhaps only what came later.
    return [place[mixed] for mixed in ordered if mixed in place][:NUM_LONGEST]


def _total_s(kernel: Kernel) -> float:
    log_mean = np.where(np.isnan(kernel.log_mean), kernel.log_p50, kernel.log_mean)  # paper mode has no mean
    return float((kernel.count * np.exp(log_mean.astype(np.float64)) * 1e-9).sum())


def _found(table: KernelTable, findings: Iterable[Finding]) -> list[int]:
    """Places of the kernels that findings name, the most significant first."""
    told = sorted((one for one in findings if one.kernel), key=lambda one: -(one.significance or 0.0))
    names = dict.fromkeys(one.kernel for one in told)
    by_name: dict[str, list[int]] = {}
    for place, (name, _) in enumerate(table.kernels if names else ()):
        by_name.setdefault(short_name(table.text(name)), []).append(place)
    return [place for name in names for place in by_name.get(name or "", ())][:NUM_FOUND]


def _top(table: KernelTable, place: int, kernel: Kernel) -> KernelTop:
    count = kernel.count.astype(np.float64)
    ran = np.flatnonzero(count.sum(axis=0) > 0)
    count, reached = count[:, ran], np.cumsum(count[:, ran], axis=0)
    total = reached[-1]
    name, role = table.kernels[place]
    columns = np.arange(len(ran))
    half, most = ((reached >= share * total).argmax(axis=0) for share in (0.5, 0.99))
    return KernelTop(
        ident=int(table.mixed[place]),
        name=table.text(name),
        role=table.text(role),
        ranks=table.ranks[ran],
        calls=np.rint(total).astype(np.int64),
        p50_s=np.exp(kernel.log_p50[:, ran][half, columns].astype(np.float64)) * 1e-9,
        p99_s=np.exp(kernel.log_p99[:, ran][most, columns].astype(np.float64)) * 1e-9,
    )
