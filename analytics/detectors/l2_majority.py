"""L2: many ranks that do the same work became slow at once; among each other they look usual.

The median of the peers is blind once about half of them are slow (incidents.md Part 4, trap 2; argus-paper.md §9
row 13). So each rank's own work is compared with its own past, and the ranks are split in two where that splits
them best. If all became slow alike there is no split, and it is nobody's machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.baseline import MIN_COVERAGE, RECENT_WINDOWS, is_comparable, settled
from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.peers import work_classes
from argus.analytics.robust import median_of_columns, noise_of
from argus.analytics.view import Digest, View
from argus.analytics.window import Bools, Floats

NEEDS = "half_fleet"

MIN_PAST = 3
"""Windows that make a past."""

OWN_PART = 0.5
"""Of the distance between the two parts (in logs) that the slow ones themselves grew by."""


@dataclass(frozen=True, kw_only=True)
class Usual:
    """Logarithm of each rank's own work in the clean windows (rank,), and how far each window strayed (window, rank)."""

    own: Floats
    strayed: Floats


@dataclass(frozen=True, kw_only=True)
class Split:
    """Ranks in two: `slow` (rank,), and how much more those grew than the rest, as ratio."""

    slow: Bools
    ratio: float
    expected_s: float
    got_s: float


def detect(
    view: View,
    *,
    min_ratio: float = 1.06,  # 0.6 of the 10 % that is to be found
    min_scales: float = 6.0,  # between the two means: halves of one bell are 2.7 apart
    min_part: float = 0.5,  # up to half of them stand out from their peers
    min_share: float = 0.03,
    min_ranks: int = 3,
    needed: int = 2,
    min_coverage: float = MIN_COVERAGE,
) -> tuple[Finding, ...]:
    """At most one culprit finding per class of ranks that do the same work, with all its slow ranks."""
    digest = observed(view)
    if digest is None or view.window is None or not is_comparable(digest, min_coverage):
        return ()
    clean = [d for d in settled(view, digest) if np.array_equal(d.ranks, digest.ranks)]
    if len(clean) < MIN_PAST:
        return ()
    classes = work_classes(view.topology, digest.ranks)
    usual = _usual(clean)
    recent = [d for d in view.past[-RECENT_WINDOWS:] if np.array_equal(d.ranks, digest.ranks)]
    gates = (min_ratio, min_scales, min_part, min_ranks)
    found = []
    for number in np.unique(classes):
        rows = classes == number
        now = _split(digest, usual, rows, gates=gates)
        if now is None or now.got_s - now.expected_s < min_share * digest.typical_step_s:
            continue
        votes = [d for d in recent if _is_same(_split(d, usual, rows, gates=gates), now)]
        if len(votes) + 1 >= needed:
            first = min([digest, *votes], key=lambda d: d.index)
            found.append(_finding(view, digest, now, first_step=first.first_step))
    return tuple(found)


def _usual(clean: Sequence[Digest]) -> Usual:
    """Of ranks that were seen in enough of the windows: one lost upload is no reason to forget a rank."""
    past = _logs(np.array([digest.own_s for digest in clean]))
    own = median_of_columns(past)
    own[np.isfinite(past).sum(axis=0) < MIN_PAST] = np.nan
    return Usual(own=own, strayed=past - own)


def _logs(own_s: Floats) -> Floats:
    return np.asarray(np.log(np.where(own_s > 0, own_s, np.nan)))


def _split(
    digest: Digest, usual: Usual, rows: Bools, *, gates: tuple[float, float, float, int]
) -> Split | None:
    """The best split of one class by growth against the own past; None if it is no clear one."""
    min_ratio, min_scales, min_part, min_ranks = gates
    growth = _logs(digest.own_s) - usual.own
    here = rows & np.isfinite(growth)
    if here.sum() < min_ranks:
        return None
    order = np.flatnonzero(here)[np.argsort(growth[here], kind="stable")]
    place, gap = _best_cut(growth[order])
    part = 1 - place / len(order)
    if gap < np.log(min_ratio):
        return None
    noise = noise_of(usual.strayed[:, here]).scale
    unsteady = digest.unsteady_s[here] / np.exp(usual.own[here])
    scale = max(float(np.median(np.fmax(noise, unsteady))), _within(growth[order], place))
    if gap < min_scales * scale or part <= min_part or part > 1 - 1 / len(order):
        return None
    # Where the few got faster, what made them slow has ended: the many take what they always took.
    if growth[order[place:]].mean() < OWN_PART * gap:
        return None
    slow = np.zeros(len(growth), np.bool_)
    slow[order[place:]] = True
    got = float(np.median(digest.own_s[slow]))
    return Split(slow=slow, ratio=float(np.exp(gap)), got_s=got, expected_s=got / float(np.exp(gap)))


def _best_cut(ranked: Floats) -> tuple[int, float]:
    """Where two means explain most of a sorted series, and the distance of the two."""
    n = len(ranked)
    total = np.cumsum(ranked)
    k = np.arange(1, n)
    left, right = total[:-1] / k, (total[-1] - total[:-1]) / (n - k)
    best = int(np.argmax(k * (n - k) * (right - left) ** 2))
    return best + 1, float(right[best] - left[best])


def _within(ranked: Floats, place: int) -> float:
    """Spread inside the two parts."""
    rest = np.concatenate([ranked[:place] - ranked[:place].mean(), ranked[place:] - ranked[place:].mean()])
    return float(np.sqrt((rest**2).mean()))


def _is_same(one: Split | None, other: Split) -> bool:
    """Most of the slow ranks agree."""
    if one is None:
        return False
    both = int((one.slow & other.slow).sum())
    return 2 * both > int((one.slow | other.slow).sum())


def _finding(view: View, digest: Digest, split: Split, *, first_step: int) -> Finding:
    ranks = tuple(int(rank) for rank in digest.ranks[split.slow])
    lost_s = split.got_s - split.expected_s
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=digest.index,
        level="L2",
        detector="l2_majority",
        kind="shift",
        role="culprit",
        ranks=ranks,
        nodes=tuple(f"rank:{rank}" for rank in ranks),
        start_step=first_step,
        end_step=digest.first_step + digest.num_steps - 1,
        ratio=split.ratio,
        effect_s_per_step=lost_s,
        share_of_step=lost_s / digest.typical_step_s,
        evidence=(
            Evidence(
                name="own_past_s",
                value=split.got_s,
                unit="s",
                baseline=split.expected_s,
                note="what they took before, the others' change taken out",
            ),
            Evidence(name="slow_ranks", value=float(len(ranks)), unit="ranks"),
        ),
    )
