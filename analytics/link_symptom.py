"""What one window says against one path, and whether its members are clean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.baseline import align_past, baseline_own_s, rank_history
from argus.analytics.delays import path_of
from argus.analytics.finding import Finding
from argus.analytics.robust import at, median_of_columns
from argus.analytics.view import Digest, View

OTHER_CAUSE = 0.5
"""A member that costs half of what the transfers do, or work of all members that grew by half as much (in
logs), explains slow transfers: not the link."""


NOT_RUNNING = ("D", "T", "t", "Z")
"""Process states (`/proc/PID/stat`) in which a rank serves no transfer: stuck in the kernel, stopped, dead."""


@dataclass(frozen=True, kw_only=True)
class LinkSymptom:
    """One path in one window whose transfers are slow while its members are clean.

    `path` is a group, or a pair as in `delays`; `ranks` its members, sender first. `unclean` says what speaks
    against a member although its work does not show it.
    """

    path: str
    group: str | None
    ranks: tuple[int, ...]
    window: int
    first_step: int
    transfer_s: float
    baseline_s: float
    own_ratio: float
    step_s: float
    victims_wait_s: float
    findings: tuple[str, ...]
    cpu_ratio: float = 1.0
    unclean: tuple[str, ...] = ()

    @property
    def impact_s(self) -> float:
        """What the job loses per step."""
        return self.transfer_s - self.baseline_s


def link_symptoms(
    view: View, findings: Sequence[Finding], *, suspects: Mapping[int, float]
) -> tuple[LinkSymptom, ...]:
    """Paths with a transfer finding none of whose members is at fault or busier than it used to be.

    `suspects` maps ranks to what they cost per step; one that costs half of what the transfers do explains
    them, since a member that does not run cannot serve a transfer either. So does one whose own work shows it
    though nothing is sure enough to accuse it.
    """
    digest = view.digest
    assert digest is not None
    found = []
    for finding in findings:
        if not path_of(finding):
            continue
        blamed_s = max((suspects.get(rank, 0.0) for rank in finding.ranks), default=0.0)
        if blamed_s >= OTHER_CAUSE * (finding.effect_s_per_step or 0.0):
            continue
        if _is_slower_member(view, digest, finding):
            continue
        own_ratio = _own_ratio(view, digest, finding.ranks)
        if np.log(own_ratio) >= OTHER_CAUSE * np.log(max(finding.ratio or 1.0, 1.0 + 1e-9)):
            continue
        found.append(_measured(view, digest, finding, own_ratio=own_ratio))
    return tuple(found)


def _measured(view: View, digest: Digest, finding: Finding, *, own_ratio: float) -> LinkSymptom:
    transfer = next(item for item in finding.evidence if item.name == "transfer_s")
    members = np.isin(digest.ranks, finding.ranks)
    return LinkSymptom(
        path=path_of(finding),
        group=finding.group,
        ranks=finding.ranks,
        window=digest.index,
        first_step=digest.first_step,
        transfer_s=transfer.value,
        baseline_s=transfer.baseline or 0.0,
        own_ratio=own_ratio,
        step_s=digest.typical_step_s,
        victims_wait_s=float(digest.waited_s[members].max(initial=0.0)),
        findings=(finding.id,),
        cpu_ratio=_cpu_ratio(view, digest, finding.ranks),
        unclean=_unclean(view, finding.ranks),
    )


def _cpu_ratio(view: View, digest: Digest, ranks: Sequence[int]) -> float:
    """CPU time of the member that got least of it, against its own clean past; 1 where that is not known.

    Of ranks that only launch it says whether they still run; of those that compute, whether they are starved.
    """
    rows = [row for rank in ranks if (row := at(digest.ranks, rank)) >= 0]
    past = rank_history(align_past(view.past, digest), len(digest.ranks), lambda old: old.cpu_s.sum(axis=0))
    if not len(past) or not rows:
        return 1.0
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = digest.cpu_s.sum(axis=0)[rows] / median_of_columns(past[:, rows])
    ratio = ratio[np.isfinite(ratio)]
    return float(ratio.min()) if ratio.size else 1.0


def _unclean(view: View, ranks: Sequence[int]) -> tuple[str, ...]:
    """Members whose process did not run when its host last looked."""
    mine = set(ranks)
    return tuple(
        f"the process of rank {beat.rank} is in state {beat.process_state}"
        for beat in view.beats
        if beat.rank in mine and beat.state == "running" and beat.process_state in NOT_RUNNING
    )


def _is_slower_member(view: View, digest: Digest, finding: Finding) -> bool:
    """Whether a member's own work fell behind its peers', by half of what the transfers cost and by more than any
    member's ever did before: less than it takes to accuse a rank, enough not to accuse the link."""
    rows = np.flatnonzero(
        np.isin(digest.ranks, finding.ranks) & np.isfinite(digest.own_s - digest.own_peers_s)
    )
    past = rank_history(
        align_past(view.past, digest), len(digest.ranks), lambda old: old.own_s - old.own_peers_s
    )[:, rows]
    usual = median_of_columns(past)
    behind_s = (digest.own_s - digest.own_peers_s)[rows] - usual
    before_s = past - usual
    if not np.isfinite(behind_s).any() or not np.isfinite(before_s).any():
        return False
    most_s = float(np.nanmax(behind_s))
    return most_s >= OTHER_CAUSE * (finding.effect_s_per_step or 0.0) and most_s > float(np.nanmax(before_s))


def _own_ratio(view: View, digest: Digest, ranks: Sequence[int]) -> float:
    """Members' own work against the clean past, at least 1; 1 if there is no past."""
    usual = baseline_own_s(view.past)
    members = digest.own_s[np.isin(digest.ranks, ranks)]
    members = members[np.isfinite(members)]
    if usual is None or usual <= 0 or not members.size:
        return 1.0
    return max(float(np.median(members)) / usual, 1.0)
