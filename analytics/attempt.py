"""One attempt of a run as a value: what is remembered of it, and what one more observation changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from argus.analytics.ballots import (
    VOTE_WINDOWS,
    VOTES,
    Ballot,
    blame,
    lasting_links,
    lasting_ranks,
    still_slow,
)
from argus.analytics.baseline import is_comparable
from argus.analytics.detectors import run_detectors
from argus.analytics.digest import digest_of
from argus.analytics.finding import Finding
from argus.analytics.fuse import Lasting, decide, stop_cause
from argus.analytics.fuse.startup import MIN_PAST, is_start_up
from argus.analytics.incident import Cause, Incident
from argus.analytics.kernel_digest import Engine
from argus.analytics.lifecycle import (
    GONE_WINDOWS,
    find_open,
    is_stop,
    open_incident,
    resolve_incident,
    update_incident,
)
from argus.analytics.memory import remember
from argus.analytics.outside import OutsideEvent
from argus.analytics.series.live import LiveSeries, hear
from argus.analytics.stops import is_over, was_cancelled
from argus.analytics.symptom import link_symptoms, rank_symptoms
from argus.analytics.view import Digest, View
from argus.analytics.waits import waits_of
from argus.analytics.window import Window
from argus.collectors.records.heartbeat import Heartbeat
from argus.topology.layout import Topology


@dataclass(frozen=True, kw_only=True)
class AttemptState:
    """Everything the analysis remembers of an attempt; `incidents` holds all of them, newest state."""

    run: str
    attempt: int
    past: tuple[Digest, ...] = ()
    ballots: tuple[Ballot, ...] = ()
    beats: Mapping[int, Heartbeat] = field(default_factory=dict)
    incidents: tuple[Incident, ...] = ()
    series: LiveSeries = field(default_factory=LiveSeries, compare=False)

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
    events: Iterable[OutsideEvent] = (),
) -> Advance:
    """Take in one window, some heartbeats or both. Windows that come late are history: no finding.

    A recording too short for repetition passes `votes=1, min_past=0`. `engine` computes the effects of kernels,
    in this process if None. `worth_s` is what a replay of the pipeline says the step would gain by each rank;
    `is_stopped` says that the beats are those of a job known to stand still. `events` are what others said of
    the job's nodes lately.
    """
    before = {incident.id: incident for incident in state.incidents}
    state = _hear(state, beats)
    if window is not None and state.past and window.index <= state.past[-1].index:
        window = None
    view = replace(
        _view(state, topology, window=window, now_s=now_s, engine=engine),
        is_lone=votes == 1,
        worth_s=worth_s,
        is_stopped=is_stopped,
        events=tuple(events),
    )
    findings = run_detectors(view)
    if view.digest is not None:
        state = _judge(state, view, findings, votes=votes, min_past=min_past)
    if view.beats:
        state = _watch(state, view, findings)
    changed = tuple(incident for incident in state.incidents if before.get(incident.id) != incident)
    return Advance(state=state, findings=findings, incidents=changed)


def _view(
    state: AttemptState, topology: Topology, *, window: Window | None, now_s: float, engine: Engine | None
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
        series=state.series,
        heard=hear(state.series, window) if window is not None else None,
        beats=tuple(beat for _, beat in sorted(state.beats.items())),
        waits=waits,
        digest=digest_of(window, waits, engine=engine) if window is not None else None,
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
    links = link_symptoms(view, findings, suspects=blame(state.ballots, state.incidents, ranks))
    shown = (*ranks, *still_slow(state.incidents, view, known={symptom.rank for symptom in ranks}))
    ballots = (*state.ballots, Ballot(window=digest.index, ranks=shown, links=links))[-VOTE_WINDOWS:]
    state = replace(state, ballots=ballots)
    causes: tuple[Cause, ...] = ()
    if not is_start_up(state.past, min_past=min_past):
        lasting = Lasting(
            ranks=lasting_ranks(ballots, state.incidents, votes=votes),
            links=lasting_links(ballots, state.incidents, votes=votes),
            findings=tuple(findings),
        )
        causes = decide(view, lasting)
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
    state = replace(
        state,
        past=remember(state.past, doubted, incidents=state.incidents),
        series=view.heard.series if view.heard is not None else state.series,
    )
    return _close(state, [i for i in state.incidents if _is_gone(i, state.past)])


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
