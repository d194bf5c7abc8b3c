"""The service itself, without HTTP: takes what hosts send, stores it, has it analysed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial

from prometheus_client import Counter
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from argus.agent.wording import counted
from argus.analytics.store import control, events, intake, observations
from argus.analytics.store.belated import outdated
from argus.analytics.store.engine import Store
from argus.analytics.store.gate import Unavailable
from argus.analytics.store.intake import Arrival, Rejection
from argus.analytics.store.relaunch import make_room
from argus.analytics.store.tables import ATTEMPTS
from argus.api import ingest
from argus.api.agent_metrics import AgentMetrics, make_agent_metrics
from argus.api.analysis import Means
from argus.api.board import Board
from argus.api.combining import Combiner, Gathering
from argus.api.complaints import no_answer
from argus.api.course import Analyses
from argus.api.healing import Healer, Repair
from argus.api.ingest import Beats, Parsed
from argus.api.introductions import Introductions
from argus.api.metrics import Metrics, make_metrics
from argus.api.published import Published
from argus.api.readers import Readers
from argus.api.receiving import Receiving, Told, dumps_by_launch, hosts_of, plans_of, windows_answer
from argus.api.settings import Settings
from argus.api.slow_peers import ask_peers
from argus.api.worker import Worker
from argus.collectors.records.errors import WireError
from argus.collectors.records.outside_event import events_of_sample

Answer = dict[str, object]

PAUSE_S = 0.1
"""Between commits of heartbeats, and between those of rank windows. A thousand hosts send both every few seconds:
without it a commit held two or three of them, and most of a core went into transactions."""


READERS = 2
"""Uploads that are read at once: more threads take the interpreter from one another thousands of times a second, which
made reading half as fast again; and a core each is what a second process is worth."""


class NothingTaken(Exception):
    """Every item of a request was refused; `rejected` says why."""

    def __init__(self, rejected: tuple[Rejection, ...]) -> None:
        super().__init__(f"none of the {len(rejected)} items could be taken: {rejected[0].reason}")
        self.rejected = rejected


@dataclass(frozen=True, kw_only=True)
class Service:
    """Everything behind the routes. `clock` gives Unix seconds."""

    settings: Settings
    store: Store
    metrics: Metrics
    published: Published
    worker: Worker
    analyses: Analyses
    clock: Callable[[], float]
    board: Board
    receiving: Receiving
    take_windows: Combiner[Parsed[Arrival], Told]
    agent_metrics: AgentMetrics
    introductions: Introductions
    readers: Readers
    peers_asked_s: dict[int, float] = field(default_factory=dict)

    @cached_property
    def gather_beats(self) -> Gathering[bytes, Answer]:
        """Takes the body of one host's heartbeats, on the event loop."""
        return Gathering(self.receive_all_heartbeats, pause_s=PAUSE_S)

    def receive_layouts(self, body: bytes) -> Answer:
        """Store layout records. Raises WireError, NothingTaken."""
        parsed = ingest.parse_layouts(body)
        now_s = self.clock()
        with self.store.write() as connection:
            make_room(connection, parsed.items, now_s=now_s, silent_s=self.settings.silent_s)
            attempts = self.receiving.attempts(
                connection, {(i.run, i.attempt) for i in parsed.items}, now_s=now_s
            )
            past = outdated(connection, parsed.items)
            known = [layout for index, layout in enumerate(parsed.items) if index not in past]
            intake.add_layouts(connection, known, attempts=attempts, now_s=now_s)
            plans = plans_of(connection, attempts)
        for attempt_id, hosts in hosts_of(known, attempts).items():
            self.worker.hear(attempt_id, hosts=hosts, now_s=now_s)
        return _answer(self.metrics.layouts, len(parsed.items), rejected=parsed.rejected, plans=plans)

    def receive_heartbeats(self, body: bytes) -> Answer:
        """Store the latest heartbeat of each rank. Raises WireError, NothingTaken."""
        (answer,) = self.receive_all_heartbeats([body])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def receive_all_heartbeats(self, bodies: Sequence[bytes]) -> list[Answer | Exception]:
        """The same for the bodies of several hosts, in one transaction: an answer or an error for each."""
        parsed = [self._introduced(one) for one in ingest.parse_all_beats(bodies)]
        good = [one for one in parsed if isinstance(one, Beats)]
        told = iter(self.receiving.store_beats(good) if good else ())
        return [one if isinstance(one, Exception) else self._take_beats(one, next(told)) for one in parsed]

    def _introduced(self, one: Beats | WireError) -> Beats | WireError | Unavailable:
        """Those of a host that need not introduce its ranks again."""
        try:
            if isinstance(one, Beats):
                self.introductions.check(one.beats.items)
        except Unavailable as error:
            return error
        return one

    def _take_beats(self, one: Beats, told: Told) -> Answer | Exception:
        now_s = self.clock()
        for key, attempt in told.attempts.items():
            beats = [beat for beat in one.beats.items if (beat.run, beat.attempt) == key]
            self.worker.hear(attempt.id, beats=beats, now_s=now_s)
        counter, rejected = self.metrics.heartbeats, (*one.beats.rejected, *one.reports.rejected)
        try:
            answer = _answer(counter, len(one.beats.items), rejected=rejected, plans=told.plans)
        except NothingTaken as error:
            return error
        return {**answer, "switches": told.switches}

    def receive_observations(self, body: bytes) -> Answer:
        """Store stack dumps and host samples, each once. Raises WireError, NothingTaken."""
        dumps, samples = ingest.parse_observations(body)
        now_s = self.clock()
        keep_s = self.settings.keep_observations_s
        with self.store.write() as connection:
            dumps = dumps_by_launch(connection, dumps, now_s=now_s)
            attempts = self.receiving.attempts(
                connection, {(i.run, i.attempt) for i in dumps.items}, now_s=now_s
            )
            observations.add_stacks(connection, dumps.items, attempts=attempts, now_s=now_s)
            ask_peers(connection, dumps.items, attempts=attempts, asked_s=self.peers_asked_s, now_s=now_s)
            observations.add_samples(connection, samples.items, now_s=now_s)
            observations.forget_observations(connection, before_s=now_s - keep_s)
            told = [event for sample in samples.items for event in events_of_sample(sample)]
            if told:
                events.add_events(connection, told, now_s=now_s, before_s=now_s - keep_s)
        accepted, rejected = len(dumps.items) + len(samples.items), (*dumps.rejected, *samples.rejected)
        self.metrics.observations.labels(result="accepted").inc(accepted)
        self.metrics.observations.labels(result="rejected").inc(len(rejected))
        if rejected and not accepted:
            raise NothingTaken(rejected)
        return {"accepted": accepted, "rejected": [asdict(item) for item in rejected]}

    def receive_events(self, body: bytes) -> Answer:
        """Store out-of-band events, each once. Raises WireError, NothingTaken."""
        parsed = ingest.parse_events(body)
        now_s = self.clock()
        before_s = now_s - self.settings.keep_observations_s
        with self.store.write() as connection:
            new = events.add_events(connection, parsed.items, now_s=now_s, before_s=before_s)
        self.metrics.events.labels(result="accepted").inc(new)
        self.metrics.events.labels(result="rejected").inc(len(parsed.rejected))
        if parsed.rejected and not parsed.items:
            raise NothingTaken(parsed.rejected)
        return {
            "accepted": new,
            "duplicates": len(parsed.items) - new,
            "rejected": [asdict(item) for item in parsed.rejected],
        }

    def receive_windows(self, body: bytes, *, age_s: float = 0.0) -> Answer:
        """Store rank windows that waited `age_s` on their host, each once. Raises WireError, NothingTaken."""
        read = partial(ingest.parse_windows, max_bytes=self.settings.max_upload_bytes, age_s=age_s)
        parsed = self.readers(read, body)
        told = self.take_windows(parsed)
        received = told.received
        assert received is not None
        now_s = self.clock()
        for attempt_id, hosts in hosts_of(parsed.items, told.attempts).items():
            self.worker.hear(attempt_id, hosts=hosts, now_s=now_s)
        self.metrics.windows.labels(result="accepted").inc(received.accepted)
        self.metrics.windows.labels(result="duplicate").inc(received.duplicates)
        self.metrics.windows.labels(result="rejected").inc(len(received.rejected))
        if received.rejected and not received.accepted and not received.duplicates:
            raise NothingTaken(received.rejected)
        return windows_answer(told)

    def switch(self, run: str, *, is_off: bool) -> None:
        """Have a run's collection off or on; its hosts hear it with their next heartbeat."""
        with self.store.write() as connection:
            control.switch(connection, run, is_off=is_off, now_s=self.clock())

    def stop(self) -> None:
        """End what works beside the routes, and let go of the database."""
        self.worker.stop()
        self.readers.close()
        self.store.close()

    def overload(self) -> str:
        """Why no more can be taken now, "" if it can."""
        count, lag_s = self.published.backlog_now()
        if count <= self.settings.max_backlog:
            return ""
        return f"to be analysed: {counted(count, 'windows')}, the oldest waits {lag_s:.0f} s"

    def obstacles(self) -> list[str]:
        """Why the service can take nothing now; empty when it can."""
        found = []
        if not self.worker.is_alive:
            found.append("the analysis thread does not run")
        if reason := self.overload():
            found.append(reason)
        try:
            with self.store.read() as connection:
                connection.execute(select(ATTEMPTS.c.id).limit(1))
        except Unavailable as error:
            return [*found, str(error)]
        except SQLAlchemyError as error:
            found.append(no_answer(error))
            return found
        if self.store.refusal and (reason := self._refusal()):
            found.append(f"the database takes no writes: {reason}")
        return found

    def _refusal(self) -> str:
        """Why the database refuses a write now: nobody sends us any while we are not ready, so we try."""
        try:
            with self.store.write() as connection:
                control.try_write(connection, now_s=self.clock())
        except SQLAlchemyError:
            return self.store.refusal
        return ""


def make_service(
    *,
    settings: Settings,
    store: Store,
    analyses: Analyses,
    clock: Callable[[], float],
    repair: Repair | None = None,
) -> Service:
    """A service on a migrated store; its worker is not started yet. `repair`: what was done to it just now."""
    published = Published()
    metrics = make_metrics(published, max_series=settings.max_series)
    means = Means(store=store, settings=settings, analyses=analyses, metrics=metrics)
    receiving = Receiving(store=store, window_steps=settings.window_steps, clock=clock)
    board = Board(store=store, clock=clock)
    introductions = Introductions()
    readers = Readers(size=READERS)
    published.watch(readers.trouble)
    start_anew = _start_anew(metrics, receiving, board=board, introductions=introductions)
    if repair is not None:
        start_anew()
    return Service(
        settings=settings,
        store=store,
        metrics=metrics,
        published=published,
        worker=Worker(
            means=means,
            published=published,
            clock=clock,
            healer=Healer(store, on_replaced=start_anew, repair=repair),
        ),
        analyses=analyses,
        clock=clock,
        board=board,
        receiving=receiving,
        take_windows=Combiner(receiving.store_windows, pause_s=PAUSE_S),
        agent_metrics=make_agent_metrics(metrics.registry),
        introductions=introductions,
        readers=readers,
    )


def _start_anew(
    metrics: Metrics, receiving: Receiving, *, board: Board, introductions: Introductions
) -> Callable[[], None]:
    """Forgets what was read of a database in whose place another one is now, and has hosts say it again."""

    def start_anew() -> None:
        metrics.repairs.inc()
        receiving.known_names.forget()
        board.forget()
        introductions.ask()

    return start_anew


def _answer(
    counter: Counter,
    accepted: int,
    *,
    rejected: tuple[Rejection, ...],
    plans: Sequence[Mapping[str, object]],
) -> Answer:
    counter.labels(result="accepted").inc(accepted)
    counter.labels(result="rejected").inc(len(rejected))
    if rejected and not accepted:
        raise NothingTaken(rejected)
    return {"accepted": accepted, "rejected": [asdict(item) for item in rejected], "plans": list(plans)}
