"""Which ranks do the same work, laid out so that one sort serves every class of peers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from argus.topology.groups import kind_of

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Groups = Mapping[tuple[str, int], tuple[tuple[str, Ints], ...]]
Roles = Mapping[str, tuple[str, ...]]
Places = Ints | slice


@dataclass(frozen=True, kw_only=True)
class Peers:
    """Classes of ranks with the same role (stage, shard).

    `ranks` (rank,) are global ranks; `of` (rank,) is each one's class; `rows` (class, member) indexes `ranks`,
    −1 where a class has fewer. `groups` maps a kind and a pipeline stage to communication groups that do the
    same, as indices of `ranks`, −1 for a member that is not among them: stages hold other layers and send other
    amounts. `roles` maps what a stream role calls a kind of group to the kinds it has in `groups`. The kernels that
    are `of_experts` (kernel,) are compared over the classes of `experts`: ranks that hold the same ones.
    """

    ranks: Ints
    of: Ints
    rows: Ints
    groups: Groups = field(default_factory=dict)
    roles: Roles = field(default_factory=dict)
    experts: Peers | None = field(default=None, repr=False)
    of_experts: Bools = field(default_factory=lambda: np.zeros(0, np.bool_), repr=False)

    def of_kernel(self, kernel: int) -> Peers:
        """The classes over which one kernel is compared, by its place."""
        return self.experts if self.experts is not None and self.of_experts[kernel] else self

    def by_class(self, kernels: Ints | None = None) -> Iterator[tuple[Places, Ints]]:
        """Every class as (places among `kernels` that are compared over it, its members).

        Without `kernels`, as for what is of no single kernel, all places are.
        """
        places: list[tuple[Places, Peers]] = [(slice(None), self)]
        if self.experts is not None and kernels is not None and self.of_experts[kernels].any():
            is_expert = self.of_experts[kernels]
            places = [(np.flatnonzero(~is_expert), self), (np.flatnonzero(is_expert), self.experts)]
        for some, same in places:
            for rows in same.rows:
                yield some, rows[rows >= 0]

    def num_peers(self, kernels: Ints) -> Ints:
        """Members of each rank's class, itself among them. (1, rank) or (kernel, rank)"""
        mine = self.sizes[self.of][None]
        if self.experts is None or not self.of_experts[kernels].any():
            return mine
        theirs = self.experts.sizes[self.experts.of][None]
        return np.where(self.of_experts[kernels][:, None], theirs, mine)

    @property
    def sizes(self) -> Ints:
        """Members of each class. (class,)"""
        return np.asarray((self.rows >= 0).sum(axis=1))

    def groups_of_role(self, called: str) -> Iterator[tuple[tuple[str, Ints], ...]]:
        """Groups whose kernels have the role `comm:<called>`, those that do the same together; "" gives all.

        What no record of the job explains is read as a group's description is.
        """
        kinds = self.roles.get(called) or (kind_of(called, size=0, world_size=0),)
        return (some for (kind, _), some in self.groups.items() if not called or kind in kinds)

    def medians(self, columns: Floats, *, valid: Bools | None = None) -> Floats:
        """Median of each column's valid values by class, NaN where there is none.

        `columns` (column, rank), `valid` (rank,); returns (column, class).
        """
        is_full = len(self.rows) == 1 and (valid is None or bool(valid.all()))
        if is_full:
            picked = np.sort(columns, axis=1)[:, None, :]
            count = np.full(1, columns.shape[1])
        else:
            here = self.rows >= 0 if valid is None else (self.rows >= 0) & valid[self.rows]
            picked = np.where(here, columns[:, self.rows], np.inf)
            picked.sort(axis=2)
            count = here.sum(axis=1)
        at = np.arange(len(self.rows))
        low = picked[:, at, np.maximum((count - 1) // 2, 0)]
        high = picked[:, at, np.minimum(count // 2, picked.shape[2] - 1)]
        with np.errstate(invalid="ignore"):
            return np.where(count > 0, (low + high) / 2.0, np.nan)


def classes(ranks: Ints, of: Ints, *, groups: Groups | None = None, roles: Roles | None = None) -> Peers:
    """Peers from the class of each rank."""
    _, of = np.unique(of, return_inverse=True)
    of = of.reshape(-1).astype(np.int64)
    order = np.argsort(of, kind="stable")
    sizes = np.bincount(of, minlength=1)
    rows = np.full((len(sizes), int(sizes.max(initial=1))), -1, np.int64)
    inside = np.arange(len(of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows[of[order], inside] = order
    return Peers(ranks=ranks, of=of, rows=rows, groups=groups or {}, roles=roles or {})
