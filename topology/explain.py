"""How well elements explain a set of suspects: likelihood, precision, recall, chance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from argus.topology.axes import Ints
from argus.topology.incidence import Incidence

Floats = NDArray[np.float64]

HIT = (18, 2)
"""Beta prior of the share of an element's members that become suspects: most, a tenth missed."""

MIN_SHARE = 0.5
"""An element of which fewer members are suspects is not a cause of them."""

NOT_PREFERRED = 1.0
"""Nats that an element costs more if its kind is not what this nature of finding points to."""

ANOTHER = 1.5
"""Nats each further cause costs: two at once are taken as four to five times rarer than one."""

MAX_STARTS = 12
MAX_LOOKED_AT = 2000
"""Candidates looked through for a start of another size; the best explanations come first."""

MAX_CAUSES = 4


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Classes of equal elements that may be a cause. All arrays (class,).

    `element` is one element of each; `cost` its prior in nats: kinds tried × elements of the kind.
    """

    number: Ints
    element: Ints
    size: Ints
    cost: Floats


@lru_cache(maxsize=8)
def _log_factorials(limit: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, limit + 1)))])


def log_factorial(limit: int) -> Floats:
    """log n! for n up to at least `limit`, shared by every call of like size."""
    return _log_factorials(1 << int(max(limit, 64)).bit_length())


def member_likelihood(hits: Ints | int, size: Ints | int, *, total: int) -> Floats:
    """Log-likelihood that `hits` given ones of `size` members are suspects, were they the cause."""
    lf = log_factorial(total + sum(HIT))
    a, b = HIT
    prior = lf[a - 1] + lf[b - 1] - lf[a + b - 1]
    return np.asarray(
        lf[np.asarray(hits) + a - 1]
        + lf[np.asarray(size) - hits + b - 1]
        - lf[np.asarray(size) + a + b - 1]
        - prior
    )


def rest_likelihood(hits: Ints | int, size: Ints | int, *, total: int) -> Floats:
    """Log-likelihood of `hits` given ones among `size` that nothing explains."""
    lf = log_factorial(total + 1)
    return np.asarray(lf[np.asarray(hits)] + lf[np.asarray(size) - hits] - lf[np.asarray(size) + 1])


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Causes as indices into Candidates, and their gain over chance in nats."""

    chosen: tuple[int, ...]
    gain: float


def explain(over: Incidence, suspects: Ints, *, pool: Candidates) -> Explanation:
    """The set of at most MAX_CAUSES elements that explains the suspects best; empty if chance does.

    Bayesian choice between "these elements" and "no common cause": members of a cause are suspects at
    about nine in ten, others at some rate of their own. Several starts, each grown greedily.
    """
    null = float(rest_likelihood(len(suspects), over.num_items, total=over.num_items))
    hits = over.count(suspects)[pool.element]
    usable = np.flatnonzero((hits >= MIN_SHARE * pool.size) & (hits > 0))
    if not len(usable):
        return Explanation(chosen=(), gain=0.0)
    gains = _gains(hits[usable], pool.size[usable], len(suspects), over.num_items) - pool.cost[usable] - null
    order = usable[np.argsort(-gains, kind="stable")]
    best = Explanation(chosen=(), gain=0.0)
    for start in _starts(order, pool, over):
        grown = _grow(over, suspects, pool, start=int(start), null=null, usable=usable)
        if grown.gain > best.gain + 1e-9:
            best = grown
    return best


def _gains(hits: Ints, size: Ints, total: int, num_items: int) -> Floats:
    return member_likelihood(hits, size, total=num_items) + rest_likelihood(
        total - hits, num_items - size, total=num_items
    )


def _starts(order: Ints, pool: Candidates, over: Incidence) -> list[int]:
    """The best few, and the best of each size: one coarse element must not hide two fine ones."""
    starts = [int(at) for at in order[: MAX_STARTS // 2]]
    sizes = {int(pool.size[at]) for at in starts}
    for at in order[:MAX_LOOKED_AT].tolist():
        if len(starts) >= MAX_STARTS:
            break
        if int(pool.size[at]) not in sizes:
            sizes.add(int(pool.size[at]))
            starts.append(at)
    return starts


def _grow(
    over: Incidence, suspects: Ints, pool: Candidates, *, start: int, null: float, usable: Ints
) -> Explanation:
    """Add the element that helps most until none helps."""
    chosen = [start]
    covered = over.items_of(int(pool.element[start]))
    left = np.setdiff1d(suspects, covered, assume_unique=True)
    inside = float(member_likelihood(len(suspects) - len(left), len(covered), total=over.num_items))
    inside -= float(pool.cost[start])
    gain = (
        inside + float(rest_likelihood(len(left), over.num_items - len(covered), total=over.num_items)) - null
    )
    while len(chosen) < MAX_CAUSES and len(left):
        hits = over.count(left)[pool.element[usable]]
        size = pool.size[usable] - over.count(covered)[pool.element[usable]]
        able = (hits >= MIN_SHARE * size) & (hits > 0)
        if not able.any():
            break
        at, hits, size = usable[able], hits[able], size[able]
        # Each cause has its own share of members hit: a good one must not lend its own to a poor one.
        within = inside + member_likelihood(hits, size, total=over.num_items) - pool.cost[at] - ANOTHER
        outside = over.num_items - len(covered) - size
        gains = within + rest_likelihood(len(left) - hits, outside, total=over.num_items) - null
        best = int(np.argmax(gains))
        if gains[best] <= gain + 1e-9:
            break
        gain, inside = float(gains[best]), float(within[best])
        chosen.append(int(at[best]))
        covered = np.union1d(covered, over.items_of(int(pool.element[at[best]])))
        left = np.setdiff1d(suspects, covered, assume_unique=True)
    return Explanation(chosen=tuple(chosen), gain=gain)


def tails(size: int, total: int, *, num_items: int) -> Floats:
    """P(at least k of `total` random suspects fall into `size` members), k = 0 … min(size, total)."""
    lf = log_factorial(num_items)
    low, high = max(0, size + total - num_items), min(size, total)
    k = np.arange(low, high + 1)
    log_pmf = (
        lf[size]
        - lf[k]
        - lf[size - k]
        + lf[num_items - size]
        - lf[total - k]
        - lf[num_items - size - total + k]
        - (lf[num_items] - lf[total] - lf[num_items - total])
    )
    tail = np.minimum(np.cumsum(np.exp(log_pmf)[::-1])[::-1], 1.0)
    return np.concatenate([np.ones(low), tail])


def chance(hits: int, size: int, *, total: int, num_items: int, sizes: Ints) -> float:
    """Probability that random suspects share any candidate this well, all candidates counted.

    `sizes` are the sizes of every candidate tried: each size contributes its own chance to reach a
    tail probability as small as this one's (Šidák over the sizes).
    """
    own = float(tails(size, total, num_items=num_items)[hits])
    values, counts = np.unique(sizes, return_counts=True)
    log_none = 0.0
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        tail = tails(value, total, num_items=num_items)
        at = int(np.searchsorted(-tail, -own * (1 + 1e-9)))
        if at < len(tail):
            log_none += count * np.log1p(-min(float(tail[at]), 1 - 1e-15))
    return max(0.0, float(-np.expm1(log_none)))


def candidates(over: Incidence, *, order: tuple[str, ...], num_preferred: int) -> Candidates:
    """Every class with a member, priced by its kind that comes first in `order`."""
    place = {kind: i for i, kind in enumerate(order)}
    number, _ = over.same
    rank_of_kind = np.array([place.get(kind, len(order)) for kind in over.kinds], np.int64)
    by_place = np.lexsort((np.arange(len(number)), rank_of_kind, number))
    _, first = np.unique(number[by_place], return_index=True)
    element = by_place[first]
    kind_at = rank_of_kind[element]
    keep = (over.sizes[element] > 0) & (kind_at < len(order))
    per_kind = np.bincount(kind_at[keep], minlength=len(order) + 1)
    tried = max(int((per_kind > 0).sum()), 1)
    with np.errstate(divide="ignore"):
        price = np.log(tried) + np.log(np.maximum(per_kind[kind_at], 1))
    price = price + np.where(kind_at < num_preferred, 0.0, NOT_PREFERRED)
    return Candidates(
        number=number[element][keep],
        element=element[keep],
        size=over.sizes[element][keep],
        cost=price[keep],
    )
