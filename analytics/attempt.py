"""One attempt of a run as a value: what is remembered of it, and what one more observation changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import TypeVar

from argus.analytics.baseline import is_comparable
from argus.analytics.detectors import run_detectors
from argus.analytics.digest import digest_of
from argus.analytics.finding import Finding
from argus.analytics.fuse import link_causes, rank_causes, stop_cause
from argus.analytics.incident import Cause, Incident
from argus.analytics.kernel_digest import KEPT, Engine
from argus.analytics.lifecycle import (
    GONE_WINDOWS,
    find_open,
    is_stop,
    open_incident,
    resolve_incident,
    update_incident,
)
from argus.analytics.robust import at
from argus.analytics.stops import is_over, was_cancelled
from argus.analytics.symptom import LinkSymptom, RankSymptom, link_symptoms, measure, rank_symptoms
from argus.analytics.view import PAST_WINDOWS, Digest, View
from argus.analytics.waits import waits_of
from argus.analytics.window import Window
from argus.collectors.records.heartbeat import Heartbeat
from argus.topology.layout import Topology

VOTES = 2
VOTE_WINDOWS = 3
"""A cause must show in 2 of the last 3 windows before it becomes an incident."""

UNEXPLAINED_VOTES = 3
"""Lateness without any excess of own work needs all three."""

MIN_PAST = 2
"""Windows of an attempt that only teach: start-up is uneven in ways no step flag covers."""

STILL = 0.5
"""An open incident lasts while at least half of its cost is still seen, detectors silent or not."""

KEEP_CLEAN = 30
"""Windows without any suspect that are kept for baselines however long a fault lasts."""

Item = TypeVar("Item", RankSymptom, LinkSymptom)


@dataclass(frozen=True, kw_only=True)
class Ballot:
    """Who was suspected in one window."""

    window: int
    ranks: tuple[RankSymptom, ...] = ()
    links: tuple[LinkSymptom, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AttemptState:
    """Everything the analysis remembers of an attempt; `incidents` holds all of them, newest state."""

    run: str
    attempt: int
    past: tuple[Digest, ...] = ()
    ballots: tuple[Ballot, ...] = ()
    beats: Mapping[int, Heartbeat] = field(default_factory=dict)
    incidents: tuple[Incident, ...] = ()

    @staticmethod
    def start(run: str, attempt: int) -> AttemptState:
        """An attempt of which nothing has been seen."""
        return AttemptState(run=run, attempt=attempt)

    @property
    def last_step(self) -> int:
        """Last step any window or heartbeat told of."""
        told = max((beat.status.step for beat in self.beats.values()), default=0)
        seen = self.past[-1].first_step + self.past[-1].num_steps - 1 if self.past else 0
        return max(told, seen)


@dataclass(frozen=True, kw_only=True)
class Advance:
    """What one observation led to: the next state, the findings made, the incidents that changed."""

    state: AttemptState
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]


def advance(
    state: AttemptState,
    *,
    topology: Topology,
    now_s: float,
    window: Window | None = None,
    beats: Iterable[Heartbeat] = (),
    votes: int = VOTES,
    min_past: int = MIN_PAST,
    engine: Engine | None = None,
    worth_s: Mapping[int, float] | None = None,
    is_stopped: bool = False,
) -> Advance:
    """Take in one window, some heartbeats or both. Windows that come late are history: no finding.

    A recording too short for repetition passes `votes=1, min_past=0`. `engine` computes the effects of kernels,
    in this process if None. `worth_s` is what a replay of the pipeline says the step would gain by each rank;
    `is_stopped` says that the beats are those of a job known to stand still.
    """
    before = {incident.id: incident for incident in state.incidents}
    state = _hear(state, beats)
    if window is not None and state.past and window.index <= state.past[-1].index:
        window = None
    view = _view(
        state,
        topology,
        window=window,
        now_s=now_s,
        is_lone=votes == 1,
        engine=engine,
        worth_s=worth_s,
        is_stopped=is_stopped,
    )
    findings = run_detectors(view)
    if view.digest is not None:
        state = _judge(state, view, findings, votes=votes, min_past=min_past)
    if view.beats:
        state = _watch(state, view, findings)
    changed = tuple(incident for incident in state.incidents if before.get(incident.id) != incident)
    return Advance(state=state, findings=findings, incidents=changed)


def _view(
    state: AttemptState,
    topology: Topology,
    *,
    window: Window | None,
    now_s: float,
    is_lone: bool,
    engine: Engine | None,
    worth_s: Mapping[int, float] | None,
    is_stopped: bool,
) -> View:
    """What detectors see of the state and the new window."""
    waits = waits_of(window) if window is not None else None
    return View(
        run=state.run,
        attempt=state.attempt,
        topology=topology,
        now_s=now_s,
        window=window,
        past=state.past,
        beats=tuple(beat for _, beat in sorted(state.beats.items())),
        waits=waits,
        digest=digest_of(window, waits, engine=engine) if window is not None else None,
        is_lone=is_lone,
        worth_s=worth_s,
        is_stopped=is_stopped,
    )


def _hear(state: AttemptState, beats: Iterable[Heartbeat]) -> AttemptState:
    """Keep the latest heartbeat of each rank of this attempt."""
    latest = dict(state.beats)
    for beat in beats:
        known = latest.get(beat.rank)
        mine = (beat.run, beat.attempt) == (state.run, state.attempt)
        if mine and (known is None or beat.ts_s >= known.ts_s):
            latest[beat.rank] = beat
    return replace(state, beats=latest)


def _watch(state: AttemptState, view: View, findings: Sequence[Finding]) -> AttemptState:
    """Stops: opened at once, resolved when steps end again, everything resolved when the attempt is over."""
    stop = next((finding for finding in findings if finding.kind == "stop"), None)
    known = next((i for i in state.incidents if i.status == "open" and is_stop(i)), None)
    if stop is None:
        if is_over(view.beats) or was_cancelled(view.beats):
            return _close(state, [i for i in state.incidents if i.status == "open"])
        return _close(state, [known] if known else [])
    cause = stop_cause(view, stop)
    if known is None:
        return _replace(state, _opened(state, view, cause, stop.window))
    if set(cause.suspects) == set(known.cause.suspects) or not known.cause.suspects:
        return _replace(state, _updated(state, view, known, cause, stop.window))
    return state


def _judge(
    state: AttemptState, view: View, findings: Sequence[Finding], *, votes: int, min_past: int
) -> AttemptState:
    """Symptoms of the new window, causes of those that lasted, incidents opened, updated and resolved."""
    digest = view.digest
    assert digest is not None
    ranks = rank_symptoms(view, findings)
    links = link_symptoms(view, findings, suspects=_blame(state, ranks))
    shown = (*ranks, *_still_slow(state, view, known={symptom.rank for symptom in ranks}))
    ballots = (*state.ballots, Ballot(window=digest.index, ranks=shown, links=links))[-VOTE_WINDOWS:]
    state = replace(state, ballots=ballots)
    causes: tuple[Cause, ...] = ()
    if len(state.past) >= min_past:
        causes = (
            *rank_causes(view, _lasting(state, shown, votes)),
            *link_causes(view, _lasting_links(state, links, votes)),
        )
    for cause in causes:
        known = find_open(state.incidents, cause.scope) or _member_of(state.incidents, cause)
        if known is None:
            state = _replace(state, _opened(state, view, cause, digest.index))
        elif known.cause.fault_class == "unknown" != cause.fault_class:
            state = _replace(_close(state, [known]), _opened(state, view, cause, digest.index))
        else:
            state = _replace(state, _updated(state, view, known, cause, digest.index))
    doubted = replace(
        digest,
        doubted=tuple(sorted(s.rank for s in ranks)),
        doubted_groups=tuple(sorted({f.group for f in findings if f.kind == "transfer" and f.group})),
    )
    state = _remember(state, doubted)
    return _close(state, [i for i in state.incidents if _is_gone(i, state.past)])


def _blame(state: AttemptState, ranks: Sequence[RankSymptom]) -> dict[int, float]:
    """What each rank suspected of late costs per step, by this window, the last ones or an open incident."""
    recent = [s for ballot in state.ballots[-VOTE_WINDOWS + 1 :] for s in ballot.ranks]
    blame: dict[int, float] = {}
    for symptom in (*recent, *ranks):
        if symptom.is_vote:
            blame[symptom.rank] = max(blame.get(symptom.rank, 0.0), symptom.impact_s)
    for incident in state.incidents:
        if incident.status == "open" and incident.cause.fault_class != "link.slow":
            for rank in incident.cause.suspects:
                blame[rank] = max(blame.get(rank, 0.0), incident.cost.s_per_step)
    return blame


def _member_of(incidents: Sequence[Incident], cause: Cause) -> Incident | None:
    """An open incident that already holds the cause's suspects: the same cause seen in part or as a whole."""
    if cause.fault_class == "link.slow":
        return None
    return next(
        (
            i
            for i in incidents
            if i.status == "open"
            and not is_stop(i)
            and i.cause.fault_class != "link.slow"
            and set(i.cause.suspects) & set(cause.suspects)
        ),
        None,
    )


def _lasting(state: AttemptState, shown: Sequence[RankSymptom], votes: int) -> list[list[RankSymptom]]:
    """Symptoms of each rank that has the votes, or whose open incident still shows."""
    lasting = []
    for symptom in shown:
        mine = [s for ballot in state.ballots for s in ballot.ranks if s.rank == symptom.rank]
        agreed = [s for s in mine if s.is_vote]
        if symptom.rank in _open_suspects(state):
            lasting.append(mine)
        elif symptom.is_vote and len(agreed) >= votes:
            lasting.append(agreed)
        elif "wait" in symptom.signals and len(mine) >= (UNEXPLAINED_VOTES if votes > 1 else 1):
            lasting.append(mine)
    return lasting


def _still_slow(state: AttemptState, view: View, *, known: AbstractSet[int]) -> list[RankSymptom]:
    """Suspects of open incidents whom no detector names now but who still cost half of what they did."""
    window, waits, digest = view.window, view.waits, view.digest
    assert window is not None and waits is not None and digest is not None
    found = []
    for incident in state.incidents:
        if incident.status != "open" or is_stop(incident) or incident.cause.fault_class == "link.slow":
            continue
        for rank in incident.cause.suspects:
            row = at(digest.ranks, rank)
            if rank in known or row < 0 or not digest.own_s[row] > 0:
                continue
            symptom = measure(window, waits, digest, rank=rank, worth_s=view.worth_s)
            costs = (
                min(symptom.impact_s, symptom.excess_s)
                if symptom.sees_waits or symptom.worth_s is not None
                else symptom.excess_s
            )
            if costs >= STILL * incident.cost.s_per_step > 0:
                found.append(symptom)
    return found


def _lasting_links(state: AttemptState, links: Sequence[LinkSymptom], votes: int) -> list[list[LinkSymptom]]:
    lasting = []
    for link in links:
        mine = [s for ballot in state.ballots for s in ballot.links if s.group == link.group]
        if len(mine) >= votes or find_open(state.incidents, f"group:{link.group}"):
            lasting.append(mine)
    return lasting


def _open_suspects(state: AttemptState) -> frozenset[int]:
    """Ranks an open incident accuses, links aside: their members are not at fault."""
    return frozenset(
        rank
        for incident in state.incidents
        if incident.status == "open" and incident.cause.fault_class != "link.slow"
        for rank in incident.cause.suspects
    )


def _opened(state: AttemptState, view: View, cause: Cause, window: int) -> Incident:
    return open_incident(
        cause,
        run=state.run,
        attempt=state.attempt,
        window=window,
        steps_done=state.last_step,
        world=view.topology.world_size,
    )


def _updated(state: AttemptState, view: View, known: Incident, cause: Cause, window: int) -> Incident:
    return update_incident(
        known, cause, window=window, steps_done=state.last_step, world=view.topology.world_size
    )


def _is_gone(incident: Incident, past: Sequence[Digest]) -> bool:
    """Enough windows that could have shown it did not; a window half unseen proves nothing."""
    if incident.status != "open" or is_stop(incident):
        return False
    silent = [d for d in past if d.index > incident.last_window and is_comparable(d)]
    return len(silent) >= GONE_WINDOWS


def _close(state: AttemptState, incidents: Sequence[Incident]) -> AttemptState:
    for incident in incidents:
        end = next((d for d in state.past if d.index == incident.last_window), None)
        last = end.first_step + end.num_steps - 1 if end and not is_stop(incident) else state.last_step
        state = _replace(state, resolve_incident(incident, end_step=last))
    return state


def _replace(state: AttemptState, incident: Incident) -> AttemptState:
    """The state with this incident in place of its older self, or added."""
    others = tuple(i for i in state.incidents if i.id != incident.id)
    position = next((n for n, i in enumerate(state.incidents) if i.id == incident.id), len(others))
    return replace(state, incidents=(*others[:position], incident, *others[position:]))


def _remember(state: AttemptState, digest: Digest) -> AttemptState:
    """Add the window to the past; whoever an open incident accuses is no part of what is normal.

    The windows that led to an incident are marked with it, since they were remembered before it opened.
    """
    accused = [i for i in state.incidents if i.status == "open" and not is_stop(i)]
    past = tuple(
        _flagged(each, [i for i in accused if each.index > i.opened_window - VOTE_WINDOWS])
        for each in (*state.past, digest)
    )
    return replace(state, past=_lighter(_forget(past)))


def _flagged(digest: Digest, accused: Sequence[Incident]) -> Digest:
    ranks = {r for i in accused if i.cause.fault_class != "link.slow" for r in i.cause.suspects}
    groups = {i.cause.group for i in accused if i.cause.fault_class == "link.slow" and i.cause.group}
    if ranks <= set(digest.flagged) and groups <= set(digest.flagged_groups):
        return digest
    return replace(
        digest,
        flagged=tuple(sorted(ranks | set(digest.flagged))),
        flagged_groups=tuple(sorted(groups | set(digest.flagged_groups))),
    )


def _lighter(past: tuple[Digest, ...]) -> tuple[Digest, ...]:
    """Kernels of the last windows only, and of those no more than their means."""
    return tuple(
        each
        if each.kernels is None
        else replace(each, kernels=each.kernels.slim() if n >= len(past) - KEPT else None)
        for n, each in enumerate(past)
    )


def _forget(past: tuple[Digest, ...]) -> tuple[Digest, ...]:
    """Drop the oldest window, but let no long fault push out the last clean ones."""
    while len(past) > PAST_WINDOWS:
        clean = sum(digest.is_clean for digest in past)
        drop = next(
            (n for n, d in enumerate(past) if clean > KEEP_CLEAN or not d.is_clean),
            0,
        )
        past = (*past[:drop], *past[drop + 1 :])
    return past
