"""Telling again what did not go out: nothing is lost, nothing is told twice, however long a turn takes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from argus.analytics.store import marks, notices
from argus.analytics.store.engine import Store
from argus.analytics.store.marks import ACKNOWLEDGED, Mark
from argus.analytics.store.silences import ALERTMANAGER, Matcher, Silence
from argus.api.notify.decide import OPENED, REPEATED, RESOLVED, Rules
from argus.api.notify.notifier import Delivery, Json, Keep, Later, Refused
from argus.api.notify.pace import Pace
from tests.api.desk.kit import Recorder, an_incident, dispatcher_of, matter, save
from tests.api.kit import FakeClock

pytestmark = pytest.mark.slow

DAY_S = 86400.0


@dataclass
class Slow(Recorder):
    """A receiver that takes its time before it fails or takes anything."""

    clock: FakeClock = field(default_factory=FakeClock)
    takes_s: float = 0.0

    def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
        """See `Notifier`."""
        self.clock.now_s += self.takes_s
        super().tell(delivery, held=held, keep=keep)


def test_the_days_digest_is_tried_again(store: Store, clock: FakeClock) -> None:
    to = Recorder(failing_digests=[Later("gone"), Later("busy", after_s=60.0)])
    telling = dispatcher_of(store, clock, {"rec": to}, pace=Pace(digest_hour=7))
    spike = save(store, an_incident(severity="info"), now_s=clock.now_s)
    save(store, replace(spike, status="resolved", end_step=60), now_s=clock.now_s + 30)
    clock.now_s += DAY_S
    for _ in range(40):
        telling.turn(clock.now_s)
        clock.now_s += 10
    assert [len(one.lines) for one in to.digests] == [1] and to.failing_digests == []


def test_doubt_lasts_until_it_is_told(store: Store, clock: FakeClock) -> None:
    to = Recorder(failing=[Later("cut off", is_doubtful=True), Later("busy", after_s=1.0)])
    telling = dispatcher_of(store, clock, {"rec": to})
    incident = save(store, an_incident(), now_s=clock.now_s)
    for _ in range(4):
        telling.turn(clock.now_s)
        clock.now_s += 10
    assert to.news == [OPENED] and to.told[0].is_doubtful
    save(store, replace(incident, severity="critical"), now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert not to.told[1].is_doubtful


@dataclass
class CutShort(Recorder):
    """A receiver that has taken part of a message when it asks for patience."""

    def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
        """See `Notifier`."""
        if self.failing and "ts" not in held:
            keep({"ts": "m0"})
        super().tell(delivery, held=held, keep=keep)


@pytest.mark.parametrize(
    "to",
    [
        Recorder(failing=[Later("cut off", is_doubtful=True)]),
        CutShort(failing=[Later("busy", after_s=5.0)]),
        CutShort(failing=[Refused("no threads here")]),
    ],
)
def test_what_may_have_gone_out_is_told_to_its_end(store: Store, clock: FakeClock, to: Recorder) -> None:
    telling = dispatcher_of(store, clock, {"rec": to})
    incident = save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    save(store, replace(incident, status="resolved", end_step=60), now_s=clock.now_s)
    for _ in range(100):
        clock.now_s += 10
        telling.turn(clock.now_s)
    assert to.news == [RESOLVED] and to.failing == []


def test_what_surely_did_not_go_out_has_no_end_to_tell(store: Store, clock: FakeClock) -> None:
    to = Recorder(failing=[Later("refused the connection"), Refused("no such room")])
    telling = dispatcher_of(store, clock, {"rec": to})
    for rank in range(2):
        incident = save(store, an_incident(scope=f"rank:{rank}"), now_s=clock.now_s)
        telling.turn(clock.now_s)
        save(store, replace(incident, status="resolved", end_step=60), now_s=clock.now_s)
        clock.now_s += 10
    for _ in range(100):
        clock.now_s += 10
        telling.turn(clock.now_s)
    assert to.news == [] and to.failing == []


def test_the_end_is_told_of_what_was_begun_by_a_service_that_died(store: Store, clock: FakeClock) -> None:
    class Died(BaseException):
        """As by kill -9."""

    class Killed(CutShort):
        def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
            raise Died

    incident = save(store, an_incident(), now_s=clock.now_s)
    with pytest.raises(Died):
        dispatcher_of(store, clock, {"rec": Killed()}, name="dead").turn(clock.now_s)
    save(store, replace(incident, status="resolved", end_step=60), now_s=clock.now_s)
    to = Recorder()
    telling = dispatcher_of(store, clock, {"rec": to})
    for _ in range(10):
        clock.now_s += 10
        telling.turn(clock.now_s)
    assert to.news == [RESOLVED] and to.told[0].is_doubtful


def test_a_wait_counts_from_when_it_was_asked_for(store: Store, clock: FakeClock) -> None:
    to = Slow(clock=clock, takes_s=40.0, failing=[Later("busy", after_s=30.0)])
    telling = dispatcher_of(store, clock, {"rec": to})
    save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    clock.now_s += 25
    telling.turn(clock.now_s)
    assert to.news == []
    clock.now_s += 6
    telling.turn(clock.now_s)
    assert to.news == [OPENED]


def test_a_long_turn_holds_on_to_what_it_is_at(store: Store, clock: FakeClock) -> None:
    other = Recorder()
    second = dispatcher_of(store, clock, {"rec": other}, name="two")

    class Meanwhile(Slow):
        def tell(self, delivery: Delivery, *, held: Json, keep: Keep) -> None:
            super().tell(delivery, held=held, keep=keep)
            if len(self.told) == 3:
                second.turn(self.clock.now_s)

    to = Meanwhile(clock=clock, takes_s=45.0)
    for rank in range(3):
        save(store, an_incident(scope=f"rank:{rank}"), now_s=clock.now_s)
    dispatcher_of(store, clock, {"rec": to}, name="one").turn(clock.now_s)
    told = [one.matter.incident.id for rec in (to, other) for one in rec.told]
    assert len(told) == len(set(told)) == 3


def test_a_silence_that_comes_twice_stops_no_notices(store: Store, clock: FakeClock) -> None:
    """As from two receivers behind one Alertmanager, or of two services that read it at once."""
    same = Silence(
        id="am-1",
        source=ALERTMANAGER,
        matchers=(Matcher(name="run", value="other"),),
        starts_s=clock.now_s,
        ends_s=clock.now_s + 60,
    )

    class Source(Recorder):
        def read_silences(self) -> tuple[Silence, ...]:
            return (same, same)

    to = Source()
    save(store, an_incident(), now_s=clock.now_s)
    dispatcher_of(store, clock, {"rec": to}).turn(clock.now_s)
    assert to.news == [OPENED]


def test_receivers_that_forget_are_reminded_after_the_clock_was_put_back(
    store: Store, clock: FakeClock
) -> None:
    ticks, to = FakeClock(), Recorder(rules=Rules(repeat_s=60))
    telling = dispatcher_of(store, clock, {"rec": to}, ticks=ticks)
    save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    clock.now_s -= 3600
    ticks.now_s += 10
    telling.turn(clock.now_s)
    assert to.news == [OPENED, REPEATED]


@pytest.mark.parametrize("error", [Later("it is down"), Later("wait", after_s=60.0), Refused("no such room")])
def test_a_clock_that_was_put_back_makes_no_receiver_rest_until_it_has_caught_up(
    store: Store, clock: FakeClock, error: Exception
) -> None:
    ticks, to = FakeClock(), Recorder(failing=[error])
    telling = dispatcher_of(store, clock, {"rec": to}, ticks=ticks)
    save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert to.news == [] and to.failing == []
    clock.now_s -= 3600
    for _ in range(92):
        clock.now_s += 10
        ticks.now_s += 10
        telling.turn(clock.now_s)
    assert to.news == [OPENED]


def test_a_clock_that_was_put_back_lets_no_messages_count_as_lately(store: Store, clock: FakeClock) -> None:
    ticks, to = FakeClock(), Recorder()
    telling = dispatcher_of(store, clock, {"rec": to}, ticks=ticks, pace=Pace(max_posts=2))
    for jump_s in (0, -3600):
        clock.now_s += jump_s
        for rank in range(2):
            save(store, an_incident(scope=f"rank:{rank - jump_s}"), now_s=clock.now_s)
            ticks.now_s += 10
            telling.turn(clock.now_s)
    assert to.news == [OPENED] * 4


def test_one_that_died_is_taken_over_though_the_clock_was_put_back(store: Store, clock: FakeClock) -> None:
    to = Recorder()
    incident = save(store, an_incident(), now_s=clock.now_s)
    topic = matter(store, incident, now_s=clock.now_s).topic
    with store.write() as connection:
        assert notices.claim(
            connection,
            "rec",
            topic,
            told="",
            about=incident.id,
            owner="dead",
            now_s=clock.now_s + 3600,
            lease_s=60.0,
            rest_s=900.0,
        )
    dispatcher_of(store, clock, {"rec": to}).turn(clock.now_s)
    assert to.news == [OPENED] and to.told[0].is_doubtful


def test_what_is_worth_telling_is_so_however_long_the_names(store: Store, clock: FakeClock) -> None:
    incident = save(store, an_incident(), now_s=clock.now_s)
    stamps = set()
    for number in range(4):
        by = f"{'a very long name ' * 6}{number}"
        with store.write() as connection:
            mark = Mark(incident_id=incident.id, at_s=clock.now_s + number, what=ACKNOWLEDGED, by=by)
            marks.add_mark(connection, mark)
        stamps.add(matter(store, incident, now_s=clock.now_s).told)
    assert len(stamps) == 4 and max(map(len, stamps)) <= 256
