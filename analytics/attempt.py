"""One attempt of a run as a value: what is remembered of it, and what one more observation changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
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
from argus.analytics.beside import beside
from argus.analytics.delays import path_of
from argus.analytics.detectors import run_detectors
from argus.analytics.digest import digest_of
from argus.analytics.eras import Eras
from argus.analytics.finding import Finding
from argus.analytics.from_start import since_start
from argus.analytics.fuse import Lasting, checked, decide, stop_cause
from argus.analytics.fuse.paused import billed_to, go_on_by_rank
from argus.analytics.fuse.regular import blocks_of
from argus.analytics.fuse.restart import run_changes
from argus.analytics.fuse.startup import MIN_PAST, is_start_up
from argus.analytics.fuse.whole_job import SLOWER
from argus.analytics.host_path import is_better_seen
from argus.analytics.incident import Cause, Incident
from argus.analytics.kernels.digest import Engine, digest_kernels
from argus.analytics.kernels.join import is_of_kernels, join_kernels
from argus.analytics.lifecycle import (
    ALL_EXITED,
    NAMED_BETTER,
    RUN_OVER,
    SIGNAL_GONE,
    STEPS_GO_ON,
    find_open,
    is_recurring,
    is_stop,
    open_incident,
    resolve_incident,
    update_incident,
)
from argus.analytics.link_symptom import link_symptoms
from argus.analytics.memory import remember, retain
from argus.analytics.outside import NOTHING, Outside
from argus.analytics.recurrence import Bout, Recurrence, as_recurring, extended, known_again, recurrences
from argus.analytics.same_cause import is_named_now, is_other_now, is_wider, member_of, that_it_may_name
from argus.analytics.series.live import LiveSeries, hear
from argus.analytics.silence import is_gone, quiet_steps
from argus.analytics.stops import EXITED_S, all_gone_s, has_moved, is_over, was_cancelled
from argus.analytics.symptom import RankSymptom, rank_symptoms
from argus.analytics.view import Digest, View
from argus.analytics.waits import waits_of
from argus.analytics.window import Window
from argus.collectors.records.heartbeat import Heartbeat, is_newer
from argus.topology.layout import Topology


@dataclass(frozen=True, kw_only=True)
class AttemptState:
    """Everything the analysis remembers of an attempt; `incidents` holds all of them, newest state."""

    run: str
    attempt: int
    past: tuple[Digest, ...] = ()
    eras: Eras = field(default_factory=Eras, compare=False)
    ballots: tuple[Ballot, ...] = ()
    beats: Mapping[int, Heartbeat] = field(default_factory=dict)
    moves: Mapping[int, float] = field(default_factory=dict)
    incidents: tuple[Incident, ...] = ()
    bouts: tuple[Bout, ...] = ()
    series: LiveSeries = field(default_factory=LiveSeries, compare=False)
    launch: int = 0

    @staticmethod
    def start(run: str, attempt: int, *, launch: int = 0) -> AttemptState:
        """An attempt of which nothing has been seen."""
        return AttemptState(run=run, attempt=attempt, launch=launch)

    @property
    def last_step(self) -> int:
        """Last step any window or heartbeat told of."""
        told = max((beat.status.step for beat in self.beats.values()), default=0)
        seen = self.past[-1].first_step + self.past[-1].num_steps - 1 if self.past else 0
        return max(told, seen)


@dataclass(frozen=True, kw_only=True)
class Advance:
    """What one observation led to: the next state, the findings made, the incidents and bouts that changed."""

    state: AttemptState
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]
    bouts: tuple[Bout, ...] = ()


def advance(
    before: AttemptState,
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
    outside: Outside = NOTHING,
) -> Advance:
    """Take in one window, some heartbeats or both. Windows that come late are history: no finding.

    The newest window may be given again with its kernels, which take longer; given at once it comes to the same,
    without the incident that kernels name better.
    A recording too short for repetition passes `votes=1, min_past=0`. `engine` computes the effects of kernels,
    here if None. `worth_s`, `is_stopped` and `outside` are those of `View`.
    """
    fresh, with_kernels = _news(before, window)
    state = _hear(before, beats)
    view = replace(
        _view(state, topology, window=fresh, now_s=now_s),
        is_lone=votes == 1,
        worth_s=worth_s,
        is_stopped=is_stopped,
        outside=outside,
    )
    findings = (*run_detectors(view), *run_changes(view))
    if view.digest is not None:
        state = _judge(state, view, findings, votes=votes, min_past=min_past)
    if with_kernels is not None:
        view = replace(view, window=with_kernels)
        told = frozenset(incident.id for incident in before.incidents)
        state, findings = _join(state, view, findings, engine=engine, min_past=min_past, told=told)
    if view.beats:
        state = _watch(state, view, findings)
    return _told(state, before, findings)


def _told(state: AttemptState, before: AttemptState, findings: tuple[Finding, ...]) -> Advance:
    """The state with what is new in it."""
    # By identity first: to compare each with each takes a second of three thousand, and every second brings a look.
    same = set(map(id, before.incidents))
    changed = tuple(one for one in state.incidents if id(one) not in same and one not in before.incidents)
    return Advance(state=state, findings=findings, incidents=changed, bouts=_grown(state, before))


def _grown(state: AttemptState, before: AttemptState) -> tuple[Bout, ...]:
    """Bouts that began or got longer."""
    same = {id(bout) for bout in before.bouts}
    return tuple(bout for bout in state.bouts if id(bout) not in same)


def _news(state: AttemptState, window: Window | None) -> tuple[Window | None, Window | None]:
    """The window if it was not seen before, and the window if its kernels were not."""
    if window is None:
        return None, None
    kernels = window if window.kernels else None
    newest = state.past[-1] if state.past else None
    if newest is None or window.index > newest.index:
        return window, kernels
    return None, kernels if window.index == newest.index and newest.kernels is None else None


def _view(state: AttemptState, topology: Topology, *, window: Window | None, now_s: float) -> View:
    """What detectors see of the state and the new window, its kernels aside."""
    waits = heard = digest = None
    if window is not None:
        with beside(len(window.collectives.rank)) as begin:
            later = begin(lambda: waits_of(window))
            heard = hear(state.series, window)
            digest = digest_of(replace(window, kernels=()), later.result)
            waits = later.result()
    return View(
        run=state.run,
        attempt=state.attempt,
        topology=topology,
        now_s=now_s,
        window=window,
        past=state.past,
        eras=state.eras,
        series=state.series,
        heard=heard,
        beats=tuple(beat for _, beat in sorted(state.beats.items())),
        moves=state.moves,
        waits=waits,
        digest=digest,
        launch=state.launch,
    )


def _hear(state: AttemptState, beats: Iterable[Heartbeat]) -> AttemptState:
    """Keep the latest heartbeat of each rank of this attempt, and when it last got on."""
    latest, moves = dict(state.beats), dict(state.moves)
    for beat in beats:
        known = latest.get(beat.rank)
        mine = (beat.run, beat.attempt) == (state.run, state.attempt)
        if mine and (known is None or is_newer(beat, known)):
            latest[beat.rank] = beat
            has_got_on = known is None or has_moved(known, beat)
            moves[beat.rank] = beat.ts_s if has_got_on else min(moves.get(beat.rank, beat.ts_s), beat.ts_s)
    return replace(state, beats=latest, moves=moves)


def _watch(state: AttemptState, view: View, findings: Sequence[Finding]) -> AttemptState:
    """Stops: opened at once, resolved when steps end again, everything resolved when the attempt is over.

    That nothing shows a stop is not enough: a service that was started again has not been silent to for long.
    """
    opened = [i for i in state.incidents if i.status == "open"]
    gone_s = all_gone_s(view.beats, world_size=view.topology.world_size, now_s=view.now_s)
    if gone_s is not None and gone_s > EXITED_S:
        return _close(state, opened, ended=ALL_EXITED)
    stop = next((finding for finding in findings if finding.kind == "stop"), None)
    known = next((i for i in opened if is_stop(i)), None)
    if stop is None:
        if is_over(view.beats) or was_cancelled(view.beats):
            return _close(state, opened, ended=RUN_OVER)
        is_past = known is not None and state.last_step > known.onset_step
        return _close(state, [known] if known and is_past else [], ended=STEPS_GO_ON)
    cause = checked(view, stop_cause(view, stop))
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
    suspects = blame(state.ballots, state.incidents, ranks)
    links = link_symptoms(view, findings, suspects=suspects, incidents=state.incidents)
    shown = (*ranks, *still_slow(state.incidents, view, known={symptom.rank for symptom in ranks}))
    ballots = (*state.ballots, Ballot(window=digest.index, ranks=shown, links=links))[-VOTE_WINDOWS:]
    state = replace(state, ballots=ballots)
    causes: tuple[Cause, ...] = ()
    recurring: Mapping[int, Recurrence] = {}
    # What arrives after the end opens nothing: the job is over. What is open still lasts as long as it shows.
    has_ended = is_over(view.beats)
    is_any_open = any(incident.status == "open" for incident in state.incidents)
    if not is_start_up(state.past, min_past=min_past) and (is_any_open or not has_ended):
        state = _counted(state, view, ranks)
        recurring = recurrences(view, state.bouts)
        causes = _causes(state, view, findings, votes=votes, recurring=recurring)
    for cause in causes if not has_ended else [c for c in causes if find_open(state.incidents, c)]:
        state = _with_cause(state, view, cause, window=digest.index)
    by_rank = go_on_by_rank(state.incidents, findings, window=digest.index)
    state = _close(state, by_rank, ended=NAMED_BETTER)
    doubted = replace(
        digest,
        doubted=tuple(sorted(s.rank for s in ranks)),
        doubted_paths=tuple(sorted({path for f in findings if (path := path_of(f))})),
    )
    past = remember(state.past, doubted, incidents=state.incidents)
    state = replace(
        state,
        past=past,
        eras=retain(state.eras, past, incidents=state.incidents),
        series=view.heard.series if view.heard is not None else state.series,
    )
    return _close(state, [i for i in state.incidents if is_gone(i, state.past, recurring)])


def _with_cause(state: AttemptState, view: View, cause: Cause, *, window: int) -> AttemptState:
    """The cause's incident opened, updated, or opened in place of those that said less."""
    asked = that_it_may_name(state.incidents, cause)
    known = find_open(asked, cause) or member_of(asked, cause)
    parts = [i for i in state.incidents if i.status == "open" and is_wider(i.cause, cause)]
    is_other = known is not None and is_other_now(known.cause, cause, state.ballots)
    if known is not None and (
        is_other or is_named_now(known.cause, cause) or is_better_seen(known.cause, cause)
    ):
        parts.append(known)
    state = _close(state, parts, ended=NAMED_BETTER)
    if known is None or known in parts:
        counted_to = known.counted_to if known is not None and is_other else billed_to(state.incidents, cause)
        return _replace(state, _opened(state, view, cause, window, counted_to=counted_to))
    return _replace(state, _updated(state, view, known, cause, window))


def _counted(state: AttemptState, view: View, ranks: Sequence[RankSymptom]) -> AttemptState:
    """The window's suspects added to the day's bouts."""
    assert view.digest is not None
    window, now_s = view.digest.index, view.now_s
    bouts = extended(state.bouts, ranks, attempt=state.attempt, window=window, now_s=now_s)
    return replace(state, bouts=bouts)


def _causes(
    state: AttemptState,
    view: View,
    findings: Sequence[Finding],
    *,
    votes: int,
    recurring: Mapping[int, Recurrence],
) -> tuple[Cause, ...]:
    """Causes of what lasts by its votes, and of what comes and goes too often, in its newest bout."""
    votes_now = {symptom.rank for symptom in state.ballots[-1].ranks if symptom.is_vote}
    lasting = lasting_ranks(state.ballots, state.incidents, votes=votes)
    has_votes = {symptoms[-1].rank for symptoms in lasting}
    again = {rank: found for rank, found in recurring.items() if rank in votes_now - has_votes}
    causes = decide(
        view,
        Lasting(
            ranks=(*lasting, *(found.symptoms for found in again.values())),
            links=lasting_links(state.ballots, state.incidents, votes=votes),
            findings=tuple(findings),
            open=tuple(i.cause for i in state.incidents if i.status == "open" and not is_stop(i)),
            past=blocks_of(state.incidents, fault_class=SLOWER),
        ),
    )
    again |= known_again(state.incidents, recurring)
    return tuple(as_recurring(cause, again) for cause in causes)


def _join(
    state: AttemptState,
    view: View,
    findings: tuple[Finding, ...],
    *,
    engine: Engine | None,
    min_past: int,
    told: AbstractSet[str],
) -> tuple[AttemptState, tuple[Finding, ...]]:
    """The kernels of the newest window, and what they say beside the findings made before."""
    assert view.window is not None
    kernels = digest_kernels(view.window, engine=engine)
    if kernels is None:
        return state, findings
    past = state.past[:-1]
    followed = kernels.after([one.kernels for one in past if one.kernels is not None])
    digest = replace(state.past[-1], kernels=followed)
    joined = join_kernels(
        replace(view, past=past, digest=digest, beats=()),
        state.incidents,
        told=told,
        undecided={symptom.rank for symptom in state.ballots[-1].ranks},
        steps_done=state.last_step,
        is_start_up=is_start_up(past, min_past=min_past),
    )
    remembered = remember(past, digest, incidents=joined.incidents)
    state = replace(state, past=remembered, incidents=joined.incidents)
    mine = [i for i in state.incidents if is_of_kernels(i.cause) and not is_recurring(i)]
    state = _close(state, [i for i in mine if is_gone(i, state.past, {})])
    return state, (*findings, *joined.findings)


def _opened(state: AttemptState, view: View, cause: Cause, window: int, *, counted_to: int = -1) -> Incident:
    return open_incident(
        since_start(view, cause),
        run=state.run,
        attempt=state.attempt,
        window=window,
        steps_done=state.last_step,
        world=view.topology.world_size,
        counted_to=counted_to,
        launch=state.launch,
        before=state.incidents,
    )


def _updated(state: AttemptState, view: View, known: Incident, cause: Cause, window: int) -> Incident:
    return update_incident(
        known,
        cause,
        window=window,
        steps_done=state.last_step,
        world=view.topology.world_size,
        quiet_steps=quiet_steps(known, state.past, window=window),
    )


def _close(state: AttemptState, incidents: Sequence[Incident], *, ended: str = SIGNAL_GONE) -> AttemptState:
    for incident in incidents:
        end = next((d for d in state.past if d.index == incident.last_window), None)
        last = end.first_step + end.num_steps - 1 if end and not is_stop(incident) else state.last_step
        state = _replace(state, resolve_incident(incident, end_step=last, ended=ended))
    return state


def _replace(state: AttemptState, incident: Incident) -> AttemptState:
    """The state with this incident in place of its older self, or added."""
    known, key = state.incidents, incident.id
    position = next((n for n, one in enumerate(known) if one.id == key), len(known))
    return replace(state, incidents=(*known[:position], incident, *known[position + 1 :]))
