"""Test 6 for what no single rank explains: a slow or unevenly cut pipeline stage, uneven work.

Uneven work and an uneven cut are named as what they are and accuse no machine (incidents.md, K, L and M).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.baseline import baseline_step_s
from argus.analytics.classify import Classification, classify
from argus.analytics.finding import Evidence, Finding
from argus.analytics.fuse.lasting import Lasting
from argus.analytics.fuse.scope import scope_of_ranks
from argus.analytics.host_path import host_path
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.robust import at
from argus.analytics.symptom import PhaseExcess, RankSymptom, measure
from argus.analytics.view import Digest, View
from argus.analytics.work import EXPERT_UNITS

OF_WORK = 0.5
"""Uneven work that costs half of what many ranks took longer explains them."""

CLEAR_UNIT = 0.6
"""A unit that accounts for so much of the loss is the cause without doubt."""


def stage_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """A cause per stage that became slow, else one for an uneven cut."""
    told = [finding for finding in lasting.findings if finding.detector == "l2_pipeline"]
    slow = tuple(_slow_stage(view, finding) for finding in told if finding.role == "culprit")
    cut = _told_cut([finding for finding in told if finding.role != "culprit"], lasting)
    return slow if cut is None else (*slow, _uneven_cut(view, cut))


def _told_cut(cuts: Sequence[Finding], lasting: Lasting) -> Finding | None:
    """The cut that an open incident tells of, else the first, which is of the longest stage: of stages that are equally heavy
    another one is the longest in each window."""
    known = {cause.scope for cause in lasting.open if cause.fault_class == "pipeline.imbalance"}
    return next((cut for cut in cuts if cut.nodes[0] in known), cuts[0] if cuts else None)


def work_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """Uneven work that the ranks tell themselves; without units nothing tells it from noise."""
    return tuple(_uneven_work(view, finding) for finding in _told_unevenness(lasting))


def _told_unevenness(lasting: Lasting) -> list[Finding]:
    return [
        finding
        for finding in lasting.findings
        if finding.detector == "l2_imbalance" and (finding.measure("explained") or 0.0) > 0
    ]


def majority_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """Many ranks that became slow at once; the class is read off one of them against its past.

    Not where the work they tell has become uneven by as much: most ranks then take longer because of what one gave up.
    """
    uneven_s = max((finding.effect_s_per_step or 0.0 for finding in _told_unevenness(lasting)), default=0.0)
    return tuple(
        _slow_many(view, finding)
        for finding in lasting.findings
        if finding.detector == "l2_majority" and uneven_s < OF_WORK * (finding.effect_s_per_step or 0.0)
    )


def _slow_many(view: View, finding: Finding) -> Cause:
    decided = _class_of_one(view, finding.ranks[len(finding.ranks) // 2])
    named = "compute.slow" if decided is None else decided.fault_class
    return Cause(
        fault_class=named,
        verdict="INCONCLUSIVE" if named == "unknown" else "LIKELY",
        suspects=finding.ranks,
        scope=scope_of_ranks(view, finding.ranks),
        phase=None if decided is None else decided.phase,
        second_best=None if decided is None else decided.second_best,
        evidence=(*finding.evidence, _step(view)),
        findings=(finding.id,),
        share_of_step=min(finding.share_of_step or 0.0, 1.0),
        s_per_step=finding.effect_s_per_step or 0.0,
        onset_step=finding.start_step or 0,
    )


def _slow_stage(view: View, finding: Finding) -> Cause:
    """All ranks of the stage; with one of them the class is read off its own phases against its past."""
    decided = _class_of_one(view, finding.ranks[0]) if len(finding.ranks) == 1 else None
    named = decided.fault_class if decided is not None else "compute.slow"
    scope = f"rank:{finding.ranks[0]}" if len(finding.ranks) == 1 else finding.nodes[0]
    return Cause(
        fault_class=named,
        verdict="INCONCLUSIVE" if named == "unknown" else "LIKELY",
        suspects=finding.ranks,
        scope=scope,
        phase=decided.phase if decided is not None else None,
        second_best="pipeline.imbalance",
        ruled_out=(
            RuledOut(
                fault_class="pipeline.imbalance",
                why="the stage was not the longest before",
                evidence=finding.evidence[:1],
            ),
        ),
        evidence=(*finding.evidence, _step(view)),
        findings=(finding.id,),
        share_of_step=min(finding.share_of_step or 0.0, 1.0),
        s_per_step=finding.effect_s_per_step or 0.0,
        onset_step=finding.start_step or 0,
    )


def _class_of_one(view: View, rank: int) -> Classification | None:
    """A rank without peers, with its own past in their place."""
    window, waits, digest = view.window, view.waits, view.digest
    clean = [past for past in view.past if past.is_clean and _has_seen(past, rank)]
    if window is None or waits is None or digest is None or not clean:
        return None
    symptom = measure(window, waits, digest, rank=rank)
    phases = tuple(_against_past(part, rank, clean) for part in symptom.phases)
    own_s = [float(past.own_s[at(past.ranks, rank)]) for past in clean]
    gc_s = [float(past.gc_s[at(past.ranks, rank)]) for past in clean]
    alone = RankSymptom(
        **{
            **vars(symptom),
            "phases": phases,
            "own_peers_s": float(np.median(own_s)),
            "peers_gc_s": float(np.median(gc_s)),
            "late_s": 0.0,
            "late_usual_s": 0.0,
            "sees_waits": False,
        }
    )
    return host_path(view, [alone], classify([alone]))


def _has_seen(digest: Digest, rank: int) -> bool:
    row = at(digest.ranks, rank)
    return row >= 0 and bool(np.isfinite(digest.own_s[row]))


def _against_past(part: PhaseExcess, rank: int, past: list[Digest]) -> PhaseExcess:
    times = [
        (digest.self_s[row, at(digest.ranks, rank)], digest.cpu_s[row, at(digest.ranks, rank)])
        for digest in past
        if part.phase in digest.phases
        for row in (digest.phases.index(part.phase),)
    ]
    self_s, cpu_s = np.median(times, axis=0) if times else (0.0, 0.0)
    return PhaseExcess(
        **{**vars(part), "peers_s": float(self_s), "peers_cpu_s": float(cpu_s)},
    )


def _uneven_cut(view: View, finding: Finding) -> Cause:
    return Cause(
        fault_class="pipeline.imbalance",
        verdict="LIKELY",
        suspects=(),
        scope=finding.nodes[0],
        second_best="compute.slow",
        evidence=(*finding.evidence, _step(view)),
        findings=(finding.id,),
        share_of_step=min(finding.share_of_step or 0.0, 1.0),
        s_per_step=finding.effect_s_per_step or 0.0,
        onset_step=finding.start_step or 0,
    )


def _uneven_work(view: View, finding: Finding) -> Cause:
    parts = {item.note: item.value for item in finding.evidence if item.name == "lost_by_unit_s"}
    routed = sum(value for unit, value in parts.items() if unit.startswith(EXPERT_UNITS))
    total = max(sum(parts.values()), 1e-12)
    is_routing = routed >= 0.5 * total
    named, other = (
        ("imbalance.experts", "imbalance.sequence")
        if is_routing
        else ("imbalance.sequence", "imbalance.experts")
    )
    clear = (routed if is_routing else total - routed) >= CLEAR_UNIT * total
    fits = next(item for item in finding.evidence if item.name == "explained")
    return Cause(
        fault_class=named,
        verdict="CONFIRMED" if clear else "LIKELY",
        suspects=(),
        scope=f"run:{view.run}",
        second_best="compute.slow" if clear else other,
        ruled_out=(
            RuledOut(
                fault_class="compute.slow",
                why="ranks take as long as the work they had would take on any of them",
                evidence=(fits,),
            ),
        ),
        evidence=(*finding.evidence, _step(view)),
        findings=(finding.id,),
        share_of_step=min(finding.share_of_step or 0.0, 1.0),
        s_per_step=finding.effect_s_per_step or 0.0,
        onset_step=finding.start_step or 0,
    )


def _step(view: View) -> Evidence:
    value = view.digest.typical_step_s if view.digest is not None else 0.0
    return Evidence(name="step_s", value=value, unit="s", baseline=baseline_step_s(view.past))
