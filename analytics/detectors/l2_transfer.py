"""L2: a path whose transfers take longer than they used to, or than those of its sibling paths.

Transfer is what is left of a call after the last member has entered. A path is a group for collectives and a pair
of ranks for point-to-point, so that a single bad link is named by its two ends. When transfers grow, the path
is slow (link, NIC, PCIe, switch) *or* a member could not serve it; `fuse` decides which.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from argus.analytics.baseline import (
    FALSE_ALARMS_PER_DAY,
    MIN_COVERAGE,
    is_comparable,
    outliers,
    path_history,
    window_seconds,
)
from argus.analytics.delays import ends_of
from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.robust import leave_one_out_median, median_of_columns
from argus.analytics.view import Digest, View
from argus.analytics.window import Bools, Floats, Ints
from argus.topology.groups import Group

NEEDS = "slow_link"

MIN_PAST = 5
"""Windows of own history before a path is compared with itself."""

MIN_SIBLINGS = 3
"""Paths of the same kind and size before a path is compared with them."""

TINY_S = 1e-9
"""Added below logarithms: the clock's own unit."""


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """Transfers per step against what they are compared with. (path,) `expected` is NaN where there is nothing."""

    expected: Floats
    exceeds: Bools
    significance: Floats
    source: str


def detect(
    view: View,
    *,
    false_alarms_per_day: float = FALSE_ALARMS_PER_DAY,
    min_ratio: float = 1.25,  # transfers repeat worse than compute; a degraded link costs a multiple
    min_share: float = 0.03,  # of the step: 0.6 of a 5 % slowdown
    min_coverage: float = MIN_COVERAGE,
) -> tuple[Finding, ...]:
    """One link finding per slow path."""
    digest = observed(view)
    if digest is None or view.window is None or not is_comparable(digest, min_coverage):
        return ()
    got, floor_s = digest.transfer_sum_s, min_share * digest.typical_step_s
    heavy = np.flatnonzero(np.nan_to_num(got) >= floor_s)
    if not len(heavy):
        return ()
    declared = {group.id: group for group in view.topology.groups}
    kind = _kinds(digest.paths, declared)
    found, taken = [], np.zeros(len(got), np.bool_)
    for compare in (_against_past, _against_siblings):
        result = compare(view, digest, heavy=heavy, kind=kind, budget=false_alarms_per_day)
        with np.errstate(invalid="ignore"):
            slow = result.exceeds & (got >= min_ratio * result.expected) & (got - result.expected >= floor_s)
        for path in np.flatnonzero(slow & ~taken):
            found.append(_finding(view, digest, int(path), declared, result))
        taken |= slow
    return tuple(found)


def _kinds(paths: tuple[str, ...], declared: Mapping[str, Group]) -> Ints:
    """Number of each path's kind and size, −1 where the topology does not know it. (path,)"""
    known: dict[tuple[str, int], int] = {}
    kind = np.full(len(paths), -1, np.int64)
    for n, path in enumerate(paths):
        group = declared.get(path)
        if group is not None:
            kind[n] = known.setdefault((group.kind, len(group.ranks)), len(known))
        elif ends_of(path) is not None:
            kind[n] = known.setdefault(("pair", 2), len(known))
    return kind


def _against_past(view: View, digest: Digest, *, heavy: Ints, kind: Ints, budget: float) -> _Comparison:
    """Against the path's own clean past; how far healthy paths stray is pooled over those of the kind."""
    num = len(digest.paths)
    expected, significance = np.full(num, np.nan), np.zeros(num)
    exceeds = np.zeros(num, np.bool_)
    past = path_history(view.past, [digest.paths[i] for i in heavy])
    enough = np.isfinite(past).sum(axis=0) >= MIN_PAST
    heavy, past = heavy[enough], past[:, enough]
    if len(heavy):
        expected[heavy] = median_of_columns(past)
    for number in np.unique(kind[heavy]):
        mine = kind[heavy] == number
        usual = np.maximum(expected[heavy[mine]], TINY_S)
        test = outliers(
            np.log(np.maximum(digest.transfer_sum_s[heavy[mine]], TINY_S) / usual),
            np.log(np.maximum(past[:, mine], TINY_S) / usual),
            tests=num,
            window_s=window_seconds(digest),
            budget_per_day=budget,
        )
        exceeds[heavy[mine]], significance[heavy[mine]] = test.exceeds, test.significance
    return _Comparison(expected=expected, exceeds=exceeds, significance=significance, source="own past")


def _against_siblings(view: View, digest: Digest, *, heavy: Ints, kind: Ints, budget: float) -> _Comparison:
    """Against the other paths of its kind and size in the same window."""
    num, got = len(digest.paths), digest.transfer_sum_s
    expected, significance = np.full(num, np.nan), np.zeros(num)
    exceeds = np.zeros(num, np.bool_)
    for number in np.unique(kind[heavy]):
        mine = np.flatnonzero((kind == number) & np.isfinite(got))
        if number < 0 or len(mine) <= MIN_SIBLINGS:
            continue
        usual = np.maximum(leave_one_out_median(got[mine]), TINY_S)
        expected[mine] = usual
        deviation = np.log(np.maximum(got[mine], TINY_S) / usual)
        # The largest of a window is compared with the spread of the others, lest it vouch for itself.
        others = np.delete(deviation, int(deviation.argmax()))
        test = outliers(
            deviation,
            np.broadcast_to(others[:, None], (len(others), 1)),
            tests=num,
            window_s=window_seconds(digest),
            budget_per_day=budget,
            rho=1.0,
        )
        exceeds[mine], significance[mine] = test.exceeds, test.significance
    return _Comparison(expected=expected, exceeds=exceeds, significance=significance, source="sibling paths")


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
