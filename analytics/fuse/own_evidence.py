"""The numbers behind a cause that accuses a rank of its own work."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.analytics.baseline import baseline_step_s, path_history
from argus.analytics.finding import Evidence
from argus.analytics.incident import RuledOut
from argus.analytics.symptom import PhaseExcess, RankSymptom
from argus.analytics.view import View


def rank_evidence(view: View, symptoms: Sequence[RankSymptom], phase: str | None) -> tuple[Evidence, ...]:
    last = symptoms[-1]

    def mean(values: list[float]) -> float:
        return float(np.mean(values))

    own = Evidence(
        name="own_self_s",
        value=mean([s.own_s for s in symptoms]),
        unit="s",
        baseline=_mean_known([s.own_peers_s for s in symptoms]),
    )
    waits = _wait_evidence(symptoms)
    pauses = Evidence(
        name="gc_pause_s",
        value=mean([s.gc_s for s in symptoms]),
        unit="s",
        baseline=mean([s.peers_gc_s for s in symptoms]),
    )
    step = Evidence(name="step_s", value=last.step_s, unit="s", baseline=baseline_step_s(view.past))
    found = [part for s in symptoms for part in s.phases if part.phase == phase]
    replayed = [s.worth_s for s in symptoms if s.worth_s is not None]
    if not replayed:
        return (own, *_phase_evidence(found), pauses, *(waits if last.sees_waits else ()), step)
    return (own, *_phase_evidence(found), pauses, _gain(symptoms, replayed), step)


def _wait_evidence(symptoms: Sequence[RankSymptom]) -> tuple[Evidence, ...]:
    """What the suspect made the others wait."""
    last = symptoms[-1]

    def mean(values: list[float]) -> float:
        return float(np.mean(values))

    return (
        Evidence(
            name="caused_wait_s",
            value=mean([s.late_s for s in symptoms]),
            unit="s",
            baseline=mean([s.late_usual_s for s in symptoms]),
        ),
        Evidence(name="last_share", value=mean([s.last_share for s in symptoms]), unit="ratio"),
        Evidence(
            name="victims_wait_s",
            value=mean([s.victims_wait_s for s in symptoms]),
            unit="s",
            note=f"in {last.group}" if last.group else "",
        ),
    )


def _gain(symptoms: Sequence[RankSymptom], replayed: list[float]) -> Evidence:
    """What a replay says the step would gain, beside the excess of own work."""
    excess = float(np.mean([s.excess_s for s in symptoms]))
    return Evidence(name="replay_gain_s", value=float(np.mean(replayed)), unit="s", baseline=excess)


def _phase_evidence(found: list[PhaseExcess]) -> tuple[Evidence, ...]:
    if not found:
        return ()
    clock = "GPU clock" if found[-1].on_gpu else "wall clock"
    own = Evidence(
        name="self_s",
        value=float(np.mean([part.self_s for part in found])),
        unit="s",
        baseline=_mean_known([part.peers_s for part in found]),
        note=f"{found[-1].phase}, {clock}",
    )
    cpu = Evidence(
        name="cpu_s",
        value=float(np.mean([part.cpu_s for part in found])),
        unit="s",
        baseline=_mean_known([part.peers_cpu_s for part in found]),
        note=found[-1].phase,
    )
    return (own, cpu)


def _mean_known(values: Sequence[float | None]) -> float | None:
    """Mean over the windows in which the suspect had peers, None if it never had."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def not_the_link(view: View, symptom: RankSymptom) -> tuple[RuledOut, ...]:
    """The suspect's own collective is the short one, and transfers are what they were."""
    digest = view.digest
    if not symptom.sees_waits or symptom.group is None or digest is None or symptom.group not in digest.paths:
        return ()
    now = float(digest.transfer_sum_s[digest.paths.index(symptom.group)])
    past = path_history(view.past, [symptom.group])[:, 0]
    past = past[np.isfinite(past)]
    transfer = Evidence(
        name="transfer_s",
        value=now,
        unit="s",
        baseline=float(np.median(past)) if past.size else None,
        note=symptom.group,
    )
    last = Evidence(name="last_share", value=symptom.last_share, unit="ratio")
    return (
        RuledOut(
            fault_class="link.slow",
            why="the suspect enters last and has the shortest collective; the others wait for it, not for data",
            evidence=(transfer, last),
        ),
    )
