"""The one analysis thread: turns over the live attempts, window by window and second by second."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence

from sqlalchemy.exc import SQLAlchemyError

from argus.analytics.store import progress
from argus.analytics.store.intake import is_newer
from argus.analytics.store.kernels import PRUNED_AT_ONCE, prune_kernels
from argus.analytics.store.progress import HeardBeat, LiveAttempt, WindowRow
from argus.api import analysis, historian, late
from argus.api.analysis import Means
from argus.api.published import Published
from argus.api.run_gauges import RunNow
from argus.api.watch import Watch
from argus.collectors.records.channels import off_at
from argus.collectors.records.heartbeat import Heartbeat

TICK_S = 1.0
"""How often heartbeats are looked at: as often as ranks make them."""

STALL_S = 5.0
"""A wait of TICK_S that took so long: the machine slept or the clock jumped, and nobody's silence counts."""

PRUNE_EVERY_S = 600.0
"""How often old kernel summaries are looked for; retention is days."""

ROLL_EVERY_S = 10.0
"""How often an attempt's new windows are added up for the history of its GPUs; as often as windows close."""

REST_S = 0.1
"""Between turns when no window waits: a thousand hosts' uploads must not mean a thousand turns a second."""

MAX_INBOX = 10_000
"""Signs of life kept while the database cannot be read."""

WINDOWS_PER_TURN = 8
"""Windows of one attempt analysed before the others get their turn."""

LOG = logging.getLogger("argus.worker")


class Worker:
    """Owns every `Watch`; other threads only `hear` and `poke`."""

    def __init__(self, *, means: Means, published: Published, clock: Callable[[], float]) -> None:
        self._means = means
        self._published = published
        self._clock = clock
        self._started_s = self._floor_s = clock()
        self._watches: dict[int, Watch] = {}
        self._ticked_s = 0.0
        self._prune_s = self._started_s + PRUNE_EVERY_S
        self._inbox: list[tuple[int, Sequence[Heartbeat], Sequence[str], float]] = []
        self._lock = threading.Lock()
        self._poked = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="argus-analysis", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the window it is at."""
        self._stopping.set()
        self._poked.set()
        if self._thread is not None:
            self._thread.join()

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
                self._survive(error)
                self._poked.clear()
            if not more:
                self._wait()

    def _survive(self, error: Exception) -> None:
        part = "store" if isinstance(error, SQLAlchemyError) else "turn"
        self._means.metrics.errors.labels(part=part).inc()
        trouble = f"{part}: {type(error).__name__}: {error}"[:500]
        if trouble not in self._published.troubles_now():
            LOG.error("the analysis could not turn: %s", trouble, exc_info=error)
        self._published.show_troubles((trouble,))

    def _wait(self) -> None:
        before_s = self._clock()
        self._stopping.wait(REST_S)
        self._poked.wait(TICK_S - REST_S)
        self._poked.clear()
        waited_s = self._clock() - before_s
        if waited_s > STALL_S or waited_s < 0:
            self._floor_s = self._clock()

    def turn(self, now_s: float) -> bool:
        """Once over every live attempt; whether windows still wait."""
        with self._lock:
            inbox, self._inbox = self._inbox, []
        try:
            with self._means.store.read() as connection:
                lives = progress.live_attempts(connection)
                pending = progress.pending_windows(connection)
            self._take_up(lives)
        except SQLAlchemyError:
            with self._lock:
                self._inbox = [*inbox, *self._inbox][-MAX_INBOX:]  # the last word of a rank comes once
            raise
        for attempt_id, beats, hosts, heard_s in inbox:
            if attempt_id in self._watches:
                _hear(self._watches[attempt_id], beats, hosts=hosts, now_s=heard_s)
        newest = {live.row.run: live.row.id for live in sorted(lives, key=lambda live: live.row.attempt)}
        is_tick = not 0 <= now_s - self._ticked_s < TICK_S
        self._prune(now_s)
        if is_tick:
            late.take_up(self._means, now_s=now_s)
        self._ticked_s = now_s if is_tick else self._ticked_s
        more = False
        for attempt_id, watch in list(self._watches.items()):
            is_newest = newest[watch.live.row.run] == attempt_id
            rows = pending.get(attempt_id, [])
            try:
                more |= self._attend(watch, pending=rows, is_tick=is_tick, is_newest=is_newest, now_s=now_s)
            except SQLAlchemyError:
                raise
            except Exception as error:  # noqa: BLE001 - one attempt's trouble must not stop the others
                analysis.survive(self._means, watch, error, part="attempt")
        self._publish(newest.values(), now_s=now_s)
        return more

    def _take_up(self, lives: Sequence[LiveAttempt]) -> None:
        gone = set(self._watches) - {live.row.id for live in lives}
        for attempt_id in gone:
            del self._watches[attempt_id]
        for live in lives:
            watch = self._watches.get(live.row.id)
            if watch is None:
                self._watches[live.row.id] = analysis.begin_watch(self._means, live)
            else:
                watch.live = live

    def _attend(
        self, watch: Watch, *, pending: Sequence[WindowRow], is_tick: bool, is_newest: bool, now_s: float
    ) -> bool:
        means = self._means
        analysis.refresh(means, watch)
        not_before_s = self._started_s + means.settings.settle_s
        waiting = analysis.close_due(means, watch, pending=pending, now_s=now_s, not_before_s=not_before_s)
        beats: tuple[Heartbeat, ...] = ()
        if waiting or is_tick:
            beats = analysis.beats_now(means, watch, now_s=now_s, floor_s=self._floor_s)
        for row in waiting[:WINDOWS_PER_TURN]:
            analysis.analyse(means, watch, row=row, beats=beats, now_s=now_s)
            if self._stopping.is_set():
                return False
        if now_s >= watch.roll_s:
            watch.roll_s = now_s + ROLL_EVERY_S
            historian.roll_up(means, watch, now_s=now_s)
            historian.look_for_drift(means, watch, now_s=now_s)
        if is_tick:
            analysis.tick(means, watch, beats=beats, now_s=now_s)
            reason = analysis.ended(
                means,
                watch,
                beats=beats,
                is_newest=is_newest,
                has_pending=bool(pending),
                now_s=now_s,
                since_s=self._started_s,
            )
            if reason:
                historian.roll_up(means, watch, now_s=now_s, is_last=True)
                analysis.end(means, watch, reason=reason, now_s=now_s)
                del self._watches[watch.live.row.id]
        return len(waiting) > WINDOWS_PER_TURN

    def _prune(self, now_s: float) -> None:
        """Let go of kernel summaries that are too old or too many, a part each turn."""
        if now_s < self._prune_s:
            return
        settings = self._means.settings
        with self._means.store.write() as connection:
            gone = prune_kernels(
                connection,
                before_s=now_s - settings.kernel_keep_s,
                max_bytes=settings.kernel_keep_bytes,
            )
        historian.forget(self._means, now_s=now_s)
        self._prune_s = now_s if gone == PRUNED_AT_ONCE else now_s + PRUNE_EVERY_S

    def _publish(self, newest: Iterable[int], *, now_s: float) -> None:
        watches = [self._watches[key] for key in newest if key in self._watches]
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
                kernels=watch.kernels,
            )
            for watch in watches
        )
        kept = tuple(item for watch in self._watches.values() for item in watch.kept.values())
        self._published.show(runs=runs, incidents=kept)
        self._published.show_troubles(tuple(w.trouble for w in self._watches.values() if w.trouble))
        with self._means.store.read() as connection:
            count, oldest_s = progress.backlog(connection)
        self._published.show_backlog(count, 0.0 if oldest_s is None else max(now_s - oldest_s, 0.0))


def _hear(watch: Watch, beats: Sequence[Heartbeat], *, hosts: Sequence[str], now_s: float) -> None:
    for host in (*hosts, *{beat.host for beat in beats}):
        watch.hosts[host] = max(watch.hosts.get(host, 0.0), now_s)
    for beat in beats:
        before = watch.heard.get(beat.rank)
        if before is None or is_newer(beat, before.beat):
            watch.heard[beat.rank] = HeardBeat(beat=beat, received_s=now_s)
