"""Kernel durations to a few clusters per (kernel, stream role): kernel-density valleys of log duration.

ARGUS (arXiv 2606.20374) §5.2 with its published rule as `paper`, and a default whose bandwidth is not
blown up by a distant mode. Natural logarithm; a window is whole steps, so counts agree between ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from argus.collectors.host.density import Floats, Ints
from argus.collectors.host.split import PAPER, ROBUST, Rule, split
from argus.collectors.records.events import Rows
from argus.collectors.records.kernels import CLUSTER, KernelSummary, cut_name

RULES: Mapping[str, Rule] = {"default": ROBUST, "paper": PAPER}

_DUR_BITS = 44
MAX_DUR_NS = (1 << _DUR_BITS) - 1
"""Longest duration kept, 4.9 hours; a kernel that takes longer is a broken clock."""


def compress(
    kernels: Rows, *, names: Sequence[str], rank: int, mode: str = "default", rule: Rule | None = None
) -> KernelSummary:
    """Summary of KERNEL rows of one window.

    Rows that cannot be used are counted in `dropped`: `kernel_clock_step` (negative duration),
    `kernel_zero`, `kernel_too_long`.
    """
    key, numbers = _pair_keys(kernels["name"], kernels["role"])
    pairs = tuple((_text(names, name), _text(names, role)) for name, role in numbers)
    place = {pair: i for i, pair in enumerate(dict.fromkeys(pairs))}
    if len(place) < len(pairs):  # names that never arrived are one name
        key = np.array([place[pair] for pair in pairs])[key]
    return summarise(
        key,
        kernels["dur_ns"],
        pairs=tuple(place),
        rank=rank,
        mode=mode,
        rule=rule,
    )


def summarise(
    key: Ints,
    durations: Ints | Floats,
    *,
    pairs: tuple[tuple[str, str], ...],
    rank: int,
    mode: str = "default",
    rule: Rule | None = None,
) -> KernelSummary:
    """Summary of durations in nanoseconds whose `key` indexes `pairs` of (kernel, stream role)."""
    usable, dropped = _usable(durations)
    if not usable.all():
        key, durations = key[usable], durations[usable]
    packed = (key.astype(np.uint64) << np.uint64(_DUR_BITS)) | durations.astype(np.uint64)
    packed.sort()
    groups = (packed >> np.uint64(_DUR_BITS)).astype(np.int64)
    dur = (packed & np.uint64(MAX_DUR_NS)).astype(np.float64)
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    bounds = np.append(starts, len(dur))
    cuts = split(dur, bounds, rule=rule or RULES[mode])
    present = groups[starts]
    clusters = _clusters(dur, cuts, mode=mode)
    clusters["kernel"] = np.searchsorted(starts, cuts[:-1], side="right") - 1
    return KernelSummary(
        rank=rank,
        events=len(dur),
        mode=mode,
        kernels=tuple(pairs[int(i)] for i in present),
        clusters=clusters,
        dropped=dropped,
    )


def _usable(durations: Ints | Floats) -> tuple[np.ndarray[tuple[int], np.dtype[np.bool_]], dict[str, int]]:
    with np.errstate(invalid="ignore"):
        usable = (durations > 0) & (durations <= MAX_DUR_NS)
    if usable.all():
        return usable, {}
    bad = durations[~usable]
    counts = {
        "kernel_nan": int(np.isnan(bad).sum()),
        "kernel_clock_step": int((bad < 0).sum()),
        "kernel_zero": int((bad == 0).sum()),
        "kernel_too_long": int((bad > MAX_DUR_NS).sum()),
    }
    return usable, {reason: count for reason, count in counts.items() if count}


def _clusters(dur: Floats, cuts: Ints, *, mode: str) -> Rows:
    """Statistics of the stretches `dur[cuts[i]:cuts[i + 1]]`, each sorted."""
    first, size = cuts[:-1], np.diff(cuts)
    rows = np.zeros(len(first), CLUSTER)
    rows["ident"] = 0
    rows["count"] = size
    rows["p50_ns"] = sorted_quantile(dur, first, size=size, q=0.50)
    rows["p99_ns"] = sorted_quantile(dur, first, size=size, q=0.99)
    keep = mode == "default" and len(dur)
    rows["max_ns"] = dur[first + size - 1] if keep else np.nan
    rows["sum_ns"] = np.add.reduceat(dur, first) if keep else np.nan
    return rows


def sorted_quantile(values: Floats, first: Ints, *, size: Ints, q: float) -> Floats:
    """Linearly interpolated quantile of each sorted stretch `values[first:first + size]`, none empty."""
    at = (size - 1) * q
    low = at.astype(np.int64)
    part = at - low
    lower = values[first + low]
    upper = values[first + np.minimum(low + 1, size - 1)]
    return np.asarray(lower + part * (upper - lower))


def _pair_keys(name: Rows, role: Rows) -> tuple[Ints, list[tuple[int, int]]]:
    """Dense index of each (name, role), and what it stands for."""
    if not len(name):
        return np.empty(0, np.int64), []
    roles = int(role.max()) + 1
    combined = name.astype(np.int64) * roles + role.astype(np.int64)
    seen, key = _dense(combined)
    return key, [divmod(int(value), roles) for value in seen]


def _dense(values: Ints) -> tuple[Ints, Ints]:
    """Like `np.unique(return_inverse=True)`, without sorting where the values are small."""
    top = int(values.max())
    if top > 4 * len(values) + 65536:
        seen, inverse = np.unique(values, return_inverse=True)
        return seen, inverse.reshape(-1)
    used = np.zeros(top + 1, np.bool_)
    used[values] = True
    seen = np.flatnonzero(used)
    place = np.zeros(top + 1, np.int64)
    place[seen] = np.arange(len(seen))
    return seen, place[values]


def _text(names: Sequence[str], index: int) -> str:
    return cut_name(names[index]) if index < len(names) else "?"
