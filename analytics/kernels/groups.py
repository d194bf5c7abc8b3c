"""Communication kernels compared between whole groups: a slow group has no odd rank inside."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.finding import Evidence, Finding
from argus.analytics.kernels.digest import KernelDigest
from argus.analytics.kernels.kinds import short_name
from argus.analytics.kernels.peers import Floats, Ints
from argus.analytics.kernels.scan import MAD_TO_SIGMA
from argus.analytics.kernels.settings import Settings
from argus.analytics.kernels.tail import Reals
from argus.analytics.view import View

MIN_GROUPS = 3
"""Of two groups nobody can say which is the odd one, unless one takes so much longer that speed is no answer."""

MANY_GROUPS = 8
SCORE = 8.0
"""Robust deviations between groups; few groups have no spread to speak of and need the ratio."""

FEW = 10
"""One member in ten may be as fast as ever in a slow group, so none of a group of ten or fewer."""


@dataclass(frozen=True, kw_only=True)
class _Slow:
    """A group that stands out; `members` are those that have the kernel, as indices of the digest's ranks."""

    kernel: int
    group: str
    members: Ints
    effect: float
    score: float


def group_shifts(
    view: View, now: KernelDigest, past: Sequence[KernelDigest], *, settings: Settings
) -> list[Finding]:
    """Groups whose communication kernels are slow on all members, in enough of the last windows.

    A member that sent no kernels is passed over, one of whom nothing was seen leaves the group untold.
    """
    assert now.table is not None and now.found is not None
    before = [
        {(one.keys[slow.kernel], slow.group) for slow in slow_groups(now, one, settings=settings)}
        for one in past[-(settings.of - 1) :]
    ]
    found = []
    for slow in slow_groups(now, now, settings=settings):
        key = (now.keys[slow.kernel], slow.group)
        if 1 + sum(key in one for one in before) >= settings.needed and _is_heard(view, now, slow):
            found.append(_finding(view, now, slow))
    return found


def _is_heard(view: View, now: KernelDigest, slow: _Slow) -> bool:
    """Whether of each member the kernel or at least the steps were seen.

    All kernels of a group are long while the rest wait for a rank that is late: of whom nothing is known, that may be
    the one.
    """
    assert view.window is not None
    window = view.window
    timed = window.ranks[np.isfinite(window.step_s).any(axis=1)]
    return set(window.topology.group(slow.group).ranks) <= {*now.ranks[slow.members], *timed}


def slow_groups(now: KernelDigest, one: KernelDigest, *, settings: Settings) -> Iterator[_Slow]:
    """Groups of `one` that stand out; names and shares are those of `now`."""
    assert now.table is not None and now.found is not None
    share = dict(zip(now.keys, now.found.share.tolist(), strict=True))
    for kernel, key in enumerate(one.keys):
        role = now.table.text(key[1])
        if not role.startswith("comm") or key not in share or share[key] < settings.share:
            continue
        for groups in one.peers.groups_of_role(role.partition(":")[2]):
            yield from _odd(kernel, groups, mean=one.mean[kernel], settings=settings)


def _odd(
    kernel: int, groups: Sequence[tuple[str, Ints]], *, mean: Reals, settings: Settings
) -> Iterator[_Slow]:
    """Groups all of whose members are far above those of the groups of their size."""
    for size in sorted({len(members) for _, members in groups}):
        alike = [(name, members) for name, members in groups if len(members) == size]
        each = _completed(mean, np.array([members for _, members in alike]))
        typical, least = np.median(each, axis=1), np.sort(each, axis=1)[:, (each.shape[1] - 1) // FEW]
        seen = np.isfinite(typical)
        if seen.sum() < 2:
            continue
        centre, spread, ratio = _healthy(typical[seen], settings=settings)
        usual, _, _ = _healthy(least[seen], settings=settings)
        effect = typical - centre
        is_slow = (effect >= max(math.log(ratio), SCORE * spread)) & (least - usual >= math.log(ratio))
        for at in np.flatnonzero(is_slow).tolist():
            name, members = alike[at]
            more, here = float(effect[at]), members[members >= 0]
            here = here[np.isfinite(mean[here])]
            yield _Slow(kernel=kernel, group=name, members=here, effect=more, score=more / spread)


def _completed(mean: Reals, rows: Ints) -> Floats:
    """Log durations (group, place) of groups (group, place) of ranks, −1 for a member that is not there.

    A member without the kernel is taken to differ from its like in the other groups as much as the rest of its
    group do: left out, the wait of a first stage, say, would be missing among those of the later ones. NaN in the
    row of a group fewer than two of whose members, or less than half, have the kernel; places no group has it in
    are left out.
    """
    values = np.where(rows >= 0, mean[rows], np.nan).astype(np.float64)
    known = np.isfinite(values)
    values, known = values[:, known.any(axis=0)], known[:, known.any(axis=0)]
    if not values.size:
        return np.full((len(rows), 1), np.nan)
    usual = _lower_median(values.T)
    apart = _lower_median(values - usual)
    num = known.sum(axis=1)
    values = np.where(known, values, usual + apart[:, None])
    values[(num < 2) | (2 * num < values.shape[1])] = np.nan
    return values


def _lower_median(values: Floats) -> Floats:
    """Of each row what is known, NaN without any: of two the lower, as of two groups it is the healthy one."""
    ordered = np.sort(values, axis=1)  # NaN last
    count = np.isfinite(ordered).sum(axis=1)
    return np.asarray(ordered[np.arange(len(ordered)), np.maximum(count - 1, 0) // 2])


def _healthy(seen: Floats, *, settings: Settings) -> tuple[float, float, float]:
    """Where healthy groups lie (log), how far they stray and the least ratio that is told."""
    if len(seen) < MIN_GROUPS:
        return float(seen.min()), settings.scale_floor, settings.gross
    centre = float(np.median(seen))
    spread = max(float(np.median(np.abs(seen - centre))) * MAD_TO_SIGMA, settings.scale_floor)
    return centre, spread, settings.effect + 1.0 if len(seen) >= MANY_GROUPS else settings.small_ratio


def _finding(view: View, now: KernelDigest, slow: _Slow) -> Finding:
    assert view.window is not None and now.table is not None
    assert now.effects is not None and now.found is not None
    window = view.window
    # Also who sent no kernels: it may be whom the others wait for.
    ranks = window.topology.group(slow.group).ranks
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
