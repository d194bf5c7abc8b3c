"""Kinds and coordinates read from the pattern of groups alone, for runs that do not name them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from argus.topology.groups import Group

Ranks = tuple[int, ...]

_BY_COUNT = {1: ("dp",), 2: ("tp", "dp"), 3: ("tp", "dp", "pp"), 4: ("tp", "cp", "dp", "pp")}
"""Fast to slow, the order of both Megatron and DeviceMesh users."""

DENSE_DIMS = ("tp", "cp", "dp", "dp_shard", "dp_replicate", "pp")
EXPERT_DIMS = ("ep", "etp", "edp")


def kinds_by_pattern(groups: Iterable[Ranks], world_size: int) -> dict[Ranks, str]:
    """Kinds of unnamed groups that together cut the world evenly; what fits no pattern is left out.

    Groups of one size and one stride are a family; a family that covers every rank once is a dimension,
    and dimensions are named by stride. A guess: say so where it is shown.

    >>> kinds_by_pattern([(0, 1), (2, 3), (0, 2), (1, 3)], 4)
    {(0, 1): 'tp', (2, 3): 'tp', (0, 2): 'dp', (1, 3): 'dp'}
    """
    families: dict[tuple[int, int], set[Ranks]] = defaultdict(set)
    for ranks in groups:
        stride = _stride(ranks)
        if stride and len(ranks) < world_size:
            families[stride, len(ranks)].add(ranks)
    whole = [
        (stride, rows)
        for (stride, _), rows in sorted(families.items())
        if sorted(rank for row in rows for rank in row) == list(range(world_size))
    ]
    names = _BY_COUNT.get(len(whole), ())
    if len({stride for stride, _ in whole}) != len(whole):
        return {}  # two families at one stride are nested cuts, not dimensions
    return {row: kind for (_, rows), kind in zip(whole, names, strict=False) for row in sorted(rows)}


def _stride(ranks: Ranks) -> int:
    """Distance between members if it is the same everywhere, else 0."""
    steps = {b - a for a, b in pairwise(ranks)}
    return steps.pop() if len(steps) == 1 else 0


def coordinates(
    groups: Sequence[Group], world_size: int
) -> tuple[tuple[str, ...], Mapping[int, tuple[int, ...]]]:
    """Dimensions and each rank's place along them: its index in its group of that kind.

    Only kinds whose groups cut the whole world evenly count. If the dense ones do not tell ranks
    apart, there are no coordinates.
    """
    place: dict[str, dict[int, int]] = {}
    by_kind: dict[str, list[Group]] = defaultdict(list)
    for group in groups:
        by_kind[group.kind].append(group)
    if "dp" not in by_kind and "cp" not in by_kind and "dp_cp" in by_kind:
        by_kind["dp"] = by_kind["dp_cp"]
    if "dp_shard" in by_kind or "dp_replicate" in by_kind:
        by_kind.pop("dp", None)  # the flattened dimension, not one of its own
    for kind in (*DENSE_DIMS, *EXPERT_DIMS):
        if _cuts_evenly(by_kind.get(kind, []), world_size):
            place[kind] = {rank: i for group in by_kind[kind] for i, rank in enumerate(group.ranks)}
    dense = [kind for kind in DENSE_DIMS if kind in place]
    told_apart = {tuple(place[kind][rank] for kind in dense) for rank in range(world_size)}
    if not dense or len(told_apart) != world_size:
        return (), {}
    names = tuple(place)
    return names, {rank: tuple(place[kind][rank] for kind in names) for rank in range(world_size)}


def _cuts_evenly(groups: Sequence[Group], world_size: int) -> bool:
    if not groups or len({len(group.ranks) for group in groups}) != 1:
        return False
    return sorted(rank for group in groups for rank in group.ranks) == list(range(world_size))
