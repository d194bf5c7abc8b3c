"""What suspects share: the smallest elements that explain them, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from argus.topology.axes import Ints
from argus.topology.derive import natural
from argus.topology.explain import Candidates, candidates, chance, explain
from argus.topology.fleet import Fleet, rank_array
from argus.topology.incidence import Incidence, incidence
from argus.topology.names import NotInTopology, close_names

ORDERS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "self_time": (
        6,
        (
            *("gpu", "rank", "half", "host", "stage", "group"),
            *("rack", "nvlink_domain", "pod", "zone", "pcie", "rail", "leaf", "spine", "nic", "link"),
        ),
    ),
    "transfer": (
        8,
        (
            *("nic", "link", "rail", "leaf", "spine", "nvlink_domain", "host", "group"),
            *("pcie", "half", "rack", "pod", "zone", "stage", "gpu", "rank"),
        ),
    ),
    "copy": (
        5,
        (
            *("pcie", "gpu", "nic", "half", "host"),
            *(
                "rank",
                "nvlink_domain",
                "rack",
                "group",
                "stage",
                "rail",
                "link",
                "leaf",
                "spine",
                "pod",
                "zone",
            ),
        ),
    ),
}
"""Per nature of a finding: how many kinds it points to, then all kinds in the order they are named."""

WEAK_CHANCE = 0.05
"""Above this probability under chance an answer is called weak."""


@dataclass(frozen=True, kw_only=True)
class Shared:
    """Elements with the same members, first the kind the finding points to, and how they explain suspects.

    `precision` = share of members that are suspects, `recall` = share of suspects that are members.
    `chance` = probability that random suspects would share any candidate this well, all candidates tried
    counted.
    """

    elements: tuple[str, ...]
    members: tuple[int, ...]
    hits: int
    precision: float
    recall: float
    chance: float

    @property
    def element(self) -> str:
        """The element to name."""
        return self.elements[0]

    @property
    def size(self) -> int:
        """Number of members."""
        return len(self.members)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The smallest scope that explains suspects; `causes` is empty if there is none in common.

    `unexplained` are suspects outside every cause; `gain` is the log odds against chance, in nats. For
    groups and pairs `labels` says which one each number is; numbers of ranks need none.
    """

    nature: str
    suspects: tuple[int, ...]
    causes: tuple[Shared, ...]
    unexplained: tuple[int, ...]
    gain: float
    note: str
    labels: Mapping[int, str] = field(default_factory=dict)

    @property
    def found(self) -> bool:
        """True if the suspects have a cause in common."""
        return bool(self.causes)


def check_nature(nature: str) -> tuple[int, tuple[str, ...]]:
    """Order of kinds of a nature; ValueError for an unknown one."""
    if nature not in ORDERS:
        raise ValueError(f"nature must be one of {', '.join(ORDERS)}, got {nature!r}")
    return ORDERS[nature]


def shared_elements(
    fleet: Fleet, suspects: Iterable[int], *, nature: str = "self_time", limit: int = 10
) -> tuple[Shared, ...]:
    """Elements the suspects share, best explanation first: precision and recall, then the smaller."""
    items = _some(rank_array(fleet, suspects))
    return _ranked(fleet.ranks, items, nature=nature, limit=limit)


def smallest_scope(fleet: Fleet, suspects: Iterable[int], *, nature: str = "self_time") -> Scope:
    """The fewest, smallest elements that explain suspected ranks, or none.

    Several causes at once are all named, the one with most suspects first. One suspect is its own scope.
    """
    items = _some(rank_array(fleet, suspects))
    return _scope(fleet.ranks, items, nature=nature, what="ranks")


def scope_of_groups(fleet: Fleet, groups: Iterable[str], *, nature: str = "transfer") -> Scope:
    """What slow groups share: the element all of their traffic crosses and others' does not.

    Numbers in the answer are places in `fleet.comm_groups`; `labels` has their ids.
    """
    place = {name: i for i, name in enumerate(fleet.comm_groups)}
    asked = [name.removeprefix("group:") for name in groups]
    for name in asked:
        if name not in place:
            known = f"{len(place)} groups of two ranks or more are known"
            raise NotInTopology(f"group {name!r}", close=close_names(name, place), known=known)
    items = _some(np.unique(np.array([place[name] for name in asked], np.int64)))
    return _labelled(_scope(fleet.groups, items, nature=nature, what="groups"), fleet.comm_groups)


def scope_of_pairs(
    fleet: Fleet, slow: Iterable[tuple[int, int]], *, tested: Iterable[tuple[int, int]]
) -> Scope:
    """What slow pairs of ranks share, of all pairs tested: a common end, or an edge between two elements.

    Pairs with one host in common name the host; pairs that are slow although each end is fast with
    others name the edge. Numbers in the answer are places in the sorted list of pairs; `labels` names
    them.
    """
    pairs = sorted({_pair(pair) for pair in tested} | {_pair(pair) for pair in slow})
    place = {pair: i for i, pair in enumerate(pairs)}
    over = _pair_incidence(fleet, pairs)
    items = _some(np.array(sorted({place[_pair(pair)] for pair in slow}), np.int64))
    scope = _scope(over, items, nature="transfer", what="pairs", order=("edge",))
    return _labelled(scope, [f"{a}–{b}" for a, b in pairs])


def _labelled(scope: Scope, names: Sequence[str]) -> Scope:
    used = {*scope.suspects, *(member for cause in scope.causes for member in cause.members)}
    return replace(scope, labels={at: names[at] for at in sorted(used)})


def _pair(pair: tuple[int, int]) -> tuple[int, int]:
    return min(pair), max(pair)


def _some(items: Ints) -> Ints:
    if not len(items):
        raise ValueError("a scope needs at least one suspect")
    return items


_EDGE_ENDS = ("host", "leaf", "nvlink_domain", "rack", "pod")


def _pair_incidence(fleet: Fleet, pairs: Sequence[tuple[int, int]]) -> Incidence:
    ids, kinds = list(fleet.ranks.ids), list(fleet.ranks.kinds)
    number: dict[str, int] = {}
    items: list[int] = []
    elements: list[int] = []
    for at, (a, b) in enumerate(pairs):
        fleet.topology.check_rank(a), fleet.topology.check_rank(b)
        over_a, over_b = (set(fleet.ranks.elements_of(rank).tolist()) for rank in (a, b))
        crossed = {i for i in over_a | over_b if kinds[i] not in ("group", "stage", "rank")}
        for kind in _EDGE_ENDS:
            ends_a = [i for i in over_a - over_b if kinds[i] == kind]
            ends_b = [i for i in over_b - over_a if kinds[i] == kind]
            for first in ends_a:
                for second in ends_b:
                    name = f"edge:{'--'.join(sorted((ids[first], ids[second])))}"
                    crossed.add(number.setdefault(name, len(ids) + len(number)))
        items += [at] * len(crossed)
        elements += sorted(crossed)
    return incidence(
        np.array(items, np.int64),
        np.array(elements, np.int64),
        num_items=len(pairs),
        ids=(*ids, *number),
        kinds=(*kinds, *["edge"] * len(number)),
    )


def _pool(over: Incidence, nature: str, extra: tuple[str, ...] = ()) -> Candidates:
    num, order = check_nature(nature)
    # Kept beside the index it belongs to, so that it goes when the index goes.
    cache: dict[tuple[str, tuple[str, ...]], Candidates] = over.__dict__.setdefault("_pools", {})
    key = (nature, extra)
    if key not in cache:
        cache[key] = candidates(
            over, order=(*order[:num], *extra, *order[num:]), num_preferred=num + len(extra)
        )
    return cache[key]


def _scope(over: Incidence, items: Ints, *, nature: str, what: str, order: tuple[str, ...] = ()) -> Scope:
    pool = _pool(over, nature, order)
    result = explain(over, items, pool=pool)
    chosen = list(result.chosen)
    note = ""
    if len(items) == over.num_items:
        chosen, note = _whole(over, pool), f"all {what} are suspects: nothing to tell apart"
    elif len(items) == 1 and not chosen:
        chosen, note = _own(over, int(items[0]), pool), f"one suspect: its own {nature} scope"
    causes = [_shared(over, items, pool, at, nature=nature, extra=order) for at in chosen]
    causes.sort(key=lambda cause: (-cause.hits, cause.size, natural(cause.element)))
    covered = over.items_under(pool.element[chosen])
    return Scope(
        nature=nature,
        suspects=tuple(items.tolist()),
        causes=tuple(causes),
        unexplained=tuple(np.setdiff1d(items, covered, assume_unique=True).tolist()),
        gain=result.gain,
        note=note or _note(items, causes, what=what),
    )


def _own(over: Incidence, item: int, pool: Candidates) -> list[int]:
    """The smallest class over one item, in the nature's order of kinds."""
    above = np.isin(pool.number, over.same[0][over.elements_of(item)])
    at = np.flatnonzero(above)
    return [int(at[np.argmin(pool.size[at])])] if len(at) else []


def _whole(over: Incidence, pool: Candidates) -> list[int]:
    """The class that covers everything, if there is one."""
    return [int(at) for at in np.flatnonzero(pool.size == over.num_items)[:1]]


def _note(items: Ints, causes: Sequence[Shared], *, what: str) -> str:
    if not causes:
        return f"no common cause: {len(items)} {what} share nothing more than chance would give"
    if causes[0].chance > WEAK_CHANCE:
        return f"weak: chance alone gives as good an answer with probability {causes[0].chance:.2f}"
    return ""


def _shared(
    over: Incidence, items: Ints, pool: Candidates, at: int, *, nature: str, extra: tuple[str, ...] = ()
) -> Shared:
    num, order = check_nature(nature)
    order = (*order[:num], *extra, *order[num:])
    members = over.items_of(int(pool.element[at]))
    hits = int(np.isin(members, items, assume_unique=True).sum())
    equal = [int(i) for i in over.elements_equal_to(int(pool.number[at])) if over.kinds[i] in order]
    equal.sort(key=lambda i: (order.index(over.kinds[i]), over.ids[i]))
    return Shared(
        elements=tuple(over.ids[i] for i in equal),
        members=tuple(members.tolist()),
        hits=hits,
        precision=hits / len(members),
        recall=hits / len(items),
        chance=chance(hits, len(members), total=len(items), num_items=over.num_items, sizes=pool.size),
    )


def _ranked(over: Incidence, items: Ints, *, nature: str, limit: int) -> tuple[Shared, ...]:
    """By F1, the smaller first on ties, then by the nature's order."""
    pool = _pool(over, nature)
    hits = over.count(items)[pool.element]
    at = np.flatnonzero(hits)
    f1 = 2 * hits[at] / (pool.size[at] + len(items))
    best = at[np.lexsort((pool.cost[at], pool.size[at], -f1))][:limit]
    return tuple(_shared(over, items, pool, int(i), nature=nature) for i in best)
