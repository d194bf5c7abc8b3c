"""A grid of ranks: named dimensions, rank to coordinates and back, groups along any of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from numpy.typing import NDArray

MAX_WORLD = 1 << 20
"""Ranks of a grid; the wire has the same limit."""

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Axes:
    """Dimensions slow to fast, as DeviceMesh has them: the last varies fastest with the rank.

    >>> Axes(names=("pp", "dp", "tp"), sizes=(2, 2, 2)).groups("tp").tolist()
    [[0, 1], [2, 3], [4, 5], [6, 7]]
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names) or len(self.names) != len(self.sizes):
            raise ValueError(f"dimensions need one name and one size each, got {self.names} and {self.sizes}")
        for name, size in zip(self.names, self.sizes, strict=True):
            if size < 1:
                raise ValueError(f"size of {name} must be at least 1, got {size}")
        if prod(self.sizes) > MAX_WORLD:
            raise ValueError(f"{prod(self.sizes)} ranks are more than the {MAX_WORLD} that are taken")

    @property
    def world_size(self) -> int:
        """Number of ranks in the grid."""
        return prod(self.sizes)

    def coordinates(self) -> Ints:
        """Coordinates of every rank, shape (rank, dimension)."""
        grid = np.unravel_index(np.arange(self.world_size), self.sizes or (1,))
        return np.stack(grid, axis=1).astype(np.int64)

    def rank_at(self, coords: Mapping[str, int]) -> int:
        """The rank at the coordinates; dimensions not named are at 0. ValueError outside the grid."""
        unknown = sorted(set(coords) - set(self.names))
        if unknown:
            raise ValueError(f"no dimension {unknown[0]!r}; there are {', '.join(self.names)}")
        at = tuple(coords.get(name, 0) for name in self.names)
        for name, value, size in zip(self.names, at, self.sizes, strict=True):
            if not 0 <= value < size:
                raise ValueError(f"{name} must be in [0, {size - 1}], got {value}")
        return int(np.ravel_multi_index(at, self.sizes))

    def groups(self, *along: str) -> Ints:
        """All groups whose members differ only along the given dimensions, shape (group, member).

        Members ascend, groups are in order of their lowest rank.
        """
        unknown = sorted(set(along) - set(self.names))
        if unknown:
            raise ValueError(f"no dimension {unknown[0]!r}; there are {', '.join(self.names)}")
        inside = [i for i, name in enumerate(self.names) if name in along]
        outside = [i for i, name in enumerate(self.names) if name not in along]
        grid = np.arange(self.world_size, dtype=np.int64).reshape(self.sizes or (1,))
        if not self.names:
            return grid.reshape(1, 1)
        size = prod(self.sizes[i] for i in inside)
        return grid.transpose(outside + inside).reshape(-1, size)


def axes_of(pairs: Iterable[tuple[str, int]]) -> Axes:
    """Axes from (name, size) pairs, slow to fast."""
    rows = tuple(pairs)
    return Axes(names=tuple(name for name, _ in rows), sizes=tuple(size for _, size in rows))
