"""Whether the last values of a series lie on another level by their ranks alone, whatever its noise looks like.

A level with many large values is believed to be noisy, and a change that was not told in time becomes part of the noise
it is measured against. Ranks know neither: of values in any order, whatever they are, the newest are all above those
before them as rarely as of any others (Mann and Whitney, 1947). How much neighbours resemble one another on either side
of the change widens what chance may do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.series.level import CUT, MAX_REPEATS, MIN_EFFECT, NOISE_FLOOR
from argus.analytics.series.shift import AGES, FULL_AFTER, FULL_BEFORE, GROSS_MORE, Split, is_step
from argus.analytics.window import Floats, Ints

MOST_BEFORE = 60
"""Values before a change that it is compared with: older ones may be of another level."""

FRESH = 4
"""Values between the last known change and this one, by whose middle the two are told apart."""

HALF = 0.5
"""Of the change must show against those."""

MEDIAN_ERROR = 1.2533
"""How much more than a mean a median errs, of normal noise."""

SIGNIFICANT = 1.5
"""Standard errors of a repetition that is believed, as in `level.inflation`."""


def split_by_ranks(logs: Floats, *, since: int, min_scales: float) -> Split | None:
    """The newest change in the values of one series (place,), NaN for none; None without one to be sure of.

    The level now began at column `since` by a change that is known.
    """
    here = np.flatnonzero(np.isfinite(logs))
    places = np.array([len(here) - age for age in AGES if age >= FULL_AFTER], np.int64)
    places = places[places >= FULL_BEFORE]
    if not len(places):
        return None
    raw = logs[here]
    scales = _scales(raw, places)
    if scales.max() < min_scales:
        return None
    near = int(places[int(np.argmax(scales))])
    place = _placed(raw, near)
    before, after = raw[max(place - MOST_BEFORE, 0) : place], raw[place:]
    low, high = float(np.median(before)), float(np.median(after))
    spread = _spread(np.concatenate([before - low, after - high]))
    rest = [np.clip(side, -CUT * spread, CUT * spread) for side in (before - low, after - high)]
    wider = _wider((before, after))
    # Few ranks say little where neighbours are alike; how far the levels lie apart may still say it.
    by_ranks = float(_scales(raw, np.array([place]))[0])
    error = MEDIAN_ERROR * spread * wider * float(np.sqrt(1 / len(before) + 1 / len(after)))
    sure = max(by_ranks / wider, min(by_ranks, abs(high - low) / error / GROSS_MORE))
    if sure < min_scales or abs(high - low) < MIN_EFFECT or _is_known(raw, here, place, since, high - low):
        return None
    if not is_step(np.concatenate([rest[0] + low, rest[1] + high]), len(before), spread):
        return None
    return Split(
        place=int(here[place]), before=low, after=high, scales=sure, spread=spread, error=spread * wider
    )


def _scales(raw: Floats, places: Ints) -> Floats:
    """Standard errors by which the ranks of the values from each place on leave those of the values before. (place,)"""
    found = np.zeros(len(places))
    for at, place in enumerate(places.tolist()):
        begin = max(place - MOST_BEFORE, 0)
        old, new = place - begin, len(raw) - place
        ranks = _ranks(raw[begin:])
        above = ranks[old:].sum() - new * (new + 1) / 2
        found[at] = abs(above - old * new / 2) / np.sqrt(old * new * (old + new + 1) / 12)
    return found


def _placed(raw: Floats, near: int) -> int:
    """Where a change about `near` began: the split of the ranks that explains most of them."""
    begin = max(near - MOST_BEFORE, 0)
    ranks = _ranks(raw[begin:])
    n = len(ranks)
    k = np.arange(FULL_BEFORE, n - FULL_AFTER + 1)
    left = np.cumsum(ranks)[k - 1]
    return begin + int(k[np.argmax(np.abs(left - k * (n + 1) / 2) / np.sqrt(k * (n - k)))])


def _ranks(values: Floats) -> Floats:
    """Ranks from 1, those of equals averaged; scipy.stats is imported when a change is looked at: it takes half a second."""
    from scipy.stats import rankdata

    found: Floats = rankdata(values)
    return found


def _spread(rest: Floats) -> float:
    """Robust spread about both sides' own middles: that of the middle half, or of three quarters if it is wider."""
    far = np.abs(rest)
    return max(float(np.median(far)) * 1.4826, float(np.quantile(far, 0.75)) / 1.1503, NOISE_FLOOR)


def _wider(sides: Sequence[Floats]) -> float:
    """How much neighbours that are alike widen an average, as `level.inflation`, by the ranks of few values: what these
    show less of it than there is is put back (Kendall, 1954), and what is no chance counts by a standard error more."""
    centred = [_ranks(side) - (len(side) + 1) / 2 for side in sides]
    scaled = [side / len(side) for side in centred]
    num = sum(map(len, scaled))
    power = sum(float((side**2).sum()) for side in scaled)
    product = sum(float((side[1:] * side[:-1]).sum()) for side in scaled)
    repeats = product / power if power > 0 else 0.0
    repeats += len(scaled) * (1 + 4 * max(repeats, 0.0)) / num
    if repeats < SIGNIFICANT / np.sqrt(num):
        return 1.0
    repeats = min(repeats + float(np.sqrt(max(1 - repeats**2, 0.0) / num)), MAX_REPEATS)
    return float(np.sqrt((1 + repeats) / (1 - repeats)))


def _is_known(raw: Floats, here: Ints, place: int, since: int, step: float) -> bool:
    """Whether it is the change that the level now began by."""
    if here[0] >= since:
        return False
    fresh = raw[:place][here[:place] >= since]
    if len(fresh) < FRESH:
        return True
    left = float(np.median(raw[place:]) - np.median(fresh))
    return left * float(np.sign(step)) < HALF * abs(step)
