"""The thread that tells: looks at what is, compares it with what was told, and has the difference sent once."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from prometheus_client import Counter
from sqlalchemy import Connection, func, select
from sqlalchemy.exc import SQLAlchemyError

from argus.analytics.store import heard, notices, silences
from argus.analytics.store.desk_tables import INCIDENT_MARKS, INVESTIGATIONS, SILENCES
from argus.analytics.store.engine import Store
from argus.analytics.store.notices import DIGESTED, FOR, POSTED, Notice
from argus.analytics.store.silences import ALERTMANAGER, Silence
from argus.analytics.store.tables import INCIDENT_EVENTS
from argus.api.complaints import Complaints, plainly
from argus.api.notify import digest
from argus.api.notify.decide import AGAIN, OPENED, OVERFLOW, REPEATED, RESOLVED, WORSE, decide
from argus.api.notify.matter import Matter, Origin, read_matters, silenced
from argus.api.notify.notifier import Delivery, Digest, Json, Later, Notifier, Refused, SilenceSource
from argus.api.notify.pace import Pace

LOG = logging.getLogger("argus.notify")

LOOK_S = 0.5
"""How often it is asked whether anything has happened: people want to know within seconds."""

WHOLE_LOOK_S = 5.0
"""How often everything is looked at even if nothing happened: silences end, tries come due."""

LEASE_S = 60.0
"""How long a service may take to send one message before another takes it over."""

FIRST_RETRY_S, LAST_RETRY_S, REFUSED_S = 2.0, 300.0, 900.0
MAX_REST_S = 900.0
"""Nothing is put off for longer, whatever a receiver asks for: what is to be tried later than that was written before the
clock was put back."""

SILENCES_EVERY_S = 30.0
KEEP_S, PRUNE_EVERY_S = 90 * 86400.0, 3600.0


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What the dispatcher works with. `name` is this service's own, unlike any other's.

    `clock` gives the times that are kept and told; `ticks` only ever goes forward, and what waits here waits by it.
    """

    store: Store
    notifiers: Mapping[str, Notifier]
    clock: Callable[[], float]
    ticks: Callable[[], float] = time.monotonic
    rng: random.Random
    counter: Counter
    name: str
    origin: Origin = field(default_factory=Origin)
    pace: Pace = field(default_factory=Pace)
    lease_s: float = LEASE_S


class Dispatcher:
    """One per service; several services on one database share the work by claims."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._seen: tuple[int | float, ...] = ()
        # All of these are ticks.
        self._looked_s = float("-inf")
        self._due_s = float("inf")
        self._pruned_s = self._silences_s = float("-inf")
        self._paused_s: dict[str, float] = {}
        self._stopping = threading.Event()
        self._poked = threading.Event()
        self._complaints = Complaints(LOG)
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread, if there is anybody to tell."""
        if self._desk.notifiers:
            self._thread = threading.Thread(target=self._run, name="argus-notify", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End it after the message it is at."""
        self._stopping.set()
        self._poked.set()
        if self._thread is not None:
            self._thread.join()

    def poke(self) -> None:
        """Look at once: somebody pressed a button."""
        self._looked_s = float("-inf")
        self._poked.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.turn(self._desk.clock())
            except Exception as error:  # noqa: BLE001 - no notice is lost: the next turn looks again
                self._complaints.about("notices could not be looked at", error)
            else:
                self._complaints.over()
            self._poked.wait(LOOK_S)
            self._poked.clear()

    def turn(self, now_s: float) -> int:
        """Look once and tell what is due; how many messages went out."""
        with self._desk.store.read() as connection:
            seen = _pulse(connection)
        ticks_s = self._desk.ticks()
        if seen == self._seen and ticks_s < min(self._looked_s + WHOLE_LOOK_S, self._due_s):
            return 0
        self._seen, self._looked_s = seen, ticks_s
        self._due_s = min((at_s for at_s in self._paused_s.values() if at_s > ticks_s), default=float("inf"))
        self._take_silences(ticks_s)
        with self._desk.store.read() as connection:
            lasting = silences.lasting_silences(connection, now_s=now_s)
            matters = read_matters(connection, silences=lasting, now_s=now_s, origin=self._desk.origin)
        num = sum(
            self._serve(name, matters, lasting, now_s=now_s)
            for name in self._desk.notifiers
            if not self._is_paused(name)
        )
        if ticks_s - self._pruned_s >= PRUNE_EVERY_S:
            self._pruned_s = ticks_s
            self._prune(before_s=now_s - KEEP_S)
        return num

    def _take_silences(self, ticks_s: float) -> None:
        """Now and then: what receivers have silenced holds for the others, too."""
        if ticks_s - self._silences_s < SILENCES_EVERY_S:
            return
        self._silences_s = ticks_s
        sources = [one for one in self._desk.notifiers.values() if isinstance(one, SilenceSource)]
        read = [found for one in sources if (found := one.read_silences()) is not None]
        if read:
            with self._desk.store.write() as connection:
                silences.replace_foreign(connection, [one for found in read for one in found])

    def _prune(self, *, before_s: float) -> None:
        with self._desk.store.write() as connection:
            notices.forget_notices(connection, before_s=before_s)
            silences.forget_silences(connection, before_s=before_s)
            heard.forget_heard(connection, before_s=before_s)

    def _serve(
        self, name: str, matters: Sequence[Matter], lasting: Sequence[Silence], *, now_s: float
    ) -> int:
        """Everything one notifier is to be told now."""
        notifier = self._desk.notifiers[name]
        with self._desk.store.read() as connection:
            told = {one.topic: one for one in notices.notices(connection, notifier=name)}
            since_s = now_s - self._desk.pace.window_s
            num_posted = notices.num_posted(connection, name, since_s=since_s, until_s=now_s)
        num_sent = 0
        for matter in matters:
            if self._is_paused(name):
                return num_sent
            silence = silenced(matter, _heeded(notifier, lasting), now_s=now_s)
            has_room = not notifier.is_paced or num_posted < self._desk.pace.max_posts
            known = told.get(matter.topic)
            news = decide(
                matter, known, notifier.rules, is_silent=silence is not None, has_room=has_room, now_s=now_s
            )
            if news == OVERFLOW:
                self._digest(name, matter, known, now_s=now_s)
            elif news and self._tell(
                name, matter, known, news=news, is_quiet=silence is not None, now_s=now_s
            ):
                num_sent += 1
                num_posted += news == OPENED
        if notifier.is_paced and not self._is_paused(name):
            num_sent += self._digests(name, now_s=now_s)
        return num_sent

    def _is_paused(self, name: str) -> bool:
        return self._paused_s.get(name, float("-inf")) > self._desk.ticks()

    def _tell(
        self, name: str, matter: Matter, known: Notice | None, *, news: str, is_quiet: bool, now_s: float
    ) -> bool:
        before, about = known.told if known else "", matter.incident.id
        claimed = self._claim(name, matter.topic, told=before, about=about, is_anew=news == OPENED)
        if claimed is None:
            return False
        is_another = claimed.incident_id != matter.incident.id
        delivery = Delivery(
            matter=matter,
            news=news,
            now_s=now_s,
            times=max(claimed.times + (news == OPENED or is_another), 1),
            is_doubtful=claimed.is_doubtful,
            is_quiet=is_quiet,
        )
        held, notifier = _own(claimed), self._desk.notifiers[name]
        keep = self._keeper(name, matter.topic, held, about=about)
        if not self._attempt(name, claimed, lambda: notifier.tell(delivery, held=held, keep=keep), held=held):
            return False
        is_loud = news in (OPENED, WORSE, AGAIN)
        done = replace(
            claimed,
            incident_id=matter.incident.id,
            status=POSTED,
            severity=matter.incident.severity,
            told=matter.told,
            held={**held, FOR: about},
            times=delivery.times,
            posted_s=now_s if is_loud else claimed.posted_s,
            delivered_s=now_s,
            is_final=news == RESOLVED,
        )
        with self._desk.store.write() as connection:
            notices.finish(connection, done, owner=self._desk.name)
        return news != REPEATED

    def _digest(self, name: str, matter: Matter, known: Notice | None, *, now_s: float) -> None:
        """Too much lately: note it for the digest of this stretch of time."""
        if known is not None and now_s < known.next_s <= now_s + MAX_REST_S:
            return
        entry = Notice(
            notifier=name,
            topic=matter.topic,
            incident_id=matter.incident.id,
            status=DIGESTED,
            severity=matter.incident.severity,
            told=matter.told,
            times=(known.times if known else 0) + 1,
            delivered_s=now_s,
        )
        with self._desk.store.write() as connection:
            is_noted = notices.digest_silently(connection, entry, told=known.told if known else "")
        if is_noted:
            self._desk.counter.labels(notifier=name, result="digested").inc()

    def _digests(self, name: str, *, now_s: float) -> int:
        """The digests that are due: of this stretch of time, and once a day of what healed by itself."""
        with self._desk.store.read() as connection:
            can_edit = self._desk.notifiers[name].can_edit
            due = digest.due(connection, name, pace=self._desk.pace, can_edit=can_edit, now_s=now_s)
        return sum(self._tell_digest(name, one, now_s=now_s) for one in due)

    def _tell_digest(self, name: str, one: Digest, *, now_s: float) -> bool:
        with self._desk.store.read() as connection:
            known = notices.notice(connection, name, one.topic)
        told = digest.told_of(one)
        if known is not None and known.told == told:
            return False
        claimed = self._claim(name, one.topic, told=known.told if known else "", about=one.topic)
        if claimed is None:
            return False
        held, notifier = _own(claimed), self._desk.notifiers[name]
        keep = self._keeper(name, one.topic, held, about=one.topic)
        fresh = replace(one, is_doubtful=claimed.is_doubtful, project=self._desk.origin.project)
        if one.lines and not self._attempt(
            name, claimed, lambda: notifier.tell_digest(fresh, held=held, keep=keep), held=held
        ):
            return False
        done = replace(claimed, status=POSTED, told=told, held=held, delivered_s=now_s, is_final=True)
        with self._desk.store.write() as connection:
            notices.finish(connection, done, owner=self._desk.name)
        return bool(one.lines)

    def _claim(self, name: str, topic: str, *, told: str, about: str, is_anew: bool = False) -> Notice | None:
        """Take a topic on from now: what was told before it in this turn may have taken long."""
        with self._desk.store.write() as connection:
            return notices.claim(
                connection,
                name,
                topic,
                told=told,
                about=about,
                is_anew=is_anew,
                owner=self._desk.name,
                now_s=self._desk.clock(),
                lease_s=self._desk.lease_s,
                rest_s=MAX_REST_S,
            )

    def _keeper(self, name: str, topic: str, held: Json, *, about: str) -> Callable[[Json], None]:
        def keep(now_held: Json) -> None:
            fresh = {**now_held, FOR: about}
            held.clear()
            held.update(fresh)
            with self._desk.store.write() as connection:
                notices.keep_held(connection, name, topic, owner=self._desk.name, held=held)

        return keep

    def _attempt(self, name: str, claimed: Notice, send: Callable[[], None], *, held: Json) -> bool:
        """Send; where that fails, say when to try again, and let the receiver rest: the others' turn comes first.

        Where `held` has changed by then, part of it is out.
        """
        before = dict(held)
        try:
            send()
        except SQLAlchemyError:
            raise
        except Refused as error:
            LOG.error("notifier %s: %s", name, error)
            self._put_off(claimed, str(error), after_s=REFUSED_S, is_doubtful=held != before)
            result = "refused"
        except Exception as error:  # noqa: BLE001 - a notifier is a plug-in: what it raises is not known
            self._rest(name, claimed, _later(name, error), is_begun=held != before)
            result = "later"
        else:
            result = "sent"
        self._desk.counter.labels(notifier=name, result=result).inc()
        return result == "sent"

    def _rest(self, name: str, claimed: Notice, error: Later, *, is_begun: bool) -> None:
        """Put it off for as long as the receiver asks from now on, else longer with each try."""
        if error.after_s is not None:
            after_s = pause_s = min(error.after_s, MAX_REST_S)
        else:
            after_s = min(FIRST_RETRY_S * 2**claimed.tries, LAST_RETRY_S) * self._desk.rng.uniform(0.8, 1.2)
            pause_s = min(after_s, FIRST_RETRY_S)
        self._paused_s[name] = self._desk.ticks() + pause_s
        self._due_s = min(self._due_s, self._paused_s[name])
        self._put_off(claimed, str(error), after_s=after_s, is_doubtful=error.is_doubtful or is_begun)

    def _put_off(self, claimed: Notice, error: str, *, after_s: float, is_doubtful: bool = False) -> None:
        """Try again after a time; a failure that is none of doubt does not lift that of an earlier try."""
        self._due_s = min(self._due_s, self._desk.ticks() + after_s)
        with self._desk.store.write() as connection:
            notices.put_off(
                connection,
                claimed.notifier,
                claimed.topic,
                owner=self._desk.name,
                error=error,
                next_s=self._desk.clock() + after_s,
                is_doubtful=is_doubtful or claimed.is_doubtful,
            )


def _later(name: str, error: Exception) -> Later:
    """What a notifier raised as a reason to try again; one that nobody foresaw may have come after the sending."""
    if isinstance(error, Later):
        return error
    LOG.error("notifier %s broke off", name, exc_info=error)
    return Later(plainly(error)[:200], is_doubtful=True)


def _own(claimed: Notice) -> Json:
    """What the notifier itself holds."""
    return {name: value for name, value in claimed.held.items() if name != FOR}


def _heeded(notifier: Notifier, lasting: Sequence[Silence]) -> Sequence[Silence]:
    if notifier.obeys_alertmanager:
        return lasting
    return [one for one in lasting if one.source != ALERTMANAGER]


def _pulse(connection: Connection) -> tuple[int | float, ...]:
    """Numbers that grow when something worth a look has happened."""
    columns = (
        INCIDENT_EVENTS.c.id,
        INCIDENT_MARKS.c.id,
        INVESTIGATIONS.c.updated_s,
        SILENCES.c.ends_s,
    )
    return tuple(connection.execute(select(func.max(column))).scalar() or 0 for column in columns)
