"""L2: a pipeline stage that computes longer than the others, or longer than it used to.

Only compute is compared, forward and backward without their waiting: totals are made equal by the sync at the
end of a step and bubbles differ by schedule, so neither can accuse (argus-paper.md §9 row 21, paper case 3). A
stage that was always longer is unevenly cut; one whose share of the pipeline's compute grew has become slow.
Micro-batches of a step are the same for all stages, so their sums compare as each of them would, and a batch that
grows for all leaves the shares alone; replicas with more of them than others are compared by `work`. The waiting for the neighbours is told beside it: the slow stage has the
smallest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.baseline import (
    FALSE_ALARMS_PER_DAY,
    MIN_COVERAGE,
    RECENT_WINDOWS,
    is_comparable,
    outliers,
    settled,
    window_seconds,
)
from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.peers import stages_of
from argus.analytics.view import Digest, View
from argus.analytics.window import Floats
from argus.analytics.work import WORKED
from argus.topology.layout import Topology

NEEDS = "slow_stage"

MIN_PAST = 3
"""Windows before a stage is compared with its own past."""

AS_HEAVY = 0.05
"""A stage that lacks no more than this share of the longest one's compute may be the longest of the next window: means
of windows stray by one or two per cent."""


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Per usable step, (stage,) each: `compute_s` = median of its ranks' forward and backward, `own_s` that of
    all their own work, `bubble_s` that of the rest of the step; `ranks` by stage."""

    compute_s: Floats
    own_s: Floats
    bubble_s: Floats
    ranks: tuple[tuple[int, ...], ...]

    @property
    def share(self) -> Floats:
        """Each stage's part of the pipeline's own work. (stage,)"""
        return np.asarray(self.own_s / self.own_s.sum())


def detect(
    view: View,
    *,
    false_alarms_per_day: float = FALSE_ALARMS_PER_DAY,
    min_ratio: float = 1.06,  # 0.6 of the 10 % that is to be found
    min_growth: float = 1.06,  # 0.6 of the 10 % slowdown that is to be found
    min_share: float = 0.03,  # of the step, gained by an even cut or by the stage as it was
    needed: int = 2,
    min_steps: int = 3,  # of a window: one long step is no slow stage
    min_coverage: float = MIN_COVERAGE,
) -> tuple[Finding, ...]:
    """Culprit findings for stages that became slow, else notices for an uneven cut: of the longest stage and those as
    heavy, longest first."""
    digest = observed(view)
    if digest is None or view.window is None or not is_comparable(digest, min_coverage):
        return ()
    now = stages_in(digest, view.topology)
    if now is None:
        return ()
    recent = view.past[-RECENT_WINDOWS:]
    before = _all_stages(settled(view, digest), view)
    grown = _grown(view, digest, now, before, budget=false_alarms_per_day, growth=min_growth)
    found = []
    for stage, growth in grown.items():
        votes = [d for d in recent if _grew(d, view, stage, usual=growth.usual, limit=growth.limit)]
        lasts = _steps_grown(view, now, stage, growth) >= min(min_steps, digest.num_usable / 2)
        if lasts and len(votes) + 1 >= needed and growth.lost_s >= min_share * digest.typical_step_s:
            first = min([digest, *votes], key=lambda d: d.index)
            found.append(_slow(view, digest, now, stage, growth=growth, first_step=first.first_step))
    if grown:
        return tuple(found)
    return _uneven(view, digest, now, _all_stages(view.past, view), min_ratio=min_ratio, min_share=min_share)


def stages_in(digest: Digest, topology: Topology) -> Stages | None:
    """The stages of a window; None without a pipeline all of whose stages were seen.

    Of an even number of ranks the lower median speaks for a stage: one slow rank of two is not the stage.
    """
    # A window is looked at again for as long as it is remembered.
    known: tuple[Topology, Stages | None] | None = digest.__dict__.get("_stages")
    if known is None or known[0] is not topology:
        known = digest.__dict__["_stages"] = (topology, _stages_in(digest, topology))
    return known[1]


def _stages_in(digest: Digest, topology: Topology) -> Stages | None:
    stage = stages_of(topology)
    rows = [i for i, name in enumerate(digest.phases) if name in WORKED]
    if not stage or not rows:
        return None
    number = np.array([stage.get(int(rank), -1) for rank in digest.ranks], np.int64)
    compute = digest.self_s[rows].sum(axis=0)
    waiting = np.nan_to_num(digest.step_s - digest.own_s)
    members = [np.flatnonzero((number == s) & np.isfinite(compute)) for s in range(int(number.max()) + 1)]
    if len(members) < 2 or any(not len(m) for m in members):
        return None
    found = Stages(
        compute_s=np.array([_lower_median(compute[m]) for m in members]),
        own_s=np.array([_lower_median(digest.own_s[m]) for m in members]),
        bubble_s=np.array([_lower_median(waiting[m]) for m in members]),
        ranks=tuple(tuple(int(r) for r in digest.ranks[m]) for m in members),
    )
    return found if (found.compute_s > 0).all() else None


def _lower_median(values: Floats) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])


def _all_stages(digests: Sequence[Digest], view: View) -> list[Stages]:
    found = [stages_in(digest, view.topology) for digest in digests]
    sizes = [one for one in found if one is not None]
    return [one for one in sizes if len(one.ranks) == len(sizes[-1].ranks)]


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A stage's own work against its past: usual share of the pipeline's, limit of its log change."""

    usual: float
    limit: float
    expected_s: float
    lost_s: float
    significance: float


def _grown(
    view: View, digest: Digest, now: Stages, past: list[Stages], *, budget: float, growth: float
) -> dict[int, Growth]:
    """Stages whose own work grew against the others', beyond what their past strays."""
    if len(past) < MIN_PAST or len(past[-1].ranks) != len(now.ranks):
        return {}
    usual = np.median([one.share for one in past], axis=0)
    test = outliers(
        np.log(now.share / usual),
        np.log([one.share for one in past]) - np.log(usual),
        tests=len(usual),
        window_s=window_seconds(digest, is_lone=view.is_lone),
        budget_per_day=budget,
    )
    found = {}
    for stage in np.flatnonzero(test.exceeds):
        others = float(now.own_s.sum() - now.own_s[stage])
        expected = others * float(usual[stage] / (1 - usual[stage]))
        got = float(now.own_s[stage])
        if got >= growth * expected:
            found[int(stage)] = Growth(
                usual=float(usual[stage]),
                limit=float(test.limit[stage]),
                expected_s=expected,
                lost_s=got - expected,
                significance=float(test.significance[stage]),
            )
    return found


def _steps_grown(view: View, now: Stages, stage: int, growth: Growth) -> int:
    """Usable steps of the window in which the stage has half of its growth."""
    assert view.window is not None
    window = view.window
    own = window.self_s.sum(axis=0)[:, window.usable]
    rows = [np.searchsorted(window.ranks, ranks) for ranks in now.ranks]
    stages = np.array([np.median(own[row], axis=0) for row in rows])
    share = stages[stage] / stages.sum(axis=0)
    return int((np.nan_to_num(np.log(share / growth.usual)) >= 0.5 * growth.limit).sum())


def _grew(digest: Digest, view: View, stage: int, *, usual: float, limit: float) -> bool:
    """Whether an earlier window showed the same."""
    then = stages_in(digest, view.topology)
    return then is not None and stage < len(then.ranks) and bool(np.log(then.share[stage] / usual) > limit)


def _uneven(
    view: View, digest: Digest, now: Stages, past: list[Stages], *, min_ratio: float, min_share: float
) -> tuple[Finding, ...]:
    """Stages that are longest, or as heavy, and always were longer than most: what an even cut of the model would gain."""
    least_s = (1 - AS_HEAVY) * float(now.compute_s.max())
    first = min([digest, *view.past], key=lambda d: d.index)
    found = []
    for stage in np.argsort(-now.compute_s, kind="stable").tolist():
        got, others = float(now.compute_s[stage]), float(np.median(np.delete(now.compute_s, stage)))
        gain_s = got - float(now.compute_s.mean())
        if got < max(min_ratio * others, least_s) or gain_s < min_share * digest.typical_step_s:
            continue
        if not all(_is_longer(one, stage, min_ratio=min_ratio) for one in past):
            continue
        about = Evidence(
            name="stage_compute_s", value=got, unit="s", baseline=others, note="against the other stages"
        )
        found.append(
            replace(
                _finding(view, digest, now, stage, compute=about),
                kind="imbalance",
                start_step=first.first_step,
                effect_s_per_step=gain_s,
                share_of_step=gain_s / digest.typical_step_s,
            )
        )
    return tuple(found)


def _is_longer(one: Stages, stage: int, *, min_ratio: float) -> bool:
    others = np.delete(one.compute_s, stage)
    return bool(one.compute_s[stage] >= min_ratio * np.median(others))


def _slow(view: View, digest: Digest, now: Stages, stage: int, *, growth: Growth, first_step: int) -> Finding:
    about = Evidence(
        name="stage_compute_s",
        value=float(now.own_s[stage]),
        unit="s",
        baseline=growth.expected_s,
        note="against its own part of the pipeline's work before",
    )
    return replace(
        _finding(view, digest, now, stage, compute=about),
        kind="shift",
        role="culprit",
        ranks=now.ranks[stage],
        start_step=first_step,
        effect_s_per_step=growth.lost_s,
        share_of_step=growth.lost_s / digest.typical_step_s,
        significance=growth.significance,
    )


def _finding(view: View, digest: Digest, now: Stages, stage: int, *, compute: Evidence) -> Finding:
    others = float(np.median(np.delete(now.bubble_s, stage)))
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=digest.index,
        level="L2",
        detector="l2_pipeline",
        kind="shift",
        role="notice",
        ranks=(),
        nodes=(f"stage:{stage}",),
        start_step=digest.first_step,
        end_step=digest.first_step + digest.num_steps - 1,
        ratio=compute.value / compute.baseline if compute.baseline else None,
        evidence=(
            compute,
            *_of_one(compute, digest.pieces),
            Evidence(
                name="bubble_s",
                value=float(now.bubble_s[stage]),
                unit="s",
                baseline=others,
                note="all that is not own work, beside the other stages'",
            ),
        ),
    )


def _of_one(compute: Evidence, pieces: float) -> tuple[Evidence, ...]:
    """The same of one micro-batch, where a step has several."""
    if pieces <= 1:
        return ()
    baseline = None if compute.baseline is None else compute.baseline / pieces
    return (replace(compute, name="micro_batch_s", value=compute.value / pieces, baseline=baseline),)
