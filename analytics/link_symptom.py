"""What one window says against one path, and whether its members are clean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.baseline import align_past, baseline_own_s, rank_history
from argus.analytics.delays import path_of
from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.robust import at, median_of_columns
from argus.analytics.symptom import MIN_WORTH
from argus.analytics.view import Digest, View
from argus.analytics.window import Floats, Ints

OTHER_CAUSE = 0.5
"""A member that costs half of what the transfers do, or work of all members that grew by half as much (in
logs), explains slow transfers: not the link."""


SEEN_ALONE = 2
"""Windows after its opening, which takes two, in which a path was slow while none of its members was at fault: one that
is slow later is no reason for it."""

STAYS = 0.5
"""A path stays slow while it loses half of what it did, as an open incident of ranks does."""

NOT_RUNNING = ("D", "T", "t", "Z")
"""Process states (`/proc/PID/stat`) in which a rank serves no transfer: stuck in the kernel, stopped, dead."""


@dataclass(frozen=True, kw_only=True)
class LinkSymptom:
    """One path in one window whose transfers are slow while its members are clean.

    `path` is a group, or a pair as in `delays`; `ranks` its members, sender first. `unclean` says what speaks
    against a member although its work does not show it; `is_shared` that a member is slow by now as well.
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
    is_shared: bool = False

    @property
    def impact_s(self) -> float:
        """What the job loses per step."""
        return self.transfer_s - self.baseline_s


def link_symptoms(
    view: View,
    findings: Sequence[Finding],
    *,
    suspects: Mapping[int, float],
    incidents: Sequence[Incident] = (),
) -> tuple[LinkSymptom, ...]:
    """Paths with a transfer finding none of whose members is at fault or busier than it used to be.

    `suspects` maps ranks to what they cost per step; one that costs half of what the transfers do explains
    them, since a member that does not run cannot serve a transfer either. So does one whose own work shows it
    though nothing is sure enough to accuse it. Paths that an open one of `incidents` found slow before any member was
    are slow still.
    """
    digest = view.digest
    assert digest is not None
    found = []
    for finding in findings:
        if not path_of(finding):
            continue
        own_ratio = _own_ratio(view, digest, finding.ranks)
        is_explained = _is_explained(view, digest, finding, suspects=suspects, own_ratio=own_ratio)
        before = [one for one in incidents if _was_slow_before(one, finding)]
        if is_explained and not any(_fell_behind_since(view, digest, finding, one) for one in before):
            continue
        found.append(_measured(view, digest, finding, own_ratio=own_ratio, is_shared=is_explained))
    return tuple(found)


def _is_explained(
    view: View, digest: Digest, finding: Finding, *, suspects: Mapping[int, float], own_ratio: float
) -> bool:
    """Whether a member at fault, one that fell behind or the work of all of them may be why the transfers are slow."""
    blamed_s = max((suspects.get(rank, 0.0) for rank in finding.ranks), default=0.0)
    return (
        blamed_s >= OTHER_CAUSE * (finding.effect_s_per_step or 0.0)
        or _is_slower_member(view, digest, finding)
        or bool(np.log(own_ratio) >= OTHER_CAUSE * np.log(max(finding.ratio or 1.0, 1.0 + 1e-9)))
    )


def _was_slow_before(incident: Incident, finding: Finding) -> bool:
    """Whether it is open, was seen long enough while nothing explained the path's transfers, and costs as much still."""
    cause = incident.cause
    return (
        incident.status == "open"
        and cause.fault_class == "link.slow"
        and path_of(finding) in cause.paths
        and incident.last_window - incident.opened_window >= SEEN_ALONE
        and (finding.effect_s_per_step or 0.0) >= STAYS * cause.s_per_step
    )


def _fell_behind_since(view: View, digest: Digest, finding: Finding, incident: Incident) -> bool:
    """Whether the member furthest behind was not half as far behind in any window that first showed the path slow.

    One that was too little behind to be suspected then, and is no further now, explained the transfers from the first.
    """
    rows = np.flatnonzero(np.isin(digest.ranks, finding.ranks))
    begin = incident.opened_window - 1
    alike = [one for one in view.past if np.array_equal(one.ranks, digest.ranks)]
    usual = [_behind_s(one, rows) for one in alike if one.index < begin]
    first = [_behind_s(one, rows) for one in alike if begin <= one.index <= begin + SEEN_ALONE + 1]
    if not usual or not first:
        return True
    usual_s = median_of_columns(np.array(usual))
    now_s = _behind_s(digest, rows) - usual_s
    then_s = np.max(first, axis=0) - usual_s
    known = np.isfinite(now_s) & np.isfinite(then_s)
    if not known.any():
        return False
    furthest = int(np.argmax(np.where(known, now_s, -np.inf)))
    return bool(then_s[furthest] < OTHER_CAUSE * now_s[furthest])


def _behind_s(digest: Digest, rows: Ints) -> Floats:
    return (digest.own_s - digest.own_peers_s)[rows]


def _measured(
    view: View, digest: Digest, finding: Finding, *, own_ratio: float, is_shared: bool
) -> LinkSymptom:
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
        is_shared=is_shared,
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
    """Whether a member's own work fell behind its peers', by half of what the transfers cost, by what is worth telling
    and by more than any member's ever did before: less than it takes to accuse a rank, enough not to accuse the link."""
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
    least_s = max(OTHER_CAUSE * (finding.effect_s_per_step or 0.0), MIN_WORTH * digest.typical_step_s)
    return float(np.nanmax(behind_s)) >= max(least_s, float(np.nanmax(before_s)))


def _own_ratio(view: View, digest: Digest, ranks: Sequence[int]) -> float:
    """Members' own work against the clean past, at least 1; 1 if there is no past."""
    usual = baseline_own_s(view.past)
    members = digest.own_s[np.isin(digest.ranks, ranks)]
    members = members[np.isfinite(members)]
    if usual is None or usual <= 0 or not members.size:
        return 1.0
    return max(float(np.median(members)) / usual, 1.0)
