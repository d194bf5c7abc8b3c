"""What is told when: once, by fingerprint, with a cooldown, digests instead of floods, over restarts and replicas."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from argus.analytics.store import marks, notices, patterns, silences
from argus.analytics.store.engine import Store
from argus.analytics.store.marks import Mark
from argus.analytics.store.silences import Matcher, Silence
from argus.api.notify.decide import AGAIN, CHANGED, OPENED, REPEATED, RESOLVED, WORSE, Rules
from argus.api.notify.notifier import Later, Refused
from argus.api.notify.pace import Pace
from tests.api.desk.kit import Recorder, an_incident, dispatcher_of, save
from tests.api.kit import FakeClock

pytestmark = pytest.mark.slow

DAY_S = 86400.0


def test_an_incident_is_told_from_its_beginning_to_its_end(store: Store, clock: FakeClock) -> None:
    to = Recorder()
    telling = dispatcher_of(store, clock, {"rec": to})
    first = save(store, an_incident(), now_s=clock.now_s)
    for incident in (first, replace(first, last_window=9), replace(first, severity="critical")):
        save(store, incident, now_s=clock.now_s)
        clock.now_s += 1
        telling.turn(clock.now_s)
    confirmed = replace(first, severity="critical", cause=replace(first.cause, verdict="CONFIRMED"))
    save(store, confirmed, now_s=clock.now_s)
    telling.turn(clock.now_s)
    save(store, replace(confirmed, status="resolved", end_step=90), now_s=clock.now_s)
    telling.turn(clock.now_s)
    clock.now_s += 60
    telling.turn(clock.now_s)
    expected = [OPENED, WORSE, RESOLVED]
    assert [news for news in to.news if news != CHANGED] == expected and to.num_posts == 1


def test_what_is_new_is_told_at_the_next_look(store: Store, clock: FakeClock) -> None:
    to = Recorder()
    telling = dispatcher_of(store, clock, {"rec": to})
    telling.turn(clock.now_s)
    clock.now_s += 0.1  # long before everything is looked at again
    save(store, an_incident(), now_s=clock.now_s)
    assert telling.turn(clock.now_s) == 1 and telling.turn(clock.now_s) == 0


def test_a_restart_tells_nothing_again(store: Store, clock: FakeClock) -> None:
    save(store, an_incident(), now_s=clock.now_s)
    before, after = Recorder(), Recorder()
    dispatcher_of(store, clock, {"rec": before}).turn(clock.now_s)
    clock.now_s += 3600
    dispatcher_of(store, clock, {"rec": after}, name="restarted").turn(clock.now_s)
    assert before.news == [OPENED] and after.news == []


def test_the_wording_is_no_news(store: Store, clock: FakeClock) -> None:
    to = Recorder()
    telling = dispatcher_of(store, clock, {"rec": to})
    first = save(store, an_incident(headline="one way to say it"), now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert first.diagnosis is not None
    save(
        store,
        replace(first, diagnosis={**first.diagnosis, "headline": "quite another"}, last_window=8),
        now_s=clock.now_s,
    )
    clock.now_s += 10
    telling.turn(clock.now_s)
    assert to.news == [OPENED]


def test_a_cause_that_comes_back_stays_in_its_message_for_a_while(store: Store, clock: FakeClock) -> None:
    to = Recorder(rules=Rules(cooldown_s=600))
    telling = dispatcher_of(store, clock, {"rec": to})
    for window in (5, 20, 40):
        incident = save(store, an_incident(window=window), now_s=clock.now_s)
        telling.turn(clock.now_s)
        clock.now_s += 60
        save(store, replace(incident, status="resolved", end_step=99), now_s=clock.now_s)
        telling.turn(clock.now_s)
        clock.now_s += 60
    assert to.news == [OPENED, RESOLVED, AGAIN, RESOLVED, AGAIN, RESOLVED] and to.num_posts == 1
    assert [one.times for one in to.told if one.news == AGAIN] == [2, 3]
    clock.now_s += 1000
    save(store, an_incident(window=90), now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert to.news[-1] == OPENED and to.num_posts == 2


def test_what_is_below_the_floor_or_healed_before_it_was_told_waits_for_the_day(
    store: Store, clock: FakeClock
) -> None:
    to = Recorder()
    telling = dispatcher_of(store, clock, {"rec": to}, pace=Pace(digest_hour=7))
    spike = save(store, an_incident(severity="info"), now_s=clock.now_s)
    telling.turn(clock.now_s)
    clock.now_s += 30
    save(store, replace(spike, status="resolved", end_step=60), now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert to.news == [] and sum(len(one.lines) for one in to.digests) == 0
    clock.now_s += DAY_S
    for _ in range(3):
        telling.turn(clock.now_s)
        clock.now_s += 60
    digest = to.digests[-1]
    assert [(line.run, line.count) for line in digest.lines] == [("job", 1)] and "healed" in digest.title
    assert len([one for one in to.digests if one.lines]) == 1


def test_a_flood_becomes_one_digest(store: Store, clock: FakeClock) -> None:
    to = Recorder()
    telling = dispatcher_of(store, clock, {"rec": to}, pace=Pace(max_posts=2, window_s=600))
    clock.now_s = clock.now_s // 600 * 600
    for rank in range(9):
        save(store, an_incident(scope=f"rank:{rank}"), now_s=clock.now_s)
        clock.now_s += 1
        telling.turn(clock.now_s)
    overflow = [one for one in to.digests if one.topic.startswith("overflow:")]
    assert to.num_posts == 2 and {one.topic for one in overflow} == {overflow[0].topic}
    assert sum(line.count for line in overflow[-1].lines) == 7 and overflow[-1].title == "7 more incidents"
    worse = an_incident(scope="rank:8", severity="critical")
    clock.now_s += 700
    save(store, worse, now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert to.told[-1].matter.incident.id == worse.id and to.told[-1].news == OPENED


def test_what_cannot_be_edited_has_its_digest_when_the_time_is_over(store: Store, clock: FakeClock) -> None:
    to = Recorder(can_edit=False)
    telling = dispatcher_of(store, clock, {"rec": to}, pace=Pace(max_posts=1, window_s=600))
    clock.now_s = clock.now_s // 600 * 600
    for rank in range(4):
        save(store, an_incident(scope=f"rank:{rank}"), now_s=clock.now_s)
        telling.turn(clock.now_s)
        clock.now_s += 1
    assert not [one for one in to.digests if one.lines]
    clock.now_s += 600
    telling.turn(clock.now_s)
    assert [sum(line.count for line in one.lines) for one in to.digests if one.lines] == [3]


@pytest.mark.parametrize("can_edit", [True, False])
def test_a_digest_that_could_not_be_told_in_its_time_is_told_once_later(
    store: Store, clock: FakeClock, can_edit: bool
) -> None:
    to = Recorder(can_edit=can_edit)
    telling = dispatcher_of(store, clock, {"rec": to}, pace=Pace(max_posts=1, window_s=600))
    clock.now_s = clock.now_s // 600 * 600 + 590
    for rank in range(4):
        save(store, an_incident(scope=f"rank:{rank}"), now_s=clock.now_s)
    to.failing_digests = [Later("busy", after_s=20.0), Later("gone"), Later("gone"), Later("gone")]
    for _ in range(300):
        telling.turn(clock.now_s)
        clock.now_s += 5
    assert to.failing_digests == [] and to.num_posts == 1
    assert [sum(line.count for line in one.lines) for one in to.digests if one.lines] == [3]


def test_an_error_of_one_notifier_keeps_nothing_from_the_others(store: Store, clock: FakeClock) -> None:
    """What nobody foresaw is tried again like any other failure, and counted; the others hear at once."""
    first, other = Recorder(failing=[KeyError("channel")]), Recorder()
    telling = dispatcher_of(store, clock, {"first": first, "other": other})
    for rank in range(2):
        save(store, an_incident(scope=f"rank:{rank}"), now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert other.news == [OPENED, OPENED] and first.news == []
    for _ in range(2):
        clock.now_s += 5
        telling.turn(clock.now_s)
    assert first.news == [OPENED, OPENED] and sum(one.is_doubtful for one in first.told) == 1


@pytest.mark.parametrize("trouble", [Later("busy", after_s=30.0), Later("gone")])
def test_a_receiver_that_is_busy_or_gone_is_asked_once_a_turn(
    store: Store, clock: FakeClock, trouble: Later
) -> None:
    to, other = Recorder(failing=[trouble] * 3), Recorder()
    telling = dispatcher_of(store, clock, {"rec": to, "other": other}, pace=Pace(max_posts=50))
    for rank in range(9):
        save(store, an_incident(scope=f"rank:{rank}"), now_s=clock.now_s)
    for left in (2, 1, 0):
        telling.turn(clock.now_s)
        assert len(to.failing) == left and to.told == [] and other.num_posts == 9
        clock.now_s += 31
    for _ in range(60):
        telling.turn(clock.now_s)
        clock.now_s += 1
    assert to.news == [OPENED] * 9


@pytest.mark.parametrize(
    "matchers",
    [
        (Matcher(name="run", value="job"),),
        (Matcher(name="class", value="compute.slow"), Matcher(name="run", value="j.*", is_regex=True)),
        (Matcher(name="run", value="other", is_equal=False),),
    ],
)
def test_a_silence_keeps_it_quiet_until_it_ends(
    store: Store, clock: FakeClock, matchers: tuple[Matcher, ...]
) -> None:
    to = Recorder()
    telling = dispatcher_of(store, clock, {"rec": to})
    quiet = Silence(
        id="s-1", source="argus", matchers=matchers, starts_s=clock.now_s, ends_s=clock.now_s + 100
    )
    with store.write() as connection:
        silences.add_silence(connection, quiet)
    save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    assert to.news == []
    clock.now_s += 101
    telling.turn(clock.now_s)
    assert to.news == [OPENED]


@pytest.mark.parametrize("is_equal", [True, False])
@pytest.mark.parametrize("value", ["(a|aa)+$", "(unreadable"])
def test_a_pattern_that_cannot_be_matched_silences_nothing_and_holds_up_nobody(
    store: Store, clock: FakeClock, caplog: pytest.LogCaptureFixture, value: str, is_equal: bool
) -> None:
    """Python's own `re` is at the first of them for longer than the world will last; Alertmanager's RE2 is not."""
    to = Recorder()
    matcher = Matcher(name="run", value=value, is_regex=True, is_equal=is_equal)
    foreign = Silence(id="am-1", source="alertmanager", matchers=(matcher,), starts_s=0, ends_s=2e9)
    with store.write() as connection:
        silences.replace_foreign(connection, [foreign])
    save(store, an_incident(run="a" * 90 + "!"), now_s=clock.now_s)
    telling = dispatcher_of(store, clock, {"rec": to})
    for _ in range(3):
        telling.turn(clock.now_s)
        clock.now_s += 31
    assert to.news == [OPENED]
    patterns.pattern.cache_clear()
    assert ("too long" in caplog.text) == (value != "(unreadable")


def test_what_was_told_goes_on_being_edited_under_a_silence(store: Store, clock: FakeClock) -> None:
    to = Recorder()
    telling = dispatcher_of(store, clock, {"rec": to})
    first = save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    matcher = Matcher(name="fingerprint", value=first.fingerprint)
    quiet = Silence(id="s-1", source="argus", matchers=(matcher,), starts_s=0, ends_s=clock.now_s + 1000)
    with store.write() as connection:
        silences.add_silence(connection, quiet)
        marks.add_mark(
            connection, Mark(incident_id=first.id, at_s=clock.now_s, what="acknowledged", by="eve")
        )
    clock.now_s += 1
    telling.turn(clock.now_s)
    assert to.news == [OPENED, CHANGED] and to.told[-1].is_quiet
    assert to.told[-1].matter.marks[0].by == "eve" and to.told[-1].matter.muted_until_s is not None


def test_silences_of_alertmanager_do_not_keep_its_own_alerts_from_it(store: Store, clock: FakeClock) -> None:
    people, machine = Recorder(), Recorder(obeys_alertmanager=False)
    foreign = Silence(
        id="am-1",
        source="alertmanager",
        matchers=(Matcher(name="run", value="job"),),
        starts_s=0,
        ends_s=clock.now_s + 1000,
    )
    with store.write() as connection:
        silences.replace_foreign(connection, [foreign])
    save(store, an_incident(), now_s=clock.now_s)
    dispatcher_of(store, clock, {"people": people, "machine": machine}).turn(clock.now_s)
    assert people.news == [] and machine.news == [OPENED]


def test_receivers_that_forget_are_reminded(store: Store, clock: FakeClock) -> None:
    to = Recorder(rules=Rules(repeat_s=60))
    telling = dispatcher_of(store, clock, {"rec": to})
    first = save(store, an_incident(), now_s=clock.now_s)
    for _ in range(4):
        telling.turn(clock.now_s)
        clock.now_s += 40
    save(store, replace(first, status="resolved", end_step=90), now_s=clock.now_s)
    telling.turn(clock.now_s)
    clock.now_s += 100
    telling.turn(clock.now_s)
    assert to.news == [OPENED, REPEATED, RESOLVED]


def test_what_cannot_be_told_now_is_told_later(store: Store, clock: FakeClock) -> None:
    to = Recorder(failing=[Later("busy", after_s=7.0), Later("gone", is_doubtful=True)])
    telling = dispatcher_of(store, clock, {"rec": to})
    save(store, an_incident(), now_s=clock.now_s)
    telling.turn(clock.now_s)
    with store.read() as connection:
        (kept,) = [one for one in notices.notices(connection) if one.incident_id is None and one.tries]
    assert kept.error == "busy" and kept.next_s == clock.now_s + 7.0
    clock.now_s += 6.0
    telling.turn(clock.now_s)
    assert len(to.failing) == 1
    clock.now_s += 2.0
    telling.turn(clock.now_s)
    assert to.failing == [] and to.news == []
    clock.now_s += 10.0
    telling.turn(clock.now_s)
    assert to.news == [OPENED] and to.told[0].is_doubtful


def test_a_refusal_is_kept_where_it_can_be_read(store: Store, clock: FakeClock) -> None:
    to = Recorder(failing=[Refused("Slack refuses: invalid_auth")])
    telling = dispatcher_of(store, clock, {"rec": to})
    save(store, an_incident(), now_s=clock.now_s)
    for _ in range(3):
        telling.turn(clock.now_s)
        clock.now_s += 60
    with store.read() as connection:
        errors = [one.error for one in notices.notices(connection) if one.error]
    assert errors == ["Slack refuses: invalid_auth"] and to.news == []


def test_two_services_at_once_tell_each_thing_once(store: Store, clock: FakeClock) -> None:
    to = [Recorder(), Recorder()]
    both = [dispatcher_of(store, clock, {"rec": one}, name=f"d{i}") for i, one in enumerate(to)]
    for round_number in range(6):
        save(store, an_incident(scope=f"rank:{round_number}"), now_s=clock.now_s)
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda one: one.turn(clock.now_s), both))
        clock.now_s += 200
    told = [one.matter.incident.id for rec in to for one in rec.told if one.news == OPENED]
    assert len(told) == len(set(told)) == 6


def test_one_that_died_is_taken_over_in_doubt(store: Store, clock: FakeClock) -> None:
    incident = save(store, an_incident(), now_s=clock.now_s)
    topic = f"incident:{incident.fingerprint}"
    with store.write() as connection:  # a service that was killed while it sent
        assert notices.claim(
            connection,
            "rec",
            topic,
            told="",
            about="",
            owner="dead",
            now_s=clock.now_s,
            lease_s=60.0,
            rest_s=3600.0,
        )
    to = Recorder()
    telling = dispatcher_of(store, clock, {"rec": to}, name="alive")
    telling.turn(clock.now_s)
    assert to.news == []
    clock.now_s += 61
    telling.turn(clock.now_s)
    assert to.news == [OPENED] and to.told[0].is_doubtful


def test_a_digest_does_not_take_the_place_of_what_another_service_posted(
    store: Store, clock: FakeClock
) -> None:
    to = Recorder()
    incident = save(store, an_incident(), now_s=clock.now_s)
    dispatcher_of(store, clock, {"rec": to}).turn(clock.now_s)
    late = notices.Notice(
        notifier="rec", topic=f"incident:{incident.fingerprint}", told="x", delivered_s=clock.now_s
    )
    with store.write() as connection:  # as one that looked before the message went out
        assert not notices.digest_silently(connection, late, told="")
        assert [one.status for one in notices.notices(connection) if one.incident_id] == ["posted"]
