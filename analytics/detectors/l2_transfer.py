"""L2: a path whose transfers take longer than they used to, or than those of its sibling paths.

Transfer is what is left of a call after the last member has entered. A path is a group for collectives and a pair
of ranks for point-to-point, so that a single bad link is named by its two ends. When transfers grow, the path
is slow (link, NIC, PCIe, switch) *or* a member could not serve it; `fuse` decides which.

What a pair loses and whether its wire is slower are two numbers. Receivers that wait for their input stand for the
whole transfer, those that are busy for none of it, so the time stood for tells the cost but grows with any slow stage;
the time of one call whose receiver stood ready tells the wire, and moves with nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from argus.analytics.baseline import (
    FALSE_ALARMS_PER_DAY,
    MIN_COVERAGE,
    Outlier,
    is_comparable,
    outliers,
    path_history,
    window_seconds,
)
from argus.analytics.delays import ends_of
from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.recalled import recalled
from argus.analytics.robust import leave_one_out_median, median_of_columns
from argus.analytics.view import Digest, View
from argus.analytics.window import Bools, Floats, Ints
from argus.topology.groups import Group
from argus.topology.layout import Topology

NEEDS = "slow_link"

MIN_PAST = 5
"""Windows of own history before a path is compared with itself."""

MIN_SIBLINGS = 3
"""So many paths of the same kind and size do not tell how far healthy ones lie apart."""

ALIKE = 1.1
"""Calls and bytes of groups that do the same: a step or two of some rank may be missing."""

ONE_WAY = 0.25
"""Of the floor of a pair; a direction that loses less is no part of it."""

TINY_S = 1e-9
"""Added below logarithms: the clock's own unit."""


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """Transfers per step against what they are compared with. (path,) `expected` is NaN where there is nothing.

    `exceeds` = slower than noise and `min_ratio` allow, `floor_s` = what has to be lost a step.
    """

    expected: Floats
    exceeds: Bools
    floor_s: Floats
    significance: Floats
    source: str


@dataclass(frozen=True, kw_only=True)
class _Rule:
    """What both comparisons go by: the paths, ratio and floors in seconds, the budget."""

    paths: _Paths
    min_ratio: float
    floor_s: float
    wire_floor_s: float
    budget: float


def detect(
    view: View,
    *,
    false_alarms_per_day: float = FALSE_ALARMS_PER_DAY,
    min_ratio: float = 1.25,  # transfers repeat worse than compute; a degraded link costs a multiple
    min_share: float = 0.03,  # of the step: 0.6 of a 5 % slowdown
    min_wire_share: float = 0.006,  # of the step, both ways of a pair: 0.6 of 1 %, for its calls repeat to a few per cent
    min_coverage: float = MIN_COVERAGE,
) -> tuple[Finding, ...]:
    """One link finding per slow path."""
    digest = observed(view)
    if digest is None or view.window is None or not is_comparable(digest, min_coverage):
        return ()
    step_s, declared = digest.typical_step_s, {group.id: group for group in view.topology.groups}
    rule = _Rule(
        paths=_paths(view.topology, digest.paths),
        min_ratio=min_ratio,
        floor_s=min_share * step_s,
        wire_floor_s=min_wire_share * step_s,
        budget=false_alarms_per_day,
    )
    found, taken = [], np.zeros(len(digest.paths), np.bool_)
    for compare in (_wires_against_past, _against_past, _against_siblings):
        result = compare(view, digest, rule)
        with np.errstate(invalid="ignore"):
            slow = result.exceeds & (digest.transfer_sum_s - result.expected >= result.floor_s)
        for path in np.flatnonzero(slow & ~taken):
            found.append(_finding(view, digest, int(path), declared, result))
        taken |= slow
    return tuple(found)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Paths:
    """Of each path: the number of its kind and size, −1 where the topology does not know it, whether it is a pair of
    ranks, and the place of a pair's way back, its own where nothing goes back. (path,)"""

    kind: Ints
    is_pair: Bools
    back: Ints


def _paths(topology: Topology, paths: tuple[str, ...]) -> _Paths:
    return recalled(topology, "kinds of paths", (paths,), lambda: _read_paths(topology, paths))


def _read_paths(topology: Topology, paths: tuple[str, ...]) -> _Paths:
    declared = {group.id: group for group in topology.groups}
    place = {name: n for n, name in enumerate(paths)}
    known: dict[tuple[str, int], int] = {}
    kind, back = np.full(len(paths), -1, np.int64), np.arange(len(paths))
    is_pair = np.zeros(len(paths), np.bool_)
    for n, path in enumerate(paths):
        group, ends = declared.get(path), ends_of(path)
        if group is not None:
            kind[n] = known.setdefault((group.kind, len(group.ranks)), len(known))
        elif ends is not None:
            kind[n] = known.setdefault(("pair", 2), len(known))
        if ends is not None:
            is_pair[n], back[n] = True, place.get(f"{ends[1]}>{ends[0]}", n)
    return _Paths(kind=kind, is_pair=is_pair, back=back)


def _none(digest: Digest, floor_s: float, source: str) -> _Comparison:
    """Nothing compared yet, to be filled in."""
    num = len(digest.paths)
    return _Comparison(
        expected=np.full(num, np.nan),
        exceeds=np.zeros(num, np.bool_),
        floor_s=np.full(num, floor_s),
        significance=np.zeros(num),
        source=source,
    )


def _wires_against_past(view: View, digest: Digest, rule: _Rule) -> _Comparison:
    """Pairs by the time of a call whose receiver stood ready, against the pair's own past and the growth of the others.

    The floor holds for both directions together: one cable slows the way there and the way back.
    """
    result = _none(digest, rule.wire_floor_s, "own past")
    stood, wire = np.nan_to_num(digest.transfer_sum_s), digest.transfer_s
    mine = np.flatnonzero(rule.paths.is_pair & np.isfinite(wire))
    back = rule.paths.back[mine]
    if not (stood[mine] + stood[back] >= rule.wire_floor_s).any():
        return result
    past = _past_wires(view, digest, mine)
    enough = np.isfinite(past).sum(axis=0) >= MIN_PAST
    mine, back, past = mine[enough], back[enough], past[:, enough]
    if not len(mine):
        return result
    usual = np.maximum(median_of_columns(past), TINY_S)
    growth = np.log(np.maximum(wire[mine], TINY_S) / usual)
    if len(mine) > MIN_SIBLINGS:  # longer messages are slower on every pair
        growth = growth - np.maximum(leave_one_out_median(growth), 0.0)
    test = _test(digest, growth, np.log(np.maximum(past, TINY_S) / usual), rule)
    before = median_of_columns(path_history(view.past, [digest.paths[i] for i in mine]))
    # A receiver that stood for nothing before may stand now, yet for less on the wire as it was.
    result.expected[mine] = np.where(before > 0, before, stood[mine] * usual / wire[mine])
    result.exceeds[mine] = test.exceeds & (growth >= np.log(rule.min_ratio))
    result.significance[mine] = test.significance
    lost = np.where(result.exceeds, np.maximum(np.nan_to_num(stood - result.expected), 0.0), 0.0)
    theirs = np.where(back == mine, 0.0, lost[back])
    result.floor_s[mine] = np.maximum(rule.wire_floor_s - theirs, ONE_WAY * rule.wire_floor_s)
    return result


def _past_wires(view: View, digest: Digest, which: Ints) -> Floats:
    """Times of a call of some paths in earlier windows. (window, path)"""
    return path_history(view.past, [digest.paths[i] for i in which], pick=lambda old: old.transfer_s)


def _test(digest: Digest, now: Floats, past: Floats, rule: _Rule, *, rho: float | None = None) -> Outlier:
    return outliers(
        now,
        past,
        tests=len(digest.paths),
        window_s=window_seconds(digest),
        budget_per_day=rule.budget,
        rho=rho,
    )


def _heavy(digest: Digest, rule: _Rule) -> Ints:
    """Paths that could have lost enough."""
    return np.flatnonzero(np.nan_to_num(digest.transfer_sum_s) >= rule.floor_s)


def _against_past(view: View, digest: Digest, rule: _Rule) -> _Comparison:
    """Against the path's own clean past; how far healthy paths stray is pooled over those of the kind.

    Pairs whose wire has a past are judged by that alone.
    """
    result, heavy = _none(digest, rule.floor_s, "own past"), _heavy(digest, rule)
    known = np.isfinite(_past_wires(view, digest, heavy)).sum(axis=0) >= MIN_PAST
    heavy = heavy[~(known & rule.paths.is_pair[heavy])]
    past = path_history(view.past, [digest.paths[i] for i in heavy])
    # Where all of a transfer was hidden behind work, nothing says how long it took.
    enough = (np.isfinite(past).sum(axis=0) >= MIN_PAST) & (median_of_columns(past) > 0)
    heavy, past = heavy[enough], past[:, enough]
    if not len(heavy):
        return result
    result.expected[heavy] = median_of_columns(past)
    for number in np.unique(rule.paths.kind[heavy]):
        mine = rule.paths.kind[heavy] == number
        got, usual = digest.transfer_sum_s[heavy[mine]], np.maximum(result.expected[heavy[mine]], TINY_S)
        growth = np.log(np.maximum(got, TINY_S) / usual)
        test = _test(digest, growth, np.log(np.maximum(past[:, mine], TINY_S) / usual), rule)
        result.exceeds[heavy[mine]] = test.exceeds & (growth >= np.log(rule.min_ratio))
        result.significance[heavy[mine]] = test.significance
    return result


def _against_siblings(view: View, digest: Digest, rule: _Rule) -> _Comparison:
    """Against the other paths of its kind and size in the same window.

    Of two or three groups none can tell how far healthy ones lie apart, so that takes the ratio of complete ignorance;
    and only groups that move as much over as many hosts are alike. A link gets slow by many times, none gets fast.
    """
    result, got = _none(digest, rule.floor_s, "sibling paths"), digest.transfer_sum_s
    for number in np.unique(rule.paths.kind[_heavy(digest, rule)]):
        mine = np.flatnonzero((rule.paths.kind == number) & np.isfinite(got))
        is_few = len(mine) <= MIN_SIBLINGS
        if number < 0 or len(mine) < 2 or (is_few and not _are_alike(view, digest, mine)):
            continue
        usual = np.maximum(leave_one_out_median(got[mine]), TINY_S)
        result.expected[mine] = usual
        deviation = np.log(np.maximum(got[mine], TINY_S) / usual)
        # The largest of a window is compared with the spread of the others, lest it vouch for itself.
        others = np.empty(0) if is_few else np.delete(deviation, int(deviation.argmax()))
        test = _test(digest, deviation, others[:, None], rule, rho=1.0)
        result.exceeds[mine] = test.exceeds & (deviation >= np.log(rule.min_ratio))
        result.significance[mine] = test.significance
    return result


def _are_alike(view: View, digest: Digest, paths: Ints) -> bool:
    """Whether the groups made as many calls of as many bytes over as many hosts. Pairs are never: stages differ."""
    assert view.window is not None
    rows, groups = view.window.collectives, {group.id: group for group in view.topology.groups}
    names = [digest.paths[i] for i in paths]
    if any(name not in groups or name not in view.window.groups for name in names):
        return False
    mine = [rows.group == view.window.groups.index(name) for name in names]
    moved = np.array([[one.sum(), rows.bytes[one].sum()] for one in mine], np.float64)
    hosts = {len({view.topology.host_of(rank) for rank in groups[name].ranks}) for name in names}
    return len(hosts) == 1 and bool((moved.max(axis=0) <= ALIKE * moved.min(axis=0)).all())


def _finding(
    view: View, digest: Digest, path: int, declared: Mapping[str, Group], result: _Comparison
) -> Finding:
    got, expected = float(digest.transfer_sum_s[path]), float(result.expected[path])
    name, ends = digest.paths[path], ends_of(digest.paths[path])
    group = declared.get(name)
    ranks = ends or (group.ranks if group else ())
    hosts = dict.fromkeys(view.topology.host_of(rank) for rank in ranks)
    first = f"edge:rank:{min(ends)}--rank:{max(ends)}" if ends else f"group:{name}"
    mine = tuple(f"rank:{rank}" for rank in ends or ())
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=digest.index,
        level="L2",
        detector="l2_transfer",
        kind="transfer",
        role="link",
        ranks=ranks,
        nodes=(first, *mine, *(f"host:{host}" for host in hosts if host)),
        group=_group_of(ends, declared) if ends else name,
        start_step=digest.first_step,
        end_step=digest.first_step + digest.num_steps - 1,
        ratio=got / expected,
        effect_s_per_step=got - expected,
        share_of_step=(got - expected) / digest.typical_step_s,
        significance=float(result.significance[path]),
        evidence=(
            Evidence(
                name="transfer_s",
                value=got,
                unit="s",
                baseline=expected,
                note=f"per step, against {result.source}",
            ),
            Evidence(name="call_transfer_s", value=float(digest.transfer_s[path]), unit="s"),
        ),
    )


def _group_of(ends: tuple[int, int], declared: Mapping[str, Group]) -> str | None:
    """The smallest group that holds both ends."""
    both = [group for group in declared.values() if ends[0] in group.ranks and ends[1] in group.ranks]
    return min(both, key=lambda group: (len(group.ranks), group.id)).id if both else None
