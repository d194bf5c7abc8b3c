"""Tests 5 and 6, own work of a rank: by host path and compute, as `classify` tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from argus.analytics.classes import ON_DEVICE
from argus.analytics.classify import Classification, classify
from argus.analytics.fuse.lasting import Lasting, mean_share
from argus.analytics.fuse.own_evidence import not_the_link, rank_evidence
from argus.analytics.fuse.scope import as_known_half, as_visited_host, as_whole_half, join_ranks
from argus.analytics.host_path import host_path
from argus.analytics.incident import Cause
from argus.analytics.peers import across_models
from argus.analytics.symptom import RankSymptom
from argus.analytics.view import View

SAME_SIZE = 0.25
"""A window that cost less than a quarter of the worst does not date the fault, but may hold its first steps."""


HostPath = Callable[[View, Sequence[RankSymptom], Classification], Classification]
"""What stacks and runtime events say of the same symptoms: the class, firmer, or a better one."""

HOST_PATH: tuple[HostPath, ...] = (host_path,)
"""Asked in order, each with the answer of the one before."""


def rank_causes(view: View, lasting: Lasting) -> tuple[Cause, ...]:
    """One cause per suspect rank.

    Ranks that make up most of one object of the topology, with the same class, become one cause of that.
    """
    causes = [
        as_known_half(view, _rank_cause(view, symptoms, _class_of(view, symptoms)), lasting.open)
        for symptoms in lasting.ranks
    ]
    whole = [as_visited_host(view, as_whole_half(view, cause)) for cause in causes]
    return join_ranks(view, whole, known=lasting.open)


def _class_of(view: View, symptoms: Sequence[RankSymptom]) -> Classification:
    decided = classify(symptoms)
    for look in HOST_PATH:
        decided = look(view, symptoms, decided)
    return decided


def _rank_cause(view: View, symptoms: Sequence[RankSymptom], decided: Classification) -> Cause:
    last = symptoms[-1]
    loud = [
        s
        for s in symptoms
        if {"self_time", "wait"} <= s.signals
        or (s.worth_s is not None and s.is_vote and "self_time" in s.signals)
    ]
    confirmed = decided.is_clear and len(loud) >= 2 and not _may_be_model(view, last.rank, decided)
    known = "CONFIRMED" if confirmed else "LIKELY"
    impact = float(np.mean([s.impact_s for s in symptoms]))
    return Cause(
        fault_class=decided.fault_class,
        verdict="INCONCLUSIVE" if decided.fault_class == "unknown" else known,
        suspects=(last.rank,),
        scope=f"rank:{last.rank}",
        victims=last.victims,
        phase=decided.phase,
        group=last.group,
        second_best=decided.second_best,
        ruled_out=(
            *not_the_link(view, last),
            *(r for r in decided.ruled_out if _is_seen(view, r.fault_class)),
        ),
        evidence=(*rank_evidence(view, symptoms, decided.phase), *decided.evidence),
        findings=tuple(dict.fromkeys(name for s in symptoms for name in s.findings)),
        share_of_step=mean_share(symptoms),
        s_per_step=impact,
        onset_step=_onset(symptoms),
    )


def _may_be_model(view: View, rank: int, decided: Classification) -> bool:
    """Whether the GPU may be slower than the others only because it is another model: no reason to drain its host."""
    return decided.fault_class.startswith(ON_DEVICE) and rank in across_models(view.topology)


def _onset(symptoms: Sequence[RankSymptom]) -> int:
    """Onset in the first window of the same size: an earlier hiccup of the same rank is another matter."""
    largest = max(s.impact_s for s in symptoms)
    return next(s.onset_step for s in symptoms if s.impact_s >= SAME_SIZE * largest)


def _is_seen(view: View, fault_class: str) -> bool:
    """Whether the window could have shown the class: what nobody looked at is not ruled out."""
    unseen = view.window.coverage.unseen if view.window is not None else ()
    return fault_class != "host.gc" or not any(text.startswith("gc:") for text in unseen)
