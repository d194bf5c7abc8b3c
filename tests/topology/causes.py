"""Injected common causes: what a fault at an element makes of the suspects, with noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from argus.topology.axes import Ints
from argus.topology.fleet import Fleet
from argus.topology.scope import Scope, scope_of_groups, smallest_scope
from tests.topology.fleets import Shape, fleet

MISSING = 0.10
FALSE = 0.02

SHAPES = tuple(
    Shape(
        world=world,
        tp=2 if world <= 128 else 8,
        pp=2 if world <= 128 else 4,
        ep=4,
        nics_per_host=nics,
        is_rail_optimised=nics == 8,
        hosts_per_leaf=per_leaf,
    )
    for world, per_leaf in ((64, 2), (128, 4), (512, 8), (1024, 16), (10_240, 16))
    for nics in (4, 8)
)
KINDS = ("nic", "host", "half", "leaf", "rail", "edp", "stage", "two", "none")


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One injected cause; `truth` is empty for none."""

    shape: Shape
    kind: str
    truth: tuple[str, ...]
    scope: Scope

    @property
    def is_right(self) -> bool:
        """The right scope first; for two causes both and no other; none where there is none."""
        causes = self.scope.causes
        if not self.truth:
            return not causes
        if len(self.truth) == 1:
            return bool(causes) and self.truth[0] in causes[0].elements
        return len(causes) == len(self.truth) and all(
            any(name in cause.elements for cause in causes) for name in self.truth
        )


@cache
def cached_fleet(shape: Shape) -> Fleet:
    """The fleet of a shape, built once."""
    return fleet(shape)


def draw(rng: np.random.Generator) -> Draw:
    """A random fleet and cause, its suspects with noise, and the answer."""
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    kind = KINDS[int(rng.integers(len(KINDS)))]
    here = cached_fleet(shape)
    if kind == "none":
        count = int(rng.integers(4, max(shape.world // 16, 6)))
        suspects = rng.choice(shape.world, count, replace=False)
        return Draw(shape=shape, kind=kind, truth=(), scope=smallest_scope(here, suspects.tolist()))
    nature = "transfer" if kind in ("nic", "leaf", "rail", "edp") else "self_time"
    if kind == "nic" and shape.nics_per_host == shape.per_host:
        # One GPU per NIC: ranks cannot tell the two apart, the groups that cross the NIC can.
        truth = _pick(rng, here, "nic")
        items = _noisy(rng, here.groups.items_of(here.groups.index[truth]), len(here.comm_groups))
        names = [here.comm_groups[i] for i in items.tolist()]
        return Draw(shape=shape, kind=kind, truth=(truth,), scope=scope_of_groups(here, names))
    truths = _two(rng, here) if kind == "two" else (_pick(rng, here, kind),)
    members = np.unique(np.concatenate([np.array(here.ranks_of(name)) for name in truths]))
    suspects = _noisy(rng, members, shape.world)
    scope = smallest_scope(here, suspects.tolist(), nature=nature)
    return Draw(shape=shape, kind=kind, truth=truths, scope=scope)


def _noisy(rng: np.random.Generator, members: Ints, world: int) -> Ints:
    """A tenth of the members missing, false ones of two in a hundred of their number, at least one."""
    missing = round(MISSING * len(members))
    kept = rng.permutation(members)[missing:]
    outside = np.setdiff1d(np.arange(world), members)
    false = rng.choice(outside, min(max(1, round(FALSE * len(members))), len(outside)), replace=False)
    return np.unique(np.concatenate([kept, false]))


def _pick(rng: np.random.Generator, here: Fleet, kind: str) -> str:
    names = here.elements_of_kind("group" if kind == "edp" else kind)
    if kind == "edp":
        names = tuple(name for name in names if name.startswith("group:edp/"))
    return str(names[int(rng.integers(len(names)))])


def _two(rng: np.random.Generator, here: Fleet) -> tuple[str, str]:
    """Two causes of four ranks or more that do not touch and are not together one element."""
    while True:
        kinds = rng.choice(("host", "half", "leaf", "edp"), 2)
        first, second = (_pick(rng, here, str(kind)) for kind in kinds)
        a, b = set(here.ranks_of(first)), set(here.ranks_of(second))
        whole = {frozenset(here.ranks_of(name)) for name in here.elements_of(min(a))}
        if min(len(a), len(b)) >= 4 and not a & b and frozenset(a | b) not in whole:
            return first, second
