"""The service's small rules: when windows close, how long they are, when a host is silent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argus.analytics.store.progress import HeardBeat, WindowRow
from argus.api.closing import Growth, closing
from argus.api.liveness import seen_now
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.plan_choice import MAX_WINDOW_S, MIN_WINDOW_S, choose_plan, first_plan
from tests.api.kit import make_beat


def rows(*ranks_in: int, opened_s: float = 0.0) -> list[WindowRow]:
    return [
        WindowRow(
            window=index,
            status="open",
            first_step=index * 10,
            num_steps=10,
            ranks_in=count,
            opened_s=opened_s,
            analysed_s=None,
        )
        for index, count in enumerate(ranks_in)
    ]


@pytest.mark.parametrize(
    ("ranks_in", "now_s", "closed"),
    [
        ((4, 4, 1), 1.0, [0, 1]),
        ((3, 4, 1), 1.0, []),
        ((3, 4, 4), 1.0, [0, 1, 2]),
        ((3, 4, 1), 15.0, [0, 1, 2]),
        ((1, 1, 1), 14.9, []),
        ((), 99.0, []),
    ],
)
def test_windows_close_in_order(ranks_in: Sequence[int], now_s: float, closed: list[int]) -> None:
    got = closing(rows(*ranks_in), world_size=4, now_s=now_s, grace_s=15.0, not_before_s=0.0, grown_s={})
    assert got == closed


def test_no_incomplete_window_closes_while_hosts_may_resend() -> None:
    kept = closing(rows(3, 4, 4, 4), world_size=4, now_s=20.0, grace_s=15.0, not_before_s=30.0, grown_s={})
    assert kept == []


def test_nothing_closes_without_a_layout() -> None:
    assert closing(rows(4), world_size=0, now_s=99.0, grace_s=1.0, not_before_s=0.0, grown_s={}) == []


def test_a_window_waits_while_its_ranks_come_in() -> None:
    growth = Growth()

    def closed(ranks_in: int, now_s: float) -> list[int]:
        return growth.closing(rows(ranks_in), world_size=99, now_s=now_s, grace_s=15.0, not_before_s=0.0)

    assert closed(1, 0.0) == []
    assert all(closed(1 + int(now_s), now_s) == [] for now_s in (13.0, 17.0, 21.5, 25.0))
    assert closed(26, 29.9) == []  # no more since 25.0
    assert closed(26, 30.0) == [0]
    assert closed(60, 31.0) == []  # had it stayed open
    assert closed(61, 59.9) == [] and closed(62, 60.0) == [0]  # not for ever


def test_what_came_in_while_another_window_was_analysed_counts_as_grown_just_now() -> None:
    growth = Growth()

    def closed(*windows: WindowRow, now_s: float) -> list[int]:
        return growth.closing(windows, world_size=4, now_s=now_s, grace_s=15.0, not_before_s=0.0)

    first, second = rows(4, 2)
    assert closed(first, now_s=1.0) == [0]
    assert closed(second, now_s=30.0) == []  # the analysis took so long; four graces are not over
    assert closed(second, now_s=34.9) == [] and closed(second, now_s=35.0) == [1]


def test_what_grew_is_forgotten_with_its_window() -> None:
    growth = Growth()
    growth.see(rows(1), now_s=0.0)
    assert growth.see(rows(2), now_s=7.0) == {0: 7.0}
    assert growth.see([], now_s=8.0) == {}
    assert growth.see(rows(5), now_s=9.0) == {0: 0.0}  # as of when it was opened: nothing is known of it


@given(st.lists(st.integers(0, 5), max_size=12), st.floats(0, 40))
def test_what_closes_is_always_a_prefix(ranks_in: list[int], now_s: float) -> None:
    got = closing(rows(*ranks_in), world_size=4, now_s=now_s, grace_s=15.0, not_before_s=10.0, grown_s={})
    assert got == list(range(len(got)))


@given(st.floats(1e-4, 300.0), st.integers(20, 1 << 40))
def test_a_chosen_window_lasts_long_enough_and_starts_ahead(step_s: float, highest_step: int) -> None:
    beats = [make_beat(rank, ts_s=0.0, step=5, p50_s=step_s) for rank in range(4)]
    plan = choose_plan(WindowPlan(), beats=beats, world_size=4, highest_step=highest_step)
    if not plan.switch:
        assert MIN_WINDOW_S * 0.999 <= plan.first * step_s <= MAX_WINDOW_S * 1.001
        return
    assert plan.switch % plan.first == 0
    assert (plan.switch - highest_step) * step_s >= 29.9
    assert plan.then == 100_000 or plan.then == 1 or 10.0 <= plan.then * step_s <= MAX_WINDOW_S
    assert choose_plan(plan, beats=beats, world_size=4, highest_step=highest_step + 10**6) == plan


def test_the_plan_waits_for_half_of_the_ranks_and_for_warm_steps() -> None:
    one = [make_beat(0, ts_s=0.0, step=500)]
    assert choose_plan(WindowPlan(), beats=one, world_size=4, highest_step=500) == WindowPlan()
    cold = [make_beat(rank, ts_s=0.0, step=19) for rank in range(4)]
    assert choose_plan(WindowPlan(), beats=cold, world_size=4, highest_step=19) == WindowPlan()


def test_the_last_window_tells_the_step_time_when_heartbeats_do_not() -> None:
    plan = choose_plan(WindowPlan(), beats=(), world_size=4, highest_step=50, window_step_s=0.1)
    assert plan == WindowPlan(switch=350, then=150)
    assert choose_plan(WindowPlan(), beats=(), world_size=4, highest_step=50) == WindowPlan()


def test_a_fixed_number_of_steps_is_the_first_plan() -> None:
    assert (first_plan(0), first_plan(25)) == (WindowPlan(), WindowPlan(first=25))


def test_a_silent_host_is_not_lost_while_the_others_begin_steps() -> None:
    quiet = heard(2, at_s=70.0)
    for began_s, state in ((0.0, "lost"), (71.0, "lost"), (98.0, "running")):
        busy = make_beat(0, ts_s=100.0)
        busy = replace(busy, status=replace(busy.status, step_since_ns=int(began_s * 1e9)))
        beats = [HeardBeat(beat=busy, received_s=100.0), quiet]
        now = seen_now(beats, hosts={}, now_s=101.0, floor_s=0.0, silent_s=15.0)
        assert [beat.state for beat in now] == ["running", state]


def heard(rank: int, *, at_s: float, state: str = "running") -> HeardBeat:
    return HeardBeat(beat=make_beat(rank, ts_s=at_s, state=state), received_s=at_s)


def test_silence_is_counted_per_host() -> None:
    beats = [heard(0, at_s=100.0), heard(2, at_s=90.0), heard(3, at_s=90.0, state="ended")]
    now = seen_now(beats, hosts={"h-0": 100.0, "h-1": 90.0}, now_s=106.0, floor_s=0.0, silent_s=15.0)
    assert [beat.state for beat in now] == ["running", "lost", "ended"]
    assert now[0].status_age_s == 6.0
    listening = seen_now(beats, hosts={}, now_s=106.0, floor_s=95.0, silent_s=15.0)
    assert [beat.state for beat in listening] == ["running", "running", "ended"]
    assert listening[1].status_age_s == 11.0


def test_who_is_told_to_be_lost_stays_so_until_its_host_speaks() -> None:
    beats = [heard(0, at_s=20.0), heard(2, at_s=10.0), heard(3, at_s=10.0, state="exited")]

    def states(hosts: dict[str, float], lost: set[int], began_s: float = 0.0) -> list[str]:
        busy = beats[0].beat
        busy = replace(busy, status=replace(busy.status, step_since_ns=int(began_s * 1e9)))
        known = [replace(beats[0], beat=busy), *beats[1:]]
        now = seen_now(known, hosts=hosts, now_s=101.0, floor_s=100.0, silent_s=15.0, lost_before=lost)
        return [beat.state for beat in now]

    assert states({}, {2}) == ["running", "lost", "exited"]
    assert states({"h-1": 100.5}, {2}) == ["running", "running", "exited"]
    assert states({}, {2}, began_s=19.0) == ["running", "running", "exited"]
    assert states({}, {3}) == states({}, set()) == ["running", "running", "exited"]
