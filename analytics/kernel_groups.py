"""Communication kernels compared between whole groups: a slow group has no odd rank inside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.finding import Evidence, Finding
from argus.analytics.kernel_digest import KernelDigest
from argus.analytics.kernel_kinds import short_name
from argus.analytics.kernel_peers import Ints
from argus.analytics.kernel_scan import MAD_TO_SIGMA, Settings
from argus.analytics.kernel_tail import Reals
from argus.analytics.view import View

MIN_GROUPS = 3
"""Of two groups nobody can say which is the odd one, unless one takes so much longer that speed is no answer."""

MANY_GROUPS = 8
SCORE = 8.0
"""Robust deviations between groups; few groups have no spread to speak of and need the ratio."""


@dataclass(frozen=True, kw_only=True)
class _Slow:
    kernel: int
    group: str
    members: Ints
    effect: float
    score: float


def group_shifts(
    view: View, now: KernelDigest, past: Sequence[KernelDigest], *, settings: Settings
) -> list[Finding]:
    """Groups whose communication kernels are slow on all members, in enough of the last windows."""
    assert now.table is not None and now.found is not None
    before = [
        {(one.keys[slow.kernel], slow.group) for slow in slow_groups(now, one, settings=settings)}
        for one in past[-(settings.of - 1) :]
    ]
    found = []
    for slow in slow_groups(now, now, settings=settings):
        key = (now.keys[slow.kernel], slow.group)
        if 1 + sum(key in one for one in before) >= settings.needed:
            found.append(_finding(view, now, slow))
    return found


def slow_groups(now: KernelDigest, one: KernelDigest, *, settings: Settings) -> Iterator[_Slow]:
    """Groups of `one` that stand out; names and shares are those of `now`."""
    assert now.table is not None and now.found is not None
    for kernel, key in enumerate(one.keys):
        role = now.table.text(key[1])
        if not role.startswith("comm") or key not in now.keys:
            continue
        if now.found.share[now.keys.index(key)] < settings.share:
            continue
        for groups in one.peers.groups_of_role(role.partition(":")[2]):
            yield from _odd(kernel, groups, mean=one.mean[kernel], settings=settings)


def _odd(
    kernel: int, groups: Sequence[tuple[str, Ints]], *, mean: Reals, settings: Settings
) -> Iterator[_Slow]:
    """Groups far above the groups of their size."""
    for size in sorted({len(members) for _, members in groups}):
        alike = [(name, members) for name, members in groups if len(members) == size]
        typical = np.array([_median(mean[members]) for _, members in alike])
        seen = typical[np.isfinite(typical)]
        if len(seen) < 2:
            continue
        centre, spread, ratio = _healthy(seen, settings=settings)
        for (name, members), one in zip(alike, typical, strict=True):
            effect = float(one) - centre
            if effect >= math.log(ratio) and effect >= SCORE * spread:
                yield _Slow(kernel=kernel, group=name, members=members, effect=effect, score=effect / spread)


def _healthy(seen: Reals, *, settings: Settings) -> tuple[float, float, float]:
    """Where healthy groups lie (log), how far they stray and the least ratio that is told."""
    if len(seen) < MIN_GROUPS:
        return float(seen.min()), settings.scale_floor, settings.gross
    centre = float(np.median(seen))
    spread = max(float(np.median(np.abs(seen - centre))) * MAD_TO_SIGMA, settings.scale_floor)
    return centre, spread, settings.effect + 1.0 if len(seen) >= MANY_GROUPS else settings.small_ratio


def _median(values: Reals) -> float:
    """Median of the members that have the kernel, NaN without any."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan


def _finding(view: View, now: KernelDigest, slow: _Slow) -> Finding:
    assert view.window is not None and now.table is not None
    assert now.effects is not None and now.found is not None
    window = view.window
    ranks = tuple(sorted(int(rank) for rank in now.ranks[slow.members]))
    total_ns = float(np.mean(now.effects.total_ns[slow.kernel, slow.members]))
    lost_s = total_ns * (1.0 - math.exp(-slow.effect)) * 1e-9 / window.num_steps
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=window.index,
        level="L3",
        detector="l3_kernel",
        kind="group_shift",
        role="link",
        ranks=ranks,
        nodes=(f"group:{slow.group}",),
        group=slow.group,
        kernel=short_name(now.table.text(now.keys[slow.kernel][0])),
        start_step=window.first_step,
        end_step=window.first_step + window.num_steps - 1,
        ratio=math.exp(slow.effect),
        effect_s_per_step=lost_s,
        share_of_step=float(now.found.share[slow.kernel]),
        evidence=(
            Evidence(name="group_score", value=slow.score, note="robust deviations from the other groups"),
            Evidence(name="group_ranks", value=float(len(ranks))),
        ),
    )
