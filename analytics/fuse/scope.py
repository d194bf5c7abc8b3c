"""Scope: the smallest object of the topology that explains the suspects, and one cause for all it explains."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from argus.analytics.delays import ends_of
from argus.analytics.hiccup import visited_with
from argus.analytics.host_path import halves_of
from argus.analytics.incident import Cause
from argus.analytics.view import View
from argus.topology.fleet import Fleet, build_fleet
from argus.topology.scope import WEAK_CHANCE, Scope, scope_of_groups, scope_of_pairs, smallest_scope

MIN_PRECISION = 0.75
"""An object is the scope when so much of it is suspected: three of four, six of eight."""

OF_HOSTS = ("host.cpu_starved", "host.filesystem")
"""Classes whose cause lies on the host, whichever of its ranks shows it."""


def scope_of_ranks(view: View, ranks: Sequence[int]) -> str:
    """The rank, else the one host that holds them all."""
    if len(ranks) == 1:
        return f"rank:{ranks[0]}"
    hosts = {view.topology.host_of(rank) for rank in ranks}
    return f"host:{min(hosts)}" if len(hosts) == 1 and "" not in hosts else f"run:{view.run}"


def fleet_of(view: View) -> Fleet:
    """Groups and hardware of the attempt: what a loader gave, else what its ranks said of themselves."""
    if view.fleet is not None:
        return view.fleet
    # Kept beside the topology it belongs to, so that it goes when the topology goes.
    known: Fleet | None = view.topology.__dict__.get("_fleet")
    if known is None:
        known = view.topology.__dict__["_fleet"] = build_fleet(topology=view.topology)
    return known


def join_ranks(view: View, causes: Sequence[Cause], *, known: Sequence[Cause] = ()) -> tuple[Cause, ...]:
    """Causes of ranks that one object explains, made one; the others as they are.

    Only ranks that suffer from the same: a slow loader and a slow clock on one host are two causes. What `known`, the
    causes of open incidents, accuse is as suspect as ever: ranks of one host do not have to be seen in one window.
    """
    joined: list[Cause] = []
    for fault_class in dict.fromkeys(cause.fault_class for cause in causes):
        named = [cause for cause in causes if cause.fault_class == fault_class]
        # Of several that name the same half of a host the costliest speaks.
        mine = {cause.suspects[0]: cause for cause in sorted(named, key=lambda cause: cause.s_per_step)}
        same = [cause for cause in known if cause.fault_class == fault_class]
        before = {rank: cause for cause in same for rank in cause.suspects if rank not in mine}
        if len(mine) + len(before) == 1:
            joined += mine.values()
            continue
        scope = smallest_scope(fleet_of(view), {**mine, **before}, nature="self_time")
        for element, members in _objects(scope, all_ranks=view.topology.world_size):
            if seen := [mine.pop(rank) for rank in members if rank in mine]:
                joined.append(_with_known(as_one(seen, element), before, members))
        joined += _of_known_hosts(view, mine, same)
        joined += _neighbours(view, mine)
    return tuple(joined)


def _with_known(cause: Cause, before: Mapping[int, Cause], members: Sequence[int]) -> Cause:
    """The cause with the suspects of open incidents that its object holds."""
    held = {rank: before[rank] for rank in members if rank in before}
    return replace(
        cause,
        suspects=tuple(sorted({*cause.suspects, *held})),
        victims=tuple(rank for rank in cause.victims if rank not in held),
        onset_step=min([cause.onset_step, *(one.onset_step for one in held.values())]),
    )


def _of_known_hosts(view: View, mine: dict[int, Cause], known: Sequence[Cause]) -> list[Cause]:
    """Ranks of a host that an open incident of their class accuses already, taken out of `mine`."""
    found = []
    for cause in known:
        kind, _, host = cause.scope.partition(":")
        members = [rank for rank in mine if kind == "host" and view.topology.host_of(rank) == host]
        if members:
            found.append(as_one([mine.pop(rank) for rank in members], cause.scope))
    return found


def as_whole_half(view: View, cause: Cause) -> Cause:
    """The cause as one of all ranks of its half, if each of them showed it (`host_path`), whoever has the votes."""
    halves = halves_of(view.topology, cause.suspects[0])
    if halves is None or not any(item.name == "half_excess_s" for item in cause.evidence):
        return cause
    fleet, ranks = fleet_of(view), tuple(sorted(halves[0]))
    scope = next((e for e in fleet.elements_of(ranks[0]) if e.startswith("half:")), None)
    if scope is None or fleet.ranks_of(scope) != ranks:
        return cause
    victims = tuple(rank for rank in cause.victims if rank not in ranks)
    return replace(cause, suspects=ranks, scope=scope, victims=victims)


def as_visited_host(view: View, cause: Cause) -> Cause:
    """The cause as one of its host, if most of its ranks are visited again and again as the suspect is (`hiccup`),
    whoever has the votes: of those that stand still in one step the others wait for the last alone."""
    if view.digest is None or len(cause.suspects) != 1:
        return cause
    rank = cause.suspects[0]
    visited = visited_with((*view.past, view.digest), view.topology, rank)
    host = view.topology.host_of(rank)
    if len(visited) < max(MIN_PRECISION * len(view.topology.ranks_of_host(host)), 2):
        return cause
    victims = tuple(rank for rank in cause.victims if rank not in visited)
    return replace(cause, suspects=visited, scope=f"host:{host}", victims=victims)


def as_known_half(view: View, cause: Cause, known: Sequence[Cause]) -> Cause:
    """The cause, named as an open incident of the same half of a host is: timing alone cannot tell a rank that is slow
    by itself from one that is slow with its half, and the others of the half have shown which."""
    if cause.fault_class != "compute.slow":
        return cause
    for one in known:
        is_half = one.fault_class == "host.numa" and one.scope.startswith("half:")
        if is_half and set(cause.suspects) <= set(fleet_of(view).ranks_of(one.scope)):
            return replace(
                cause, fault_class=one.fault_class, verdict=one.verdict, second_best=cause.fault_class
            )
    return cause


def _neighbours(view: View, causes: Mapping[int, Cause]) -> list[Cause]:
    """Ranks of one host that fell ill at once, made one cause of the host, though most of its ranks are well.

    Only where chance would not seat them side by side, as on one of three hosts it would, or where all of the host's
    ranks lack what a host has to give.
    """
    by_host: dict[str, list[Cause]] = defaultdict(list)
    for rank, cause in causes.items():
        by_host[view.topology.host_of(rank)].append(cause)
    found: list[Cause] = []
    for host, mine in by_host.items():
        onsets = [cause.onset_step for cause in mine]
        steps = view.digest.num_steps if view.digest is not None else 0
        is_one = bool(host) and len(mine) > 1 and max(onsets) - min(onsets) <= steps
        is_whole = len(mine) == len(view.topology.ranks_of_host(host)) and mine[0].fault_class in OF_HOSTS
        if is_one and (is_whole or _by_chance(view, host, len(mine), of=len(causes)) <= WEAK_CHANCE):
            found.append(as_one(mine, f"host:{host}"))
        else:
            found += mine
    return found


def _by_chance(view: View, host: str, hits: int, *, of: int) -> float:
    """How many hosts would hold so many of the suspects if these were anywhere, at most."""
    share = len(view.topology.ranks_of_host(host)) / max(view.topology.world_size, 1)
    return math.comb(of, hits) * share ** (hits - 1)


def join_paths(view: View, causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Causes of paths that one object explains, made one; the others as they are."""
    pairs = {ends: cause for cause in causes if (ends := ends_of(cause.paths[0])) is not None}
    groups = {cause.paths[0]: cause for cause in causes if ends_of(cause.paths[0]) is None}
    known = {group.id for group in view.topology.groups}
    joined = [groups.pop(name) for name in [*groups] if name not in known]
    joined += _joined_groups(view, groups) if len(groups) > 1 else list(groups.values())
    joined += _joined_pairs(view, pairs) if len(pairs) > 1 else list(pairs.values())
    return tuple(joined)


def _joined_groups(view: View, causes: dict[str, Cause]) -> list[Cause]:
    left, joined = dict(causes), []
    scope = scope_of_groups(fleet_of(view), causes)
    for element, members in _objects(scope, all_ranks=len(fleet_of(view).comm_groups)):
        names = [scope.labels[member] for member in members]
        joined.append(as_one([left.pop(name) for name in names if name in left], element))
    return [*joined, *left.values()]


def _joined_pairs(view: View, causes: dict[tuple[int, int], Cause]) -> list[Cause]:
    """Pairs are compared with those that touch a host of theirs: those elsewhere say nothing of it."""
    hosts = {view.topology.host_of(rank) for ends in causes for rank in ends}
    tested = [
        ends
        for path in (view.digest.paths if view.digest is not None else ())
        if (ends := ends_of(path)) is not None and {view.topology.host_of(rank) for rank in ends} & hosts
    ]
    scope = scope_of_pairs(fleet_of(view), causes, tested=tested)
    by_name: dict[str, list[Cause]] = {}
    for (a, b), cause in causes.items():
        by_name.setdefault(f"{min(a, b)}–{max(a, b)}", []).append(cause)
    joined = []
    for element, members in _objects(scope, all_ranks=len(set(map(frozenset, tested)))):
        mine = [cause for member in members for cause in by_name.pop(scope.labels[member], [])]
        joined.append(as_one(mine, element))
    return [*joined, *(as_one(both, both[0].scope) for both in by_name.values() if both)]


def _objects(scope: Scope, *, all_ranks: int) -> list[tuple[str, list[int]]]:
    """Objects that explain two suspects or more, with those; everything there is explains nothing."""
    return [
        (shared.element, [item for item in shared.members if item in set(scope.suspects)])
        for shared in scope.causes
        if shared.hits > 1
        and shared.precision >= MIN_PRECISION
        and shared.chance <= WEAK_CHANCE
        and shared.size < all_ranks
    ]


def as_one(causes: Sequence[Cause], element: str) -> Cause:
    """The costliest of them speaks for all."""
    worst = max(causes, key=lambda cause: cause.s_per_step)
    suspects = tuple(sorted({rank for cause in causes for rank in cause.suspects}))
    return replace(
        worst,
        suspects=suspects,
        scope=element,
        victims=tuple(sorted({rank for cause in causes for rank in cause.victims} - set(suspects))),
        paths=tuple(dict.fromkeys(path for cause in causes for path in cause.paths)),
        findings=tuple(dict.fromkeys(name for cause in causes for name in cause.findings)),
        onset_step=min(cause.onset_step for cause in causes),
    )
