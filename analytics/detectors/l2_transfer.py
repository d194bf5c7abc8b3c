"""L2: a group whose transfers take longer than they used to, or than those of its sibling groups.

Transfer is what is left of a collective after the last member has entered. When it grows for a group, the
path is slow (link, NIC, PCIe, switch) *or* one member could not serve it; `fuse` decides which.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.baseline import (
    FALSE_ALARMS_PER_DAY,
    MIN_COVERAGE,
    group_history,
    is_comparable,
    outliers,
    window_seconds,
)
from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.view import Digest, View
from argus.topology.groups import Group

NEEDS = "slow_link"

MIN_PAST = 5
"""Windows of own history before a group is compared with itself."""

MIN_SIBLINGS = 3
"""Groups of the same kind and size before a group is compared with them."""


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    """Transfer per step against what it is compared with."""

    expected: float
    significance: float
    source: str


def detect(
    view: View,
    *,
    false_alarms_per_day: float = FALSE_ALARMS_PER_DAY,
    min_ratio: float = 1.25,  # transfers repeat worse than compute; a degraded link costs a multiple
    min_share: float = 0.03,  # of the step: 0.6 of a 5 % slowdown
    min_coverage: float = MIN_COVERAGE,
) -> tuple[Finding, ...]:
    """One link finding per slow group."""
    digest = observed(view)
    if digest is None or view.window is None or not is_comparable(digest, min_coverage):
        return ()
    declared = {group.id: group for group in view.topology.groups}
    found = []
    for index, name in enumerate(digest.groups):
        got = float(digest.transfer_sum_s[index])
        if not np.isfinite(got) or got < min_share * digest.typical_step_s:
            continue
        verdict = _against_past(view, digest, index, false_alarms_per_day) or _against_siblings(
            digest, index, declared, false_alarms_per_day
        )
        if verdict is None or got < min_ratio * verdict.expected:
            continue
        if got - verdict.expected >= min_share * digest.typical_step_s:
            found.append(_finding(view, digest, index, declared.get(name), verdict))
    return tuple(found)


def _against_past(view: View, digest: Digest, index: int, budget: float) -> _Comparison | None:
    past = group_history(view.past, digest.groups[index])
    if len(past) < MIN_PAST:
        return None
    usual = float(np.median(past))
    history = np.log(np.maximum(past, 1e-9) / max(usual, 1e-9))[:, None]
    now = np.log(np.array([digest.transfer_sum_s[index]]) / max(usual, 1e-9))
    test = outliers(
        now, history, tests=len(digest.groups), window_s=window_seconds(digest), budget_per_day=budget
    )
    if not test.exceeds[0]:
        return None
    return _Comparison(expected=usual, significance=float(test.significance[0]), source="own past")


def _against_siblings(
    digest: Digest, index: int, declared: dict[str, Group], budget: float
) -> _Comparison | None:
    mine = declared.get(digest.groups[index])
    if mine is None:
        return None
    values = [
        float(digest.transfer_sum_s[i])
        for i, name in enumerate(digest.groups)
        if i != index
        and (other := declared.get(name)) is not None
        and (other.kind, len(other.ranks)) == (mine.kind, len(mine.ranks))
        and np.isfinite(digest.transfer_sum_s[i])
    ]
    if len(values) < MIN_SIBLINGS:
        return None
    usual = max(float(np.median(values)), 1e-9)
    spread = np.log(np.maximum(values, 1e-9) / usual)[:, None]
    now = np.log(np.array([digest.transfer_sum_s[index]]) / usual)
    test = outliers(
        now, spread, tests=len(digest.groups), window_s=window_seconds(digest), budget_per_day=budget, rho=1.0
    )
    if not test.exceeds[0]:
        return None
    return _Comparison(expected=usual, significance=float(test.significance[0]), source="sibling groups")


def _finding(view: View, digest: Digest, index: int, group: Group | None, verdict: _Comparison) -> Finding:
    got = float(digest.transfer_sum_s[index])
    ranks = group.ranks if group else ()
    hosts = dict.fromkeys(view.topology.host_of(rank) for rank in ranks)
    name = digest.groups[index]
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=digest.index,
        level="L2",
        detector="l2_transfer",
        kind="transfer",
        role="link",
        ranks=ranks,
        nodes=(f"group:{name}", *(f"host:{host}" for host in hosts if host)),
        group=name,
        start_step=digest.first_step,
        end_step=digest.first_step + digest.num_steps - 1,
        ratio=got / verdict.expected,
        effect_s_per_step=got - verdict.expected,
        share_of_step=(got - verdict.expected) / digest.typical_step_s,
        significance=verdict.significance,
        evidence=(
            Evidence(
                name="transfer_s",
                value=got,
                unit="s",
                baseline=verdict.expected,
                note=f"per step, against {verdict.source}",
            ),
            Evidence(name="call_transfer_s", value=float(digest.transfer_s[index]), unit="s"),
        ),
    )
