"""The one analysis thread: turns over the live attempts, window by window and second by second."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from sqlalchemy.exc import SQLAlchemyError

from argus.analytics.store import control, progress
from argus.analytics.store.leader import Leadership, NotLeading
from argus.analytics.store.progress import HeardBeat, LiveAttempt, WindowRow
from argus.api import analysis, historian
from argus.api.analysis import Means
from argus.api.complaints import Complaints, plainly
from argus.api.healing import Healer
from argus.api.housekeeping import Housekeeping
from argus.api.late import Late
from argus.api.liveness import beats_now
from argus.api.published import Published
from argus.api.pulse import Pulse
from argus.api.run_gauges import RunNow
from argus.api.watch import Watch
from argus.collectors.records.channels import off_at
from argus.collectors.records.heartbeat import Heartbeat, is_newer

TICK_S = 1.0
"""How often heartbeats are looked at: as often as ranks make them."""

TICK_RANKS, MAX_TICK_S = 2000, 5.0
"""Ranks looked at in a second: hosts send their heartbeats every five, so ten thousand are looked at as they come."""

BEATS_EVERY_S = 2.5
"""How often a leader reads the heartbeats that other replicas were sent; hosts send them every 5 s."""

REPLICA_SKEW_S = 30.0
"""Clocks of replicas may differ by so much, and what they were sent be committed so much later: beats of the last moments
are read again. A rank has one row, so this costs no more than the last seconds would."""

ROLL_EVERY_S = 10.0
"""How often an attempt's new windows are added up for the history of its GPUs; as often as windows close."""

REST_S = 0.1
"""Between turns when no window waits: a thousand hosts' uploads must not mean a thousand turns a second."""

REST_RANKS = 40_000
"""Ranks for which a turn rests a second: ten thousand are always heard of, and each turn asks the database."""

UNREAD_S = 60.0
"""An attempt whose rows cannot be read is tried again after so long."""

MAX_INBOX = 10_000
"""Signs of life kept while the database cannot be read."""

WINDOWS_PER_TURN = 8
"""Windows of one attempt analysed before the others get their turn."""

LOG = logging.getLogger("argus.worker")

_Heard = tuple[int, Sequence[Heartbeat], Sequence[str], float]
"""Attempt id, beats, hosts, when."""


class Worker:
    """Owns every `Watch`; other threads only `hear` and `poke`."""

    def __init__(
        self, *, means: Means, published: Published, clock: Callable[[], float], healer: Healer | None = None
    ) -> None:
        self._published = published
        self._healer = healer or Healer(means.store)
        self._clock = clock
        self.pulse = Pulse(means.store, clock=clock)
        self._started_s = self._floor_s = clock()
        self._watches: dict[int, Watch] = {}
        self._unread: dict[int, tuple[float, str]] = {}
        self._ticked_s = 0.0
        self._leadership = Leadership(means.store)
        self._term = self._leadership.term
        self._means = replace(means, store=self._leadership.store)
        self._housekeeping = Housekeeping(self._means, now_s=self._started_s)
        self._late = Late(self._means)
        self._beats_read_s = 0.0
        self._lives: list[LiveAttempt] = []
        self._pending: dict[int, list[WindowRow]] = {}
        self._inbox: list[_Heard] = []
        self._lock = threading.Lock()
        self._complaints = Complaints(LOG)
        self._poked = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self.pulse.start()
        self._thread = threading.Thread(target=self._run, name="argus-analysis", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the window it is at."""
        self._stopping.set()
        self._poked.set()
        if self._thread is not None:
            self._thread.join()
        self.pulse.stop()
        self._leadership.release()

    @property
    def is_leader(self) -> bool:
        """Whether this service analyses; of several on one database only one does."""
        return self._leadership.is_held

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def hear(
        self, attempt_id: int, *, beats: Sequence[Heartbeat] = (), hosts: Iterable[str] = (), now_s: float
    ) -> None:
        """Signs of life that are stored already."""
        with self._lock:
            self._inbox.append((attempt_id, beats, tuple(hosts), now_s))
        self._poked.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                more = self.turn(self._clock())
            except Exception as error:  # noqa: BLE001 - the service lives or dies with this thread
                more = False
                self.survive(error)
                self._poked.clear()
            else:
                self._complaints.over()
            if not more:
                self._wait()

    def survive(self, error: Exception) -> None:
        """Count, log once and show what a turn raised."""
        part = "store" if isinstance(error, SQLAlchemyError) else "turn"
        self._means.metrics.errors.labels(part=part).inc()
        trouble = f"{part}: {plainly(error)}"[:500]
        self._complaints.about("the analysis could not turn", error)
        self._published.show_troubles((*self._healer.troubles(self._clock()), trouble))

    def _wait(self) -> None:
        rest_s = min(max(REST_S, self._num_ranks() / REST_RANKS), TICK_S)
        self._stopping.wait(rest_s)
        self._poked.wait(TICK_S - rest_s)
        self._poked.clear()

    def woke(self, now_s: float) -> None:
        """The service stood still or its clock jumped: nobody's silence before counts, and nobody was heard after now."""
        self._floor_s = now_s
        for watch in self._watches.values():
            watch.hosts = {host: min(at_s, now_s) for host, at_s in watch.hosts.items()}
            for rank, item in watch.heard.items():
                if item.received_s > now_s:
                    watch.heard[rank] = replace(item, received_s=now_s)
        self._started_s = min(self._started_s, now_s)

    def turn(self, now_s: float) -> bool:
        """Once over every live attempt; whether windows still wait."""
        if self.pulse.take_missed(now_s):
            self.woke(now_s)
        if self._healer.turn(now_s):
            self._forget()
            self._floor_s = now_s  # hosts were refused while it was repaired
        if not self._leadership.hold():
            self._follow(now_s)
            return False
        if self._leadership.term != self._term:
            LOG.info("this service leads now")
            self._term = self._leadership.term
            self._forget()
            self._started_s = self._floor_s = now_s  # it hears the hosts from now on
        self._try_store(now_s)
        inbox = self._open_inbox()
        for attempt_id, beats, hosts, heard_s in inbox:
            if attempt_id in self._watches:
                _hear(self._watches[attempt_id], beats, hosts=hosts, now_s=heard_s)
        self._hear_of_others(now_s)
        more = self._attend_all(now_s)
        return self._housekeeping.turn(now_s) or more

    def _try_store(self, now_s: float) -> None:
        """After a write that failed, one that shows whether it is over. Raises SQLAlchemyError.

        What hosts say is refused until then: nobody's silence counts.
        """
        if not self._means.store.refusal:
            return
        try:
            with self._means.store.write() as connection:
                control.try_write(connection, now_s=now_s)
        except SQLAlchemyError:
            self._floor_s = now_s
            raise

    def _forget(self) -> None:
        """What was read may not be in the store any more: it is another one, or another service leads or led since."""
        self._watches.clear()
        self._unread.clear()
        self._late.forget()
        with self._lock:
            self._inbox.clear()

    def _follow(self, now_s: float) -> None:
        """Another service analyses: know how far it is, so that no more is taken than it can bear."""
        self._forget()
        self._publish((), now_s=now_s)

    def _open_inbox(self) -> list[_Heard]:
        with self._lock:
            inbox, self._inbox = self._inbox, []
        try:
            with self._means.store.read() as connection:
                self._lives = progress.live_attempts(connection)
                self._pending = progress.pending_windows(connection)
            self._take_up(self._lives)
        except SQLAlchemyError:
            with self._lock:
                self._inbox = [*inbox, *self._inbox][-MAX_INBOX:]  # the last word of a rank comes once
            raise
        return inbox

    def _hear_of_others(self, now_s: float) -> None:
        """Heartbeats that came to other replicas."""
        if not self._leadership.is_needed or 0 <= now_s - self._beats_read_s < BEATS_EVERY_S:
            return
        since_s, self._beats_read_s = self._beats_read_s - REPLICA_SKEW_S, now_s
        for attempt_id, watch in self._watches.items():
            with self._means.store.read() as connection:
                found = progress.beats_of(connection, attempt_id, since_s=since_s)
            for item in found:
                _hear(watch, [item.beat], hosts=(), now_s=item.received_s)

    def _num_ranks(self) -> int:
        return sum(len(watch.heard) for watch in self._watches.values())

    def _attend_all(self, now_s: float) -> bool:
        newest = {
            live.row.run: live.row.id for live in sorted(self._lives, key=lambda live: live.row.attempt)
        }
        is_tick = (
            not 0 <= now_s - self._ticked_s < min(max(TICK_S, self._num_ranks() / TICK_RANKS), MAX_TICK_S)
        )
        self._ticked_s = now_s if is_tick else self._ticked_s
        more = False
        for attempt_id, watch in list(self._watches.items()):
            is_newest = newest[watch.live.row.run] == attempt_id
            rows = self._pending.get(attempt_id, [])
            try:
                more |= self._attend(watch, pending=rows, is_tick=is_tick, is_newest=is_newest, now_s=now_s)
            except (SQLAlchemyError, NotLeading):
                raise
            except Exception as error:  # noqa: BLE001 - one attempt's trouble must not stop the others
                analysis.survive(self._means, watch, error, part="attempt")
        if is_tick and not more:
            self._late.take_up(now_s=now_s)
        self._publish(newest.values(), now_s=now_s)
        return more

    def _take_up(self, lives: Sequence[LiveAttempt]) -> None:
        ids = {live.row.id for live in lives}
        self._watches = {key: watch for key, watch in self._watches.items() if key in ids}
        self._unread = {key: told for key, told in self._unread.items() if key in ids}
        for live in lives:
            watch = self._watches.get(live.row.id)
            if watch is not None:
                watch.live = live
            elif not 0 < self._unread.get(live.row.id, (0.0, ""))[0] - self._clock() <= UNREAD_S:
                self._begin(live)

    def _begin(self, live: LiveAttempt) -> None:
        try:
            self._watches[live.row.id] = analysis.begin_watch(self._means, live)
        except (SQLAlchemyError, NotLeading):
            raise
        except Exception as error:
            trouble = f"run {live.row.run!r} cannot be taken up: {plainly(error)}"[:500]
            LOG.error("%s", trouble, exc_info=error)
            self._means.metrics.errors.labels(part="attempt").inc()
            self._unread[live.row.id] = (self._clock() + UNREAD_S, trouble)
        else:
            self._unread.pop(live.row.id, None)

    def _attend(
        self, watch: Watch, *, pending: Sequence[WindowRow], is_tick: bool, is_newest: bool, now_s: float
    ) -> bool:
        means = self._means
        analysis.refresh(means, watch)
        listening_s = max(self._started_s, self._floor_s)
        not_before_s = listening_s + means.settings.settle_s
        waiting = analysis.close_due(means, watch, pending=pending, now_s=now_s, not_before_s=not_before_s)
        beats: tuple[Heartbeat, ...] = ()
        if waiting or is_tick:
            silent_s = means.settings.silent_s
            beats = beats_now(watch, now_s=now_s, floor_s=self._floor_s, silent_s=silent_s)
        for row in waiting[:WINDOWS_PER_TURN]:
            analysis.analyse(means, watch, row=row, beats=beats, now_s=now_s)
            if self._stopping.is_set():
                return False
        if not 0 < watch.roll_s - now_s <= ROLL_EVERY_S:
            watch.roll_s = now_s + ROLL_EVERY_S
            historian.roll_up(means, watch, now_s=now_s)
            historian.look_for_drift(means, watch, now_s=now_s)
        if is_tick:
            _look_for_a_mixture(watch, now_s=now_s)
            analysis.tick(means, watch, beats=beats, now_s=now_s)
            reason = analysis.ended(
                means,
                watch,
                beats=beats,
                is_newest=is_newest,
                has_pending=bool(pending),
                now_s=now_s,
                since_s=listening_s,
            )
            if reason:
                historian.roll_up(means, watch, now_s=now_s, is_last=True)
                analysis.end(means, watch, reason=reason, now_s=now_s)
                del self._watches[watch.live.row.id]
        return len(waiting) > WINDOWS_PER_TURN

    def _publish(self, newest: Iterable[int], *, now_s: float) -> None:
        watches = [self._watches[key] for key in newest if key in self._watches]
        silent_s = self._means.settings.silent_s
        runs = tuple(
            RunNow(
                run=watch.live.row.run,
                numbers=watch.numbers,
                coverage_ratio=watch.coverage_ratio,
                ranks_lost=watch.ranks_lost,
                attempt=watch.live.row.attempt,
                topology=watch.topology,
                channels_off=off_at(watch.level.level),
                scores=watch.scores,
                host_gaps=watch.host_gaps,
                overhead=watch.overhead,
                dropped=watch.dropped,
                hosts_silent=sum(now_s - at_s > silent_s for at_s in watch.hosts.values()),
                silence_s=max(now_s - watch.live.last_seen_s, 0.0),
                kernels=watch.kernels,
            )
            for watch in watches
        )
        kept = tuple(item for watch in self._watches.values() for item in watch.kept.values())
        self._published.show(runs=runs, incidents=kept)
        self._published.show_mixed({watch.live.row.id: watch.mixed for watch in watches if watch.mixed})
        self._published.show_leading(self._leadership.is_held)
        troubles = (w.trouble for w in self._watches.values() if w.trouble)
        unread = (trouble for _, trouble in self._unread.values())
        self._published.show_troubles((*self._healer.troubles(now_s), *unread, *troubles))
        with self._means.store.read() as connection:
            count, oldest_s = progress.backlog(connection)
        self._published.show_backlog(count, 0.0 if oldest_s is None else max(now_s - oldest_s, 0.0))


def _look_for_a_mixture(watch: Watch, *, now_s: float) -> None:
    before, watch.mixed = watch.mixed, watch.claims.told(watch.live.row.run, now_s=now_s)
    if watch.mixed and not before:
        LOG.warning("%s", watch.mixed)


def _hear(watch: Watch, beats: Sequence[Heartbeat], *, hosts: Sequence[str], now_s: float) -> None:
    for host in (*hosts, *{beat.host for beat in beats}):
        watch.hosts[host] = max(watch.hosts.get(host, 0.0), now_s)
    watch.claims.hear(beats, now_s=now_s)
    for beat in beats:
        before = watch.heard.get(beat.rank)
        if before is None or is_newer(beat, before.beat):
            watch.heard[beat.rank] = HeardBeat(beat=beat, received_s=now_s)
