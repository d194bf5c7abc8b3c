"""What one window says against one suspect, measured whether or not a detector fired on every aspect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.detectors.l2_self_time import NOT_WORK
from argus.analytics.detectors.l2_wait import last_share, victims_of
from argus.analytics.digest import own_series
from argus.analytics.finding import Finding
from argus.analytics.lone import excludes_chance
from argus.analytics.peers import peer_medians, work_classes
from argus.analytics.robust import at, leave_one_out_median, split_gain
from argus.analytics.view import Digest, View
from argus.analytics.waits import Waits
from argus.analytics.window import Floats, Window

AGREEMENT = 0.3
"""A signal stands when the other measure shows at least this share of it, though below its own limit."""

MIN_WORTH = 0.02
"""Part of the step that a replay must promise for it to agree with own work: a pipeline hides most of what a rank does
too slowly, and what is left is a cost all the same. Of too few steps to vote a rank that costs less is not named."""

LEAD = 0.5
"""Beside the rank that is waited for most, one that is waited for half as long is no bystander either."""

OVERSHADOWED = 0.25
"""Beside a suspect who costs four times as much, a smaller one is its shadow or costs nothing yet."""

EQUAL = 0.5
"""Half of the largest excess makes a rank an equal of the worst."""

Worth = Mapping[int, float] | None
"""What a replay says each rank is worth, see `View.worth_s`."""


@dataclass(frozen=True, kw_only=True)
class PhaseExcess:
    """One phase of the suspect against its peers, seconds per step; `on_gpu` = timed by the GPU's clock.

    What the peers take is None where the suspect has no peers.
    """

    phase: str
    self_s: float
    peers_s: float | None
    cpu_s: float
    peers_cpu_s: float | None
    on_gpu: bool

    @property
    def excess_s(self) -> float:
        """Self time beyond the peers', 0 without peers."""
        return _beyond(self.self_s, self.peers_s)

    @property
    def excess_cpu_s(self) -> float:
        """CPU time beyond the peers', 0 without peers."""
        return _beyond(self.cpu_s, self.peers_cpu_s)


@dataclass(frozen=True, kw_only=True)
class RankSymptom:
    """One rank in one window. `signals` are the kinds of the culprit findings; `is_vote` = they agree.

    Seconds per usable step. `late_s` is the waiting it caused, `late_usual_s` that of the median rank.
    `worth_s` is what the step would gain if the rank were healthy, None where nothing was replayed; `own_peers_s` is
    None where the rank has no peers.
    `explains` = own work shows the lateness (or nothing of the work was seen to contradict it).
    """

    rank: int
    window: int
    first_step: int
    onset_step: int
    signals: frozenset[str]
    is_vote: bool
    phases: tuple[PhaseExcess, ...]
    own_s: float
    own_peers_s: float | None
    gc_s: float
    peers_gc_s: float
    late_s: float
    late_usual_s: float
    last_share: float
    sees_waits: bool
    victims: tuple[int, ...]
    victims_wait_s: float
    group: str | None
    step_s: float
    findings: tuple[str, ...]
    is_lone: bool = False
    worth_s: float | None = None

    @property
    def excess_s(self) -> float:
        """Own work beyond the peers', 0 without peers: nothing is known of it."""
        return _beyond(self.own_s, self.own_peers_s)

    @property
    def impact_s(self) -> float:
        """What the job loses per step: by replay, else the waiting caused where it is seen, else excess work."""
        if self.worth_s is not None:
            return self.worth_s
        late = self.late_s - self.late_usual_s
        return max(late if self.sees_waits else self.excess_s, 0.0)


def rank_symptoms(view: View, findings: Sequence[Finding]) -> tuple[RankSymptom, ...]:
    """Every suspected rank of the view's window, the costliest first, shadows of a bigger one left out."""
    window, waits, digest = view.window, view.waits, view.digest
    assert window is not None and waits is not None and digest is not None
    suspects: dict[int, list[Finding]] = {}
    for finding in findings:
        if finding.role == "culprit" and finding.kind in ("self_time", "wait") and len(finding.ranks) == 1:
            suspects.setdefault(finding.ranks[0], []).append(finding)
    measured = [
        replace(
            measure(window, waits, digest, rank=rank, findings=mine, worth_s=view.worth_s),
            is_lone=view.is_lone,
        )
        for rank, mine in sorted(suspects.items())
    ]
    measured = _worth_telling(_share_lateness(measured), window)
    largest = max((symptom.impact_s for symptom in measured), default=0.0)
    kept = [
        symptom
        for symptom in measured
        if symptom.impact_s >= OVERSHADOWED * largest or _is_equal(symptom, measured)
    ]
    return tuple(sorted(kept, key=lambda symptom: (-symptom.impact_s, symptom.rank)))


def _worth_telling(measured: list[RankSymptom], window: Window) -> list[RankSymptom]:
    """Without those that cost next to nothing where the steps are too few to exclude chance.

    In one step some phase of some rank is always long; what makes nobody wait by it is no matter.
    """
    num_steps, num_ranks = int(window.usable.sum()), len(window.ranks)
    if excludes_chance(num_steps=num_steps, num_ranks=num_ranks):
        return measured
    return [s for s in measured if not s.is_lone or s.impact_s >= MIN_WORTH * s.step_s]


def _is_equal(symptom: RankSymptom, others: Sequence[RankSymptom]) -> bool:
    """A vote whose own work is as much too long as anybody's: no shadow, however blame was split."""
    largest = max(other.excess_s for other in others)
    return symptom.is_vote and "self_time" in symptom.signals and symptom.excess_s >= EQUAL * largest


def _share_lateness(measured: list[RankSymptom]) -> list[RankSymptom]:
    """Ranks that are slow together split the lateness they cause: it speaks for each whose work shows it."""
    loud = [s for s in measured if "self_time" in s.signals]
    together = sum(max(s.late_s - s.late_usual_s, 0.0) for s in loud)
    most = max((s.excess_s for s in loud), default=0.0)
    return [
        replace(s, is_vote=True)
        if not s.is_vote
        and s.worth_s is None
        and "self_time" in s.signals
        and s.excess_s >= EQUAL * most
        and together >= AGREEMENT * s.excess_s
        else s
        for s in measured
    ]


def measure(
    window: Window,
    waits: Waits,
    digest: Digest,
    *,
    rank: int,
    findings: Sequence[Finding] = (),
    worth_s: Worth = None,
) -> RankSymptom:
    """All aspects of one present rank in one window."""
    row = at(digest.ranks, rank)
    victims, waited, group = victims_of(waits, rank, window.groups)
    signals = frozenset(finding.kind for finding in findings)
    own, peers = _number(digest.own_s[row]), _known(digest.own_peers_s[row])
    late, usual = _number(digest.late_s[row]), _number(_median_of_others(digest.late_s, row))
    worth = None if worth_s is None else worth_s.get(rank, 0.0)
    step_s = _number(digest.typical_step_s)
    return RankSymptom(
        rank=rank,
        window=digest.index,
        first_step=digest.first_step,
        onset_step=_onset(window, row),
        signals=signals,
        is_vote=_is_vote(signals, waits, digest, row=row, late_s=late - usual, worth_s=worth),
        phases=_phases(window, digest, row),
        own_s=own,
        own_peers_s=peers,
        gc_s=float(digest.gc_s[row]),
        peers_gc_s=_number(_median_of_others(digest.gc_s, row)),
        late_s=late,
        late_usual_s=usual,
        last_share=last_share(waits, rank),
        sees_waits=digest.sees_waits,
        victims=victims,
        victims_wait_s=waited,
        group=group,
        step_s=step_s,
        findings=tuple(finding.id for finding in findings),
        worth_s=worth,
    )


def _is_vote(
    signals: frozenset[str], waits: Waits, digest: Digest, *, row: int, late_s: float, worth_s: float | None
) -> bool:
    """Whether own work and lateness agree; what a replay says counts for more than who was waited for."""
    excess = _number(digest.own_s[row] - digest.own_peers_s[row])
    if worth_s is None:
        late = late_s if digest.sees_waits else np.inf
        return _agree(signals, excess=excess, late=late, leads=_leads(waits, row))
    is_cost = worth_s >= MIN_WORTH * digest.typical_step_s > 0
    return _agree(signals, excess=excess, late=worth_s, leads=is_cost)


def _agree(signals: frozenset[str], *, excess: float, late: float, leads: bool) -> bool:
    """Own work and lateness tell the same story, at least one of them loudly; `late` is infinite where waits are
    not seen and cannot contradict.

    In a large job many come late by chance in every step, and hide most of what a slow rank costs: there it
    is enough that it `leads`, that nobody is waited for much more, or that a replay says what it costs.
    """
    if {"self_time", "wait"} <= signals:
        return True
    if "self_time" in signals:
        return late >= AGREEMENT * excess or leads
    return "wait" in signals and excess >= AGREEMENT * late


def _leads(waits: Waits, row: int) -> bool:
    """Whether the others waited for this rank at least half as long as for whom they waited most, in most steps or in all."""
    for cost_s in (waits.habit_s, waits.voted_s):
        most = float(cost_s.max(initial=0.0))
        if most > 0 and float(cost_s[row]) >= LEAD * most:
            return True
    return False


def _phases(window: Window, digest: Digest, row: int) -> tuple[PhaseExcess, ...]:
    """The rank's phases of work, the largest excess first."""
    peers_cpu = _peers_cpu(window, digest)[:, row]
    gpu = {name for name, on in zip(window.phases, window.clock_gpu, strict=True) if on}
    found = [
        PhaseExcess(
            phase=name,
            self_s=_number(digest.self_s[index, row]),
            peers_s=_known(digest.peers_s[index, row]),
            cpu_s=_number(digest.cpu_s[index, row]),
            peers_cpu_s=_known(peers_cpu[index]),
            on_gpu=name in gpu,
        )
        for index, name in enumerate(digest.phases)
        if name not in NOT_WORK
    ]
    return tuple(sorted(found, key=lambda part: (-part.excess_s, part.phase)))


def _peers_cpu(window: Window, digest: Digest) -> Floats:
    """CPU time of each rank's peers by phase, worked out once for all suspects of the window. (phase, rank)"""
    known: tuple[Floats, Floats] | None = window.__dict__.get("_peers_cpu")
    if known is None or known[0] is not digest.cpu_s:
        peers = peer_medians(digest.cpu_s, work_classes(window.topology, digest.ranks))
        known = window.__dict__["_peers_cpu"] = (digest.cpu_s, peers)
    return known[1]


def _beyond_others(window: Window) -> Floats | None:
    """Own work beyond the median of the others in each usable step, NaN of ranks that were not seen, worked out once for
    all suspects of the window; None where a rank lacks some of these steps. (rank, step)"""
    if "_beyond_others" not in window.__dict__:
        seen = np.isfinite(window.step_s).any(axis=1)
        own = own_series(window)[:, window.usable]
        found: Floats | None = None
        if np.isfinite(own[seen]).all() and np.isfinite(window.step_s[seen][:, window.usable]).all():
            found = np.full(own.shape, np.nan)
            found[seen] = own[seen] - leave_one_out_median(own[seen].T).T
        window.__dict__["_beyond_others"] = found
    known: Floats | None = window.__dict__["_beyond_others"]
    return known


def _onset(window: Window, row: int) -> int:
    """First step of the window from which the rank's work is high, the window's first if it always is."""
    usable = np.flatnonzero(window.usable & np.isfinite(window.step_s[row]))
    seen = np.asarray(np.isfinite(window.step_s).any(axis=1))
    seen[row] = False
    if len(usable) < 4 or not seen.any():
        return window.first_step
    known = _beyond_others(window)
    if known is None:
        own = own_series(window)[:, usable]
        if not np.isfinite(own[seen]).all():
            return window.first_step
        excess = own[row] - np.median(own[seen], axis=0)
    else:
        excess = known[row]
    split = split_gain(excess, margin=1)
    if split is None or split[1] >= 0.5 * split[2]:
        return window.first_step
    return int(window.steps[usable[split[0]]])


def _median_of_others(values: Floats, row: int) -> float:
    others = np.delete(values, row)
    others = others[np.isfinite(others)]
    return float(np.median(others)) if others.size else 0.0


def _number(value: float) -> float:
    return float(value) if np.isfinite(value) else 0.0


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _beyond(got_s: float, peers_s: float | None) -> float:
    return 0.0 if peers_s is None else got_s - peers_s
