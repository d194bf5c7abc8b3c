"""Which cause class a slow rank's own time points to: the host-path and compute rules in their order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from argus.analytics.finding import Evidence
from argus.analytics.incident import RuledOut
from argus.analytics.symptom import RankSymptom

DECISIVE = 0.5
"""A class is named when it accounts for at least half of the excess."""

CLEAR = 0.2
"""The named class must lead the next one by this share of the excess for the verdict to be CONFIRMED."""

MENTIONED = 0.1
"""A class with less of the excess is no second best: the look-alike of the named one is (fuse/second_best.py)."""

EXPLAINED = 0.3
"""Own work must show at least this share of the lateness before a class is named at all."""

CPU_FLAT = 0.5
"""CPU time that grew by less than half of what wall time grew by: the thread did not run."""


@dataclass(frozen=True, kw_only=True)
class Shares:
    """What the excess of a rank's own time is made of, as shares of it; `cpu` None = CPU time not recorded.

    `excess_s` is per step. `wall` and `gpu` = excess outside the data phase by the clock that timed it.
    """

    excess_s: float
    gc: float
    data: float
    wall: float
    gpu: float
    cpu: float | None


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The class with what speaks against the others; `evidence` is what was seen besides the timing."""

    fault_class: str
    is_clear: bool
    second_best: str | None
    ruled_out: tuple[RuledOut, ...]
    phase: str | None
    evidence: tuple[Evidence, ...] = ()


def shares_of(symptoms: Sequence[RankSymptom]) -> Shares:
    """Shares over the windows of one suspect, added up."""
    parts = [part for symptom in symptoms for part in symptom.phases if part.excess_s > 0]
    total = sum(part.excess_s for part in parts)
    data = sum(part.excess_s for part in parts if part.phase == "data")
    rest = [part for part in parts if part.phase != "data"]
    wall = sum(part.excess_s for part in rest if not part.on_gpu)
    cpu = sum(part.excess_cpu_s for part in rest if not part.on_gpu)
    recorded = any(part.cpu_s > 0 or (part.peers_cpu_s or 0.0) > 0 for part in rest if not part.on_gpu)
    gc = sum(symptom.gc_s - symptom.peers_gc_s for symptom in symptoms)
    scale = max(total, 1e-12)
    return Shares(
        excess_s=total / max(len(symptoms), 1),
        gc=max(gc, 0.0) / scale,
        data=data / scale,
        wall=wall / scale,
        gpu=sum(part.excess_s for part in rest if part.on_gpu) / scale,
        cpu=min(max(cpu / wall, 0.0), 1.0) if recorded and wall > 0 else None,
    )


def classify(symptoms: Sequence[RankSymptom]) -> Classification:
    """The class of one suspect from the windows it was suspected in (incidents.md §2.2, steps 5 and 6).

    In order: the runtime itself reports the pauses; the time is lost in the loader; wall time grew and CPU
    time did not; both grew or the GPU was busy longer. Nothing of that: unknown.
    """
    shares = shares_of(symptoms)
    late = sum(symptom.late_s - symptom.late_usual_s for symptom in symptoms) / max(len(symptoms), 1)
    explained = (
        shares.excess_s > 0
        and (not symptoms[-1].sees_waits or shares.excess_s >= EXPLAINED * max(late, 0.0))
        # A small excess that repeats is a fact; in a lone window it has to stand out by itself.
        and (not symptoms[-1].is_lone or "self_time" in symptoms[-1].signals)
    )
    scores = _scores(shares)
    named = _first_rule(shares) if explained else "unknown"
    others = sorted((score, name) for name, score in scores.items() if name != named)
    runner_up, second = others[-1]
    return Classification(
        fault_class=named,
        is_clear=named != "unknown" and scores.get(named, 0.0) - runner_up >= CLEAR,
        second_best=second if runner_up >= MENTIONED else None,
        ruled_out=tuple(_ruled_out(name, shares) for _, name in reversed(others) if _is_refuted(name, shares))
        if explained
        else (),
        phase=_phase(symptoms, named) if explained else None,
    )


def _first_rule(shares: Shares) -> str:
    if shares.gc >= DECISIVE:
        return "host.gc"
    if shares.data >= DECISIVE:
        return "data.slow_loader"
    if shares.wall >= shares.gpu:
        if shares.cpu is None:
            return "unknown"
        return "host.cpu_starved" if shares.cpu < CPU_FLAT else "compute.slow"
    return "compute.slow"


def _scores(shares: Shares) -> dict[str, float]:
    """How much of the excess each class would account for."""
    cpu = 0.5 if shares.cpu is None else shares.cpu
    rest = max(1.0 - min(shares.gc, 1.0), 0.0)
    return {
        "host.gc": min(shares.gc, 1.0),
        "data.slow_loader": shares.data,
        "host.cpu_starved": rest * shares.wall * (1 - cpu),
        "compute.slow": rest * (shares.wall * cpu + shares.gpu),
    }


def _is_refuted(name: str, shares: Shares) -> bool:
    """Whether a number speaks against the class: most of the lost time is not where it would be lost."""
    if name in ("host.gc", "data.slow_loader"):
        return (shares.gc if name == "host.gc" else shares.data) < DECISIVE
    elsewhere = (shares.wall + shares.gpu if name == "compute.slow" else shares.wall) < DECISIVE
    if shares.cpu is None:
        return elsewhere
    return elsewhere or (shares.cpu < CPU_FLAT) == (name == "compute.slow")


def _ruled_out(name: str, shares: Shares) -> RuledOut:
    """Why a class is not the one, in numbers."""
    if name == "host.gc":
        why = f"collection pauses account for {shares.gc:.0%} of the lost time"
        return RuledOut(fault_class=name, why=why, evidence=(_share("gc_share", shares.gc),))
    if name == "data.slow_loader":
        why = f"{shares.data:.0%} of the lost time lies in the data phase"
        return RuledOut(fault_class=name, why=why, evidence=(_share("data_share", shares.data),))
    where = shares.wall + shares.gpu if name == "compute.slow" else shares.wall
    if shares.cpu is None or where < DECISIVE:
        why = f"{where:.0%} of the lost time lies in phases that would show it"
        return RuledOut(fault_class=name, why=why, evidence=(_share("phase_share", where),))
    if name == "compute.slow":
        why = f"only {shares.cpu:.0%} of the lost time was spent computing"
    else:
        why = f"the thread was computing during {shares.cpu:.0%} of the lost time"
    return RuledOut(fault_class=name, why=why, evidence=(_share("cpu_share", shares.cpu),))


def _share(name: str, value: float) -> Evidence:
    return Evidence(name=name, value=value, unit="ratio", note="of the lost time")


OUTSIDE_DATA = frozenset({"compute.slow", "host.cpu_starved"})
"""Classes that time lost in the loader says nothing of."""


def _phase(symptoms: Sequence[RankSymptom], named: str) -> str | None:
    """The phase that holds most of the excess over all windows, of those that can show the class."""
    total: dict[str, float] = {}
    for symptom in symptoms:
        for part in symptom.phases:
            if part.phase == "data" and named in OUTSIDE_DATA:
                continue
            total[part.phase] = total.get(part.phase, 0.0) + part.excess_s
    return max(total, key=lambda phase: (total[phase], phase)) if total else None
