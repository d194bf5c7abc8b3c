"""Faults that come and go: one incident for a rank that is bad again and again, none for chance."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.ballots import blame
from argus.analytics.baseline import DAY_S
from argus.analytics.incident import Incident
from argus.analytics.recurrence import Bout, extended, needed, recurrences
from argus.analytics.symptom import RankSymptom
from argus.analytics.view import View
from argus.analytics.window import Window
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import Topology, build
from tests.analytics.test_attempt import windows

JOB = Job(ranks=8, steps=400, step_s=0.4)
WINDOW_S = 6.0
BAD = (6, 12, 18, 24, 30)


@cache
def seen() -> tuple[RankSymptom, View]:
    """A symptom of rank 3 in one bad window, and the view of a window of the same job."""
    (bout,) = [b for b in played((BAD[0],)).bouts if b.rank == 3]
    return bout.symptom, view_of(played((BAD[0],)))


def view_of(state: AttemptState, *, now_s: float = 0.0) -> View:
    done = simulate(replace(JOB, steps=30), rng=np.random.default_rng(0))
    return View(run="train", attempt=0, topology=build(done.layouts), now_s=now_s, past=state.past)


@cache
def seen_windows(bad: tuple[int, ...]) -> tuple[Topology, tuple[Window, ...]]:
    """A job whose rank 3 is half as slow again in each of the windows `bad`."""
    faults = [
        Fault(kind="compute", ranks=(3,), start_step=10 * w, end_step=10 * w + 10, severity=1.5) for w in bad
    ]
    done = simulate(JOB, faults, rng=np.random.default_rng(2))
    topology = build(done.layouts)
    return topology, tuple(windows(done, topology))


def played(bad: tuple[int, ...], *, bouts: tuple[Bout, ...] = ()) -> AttemptState:
    """The attempt after such a job."""
    return followed(bad, bouts=bouts) if bouts else followed_anew(bad)


def followed(bad: tuple[int, ...], *, bouts: tuple[Bout, ...]) -> AttemptState:
    topology, shown = seen_windows(bad)
    state = replace(AttemptState.start(JOB.run, 0), bouts=bouts)
    for window in shown:
        state = advance(state, topology=topology, now_s=WINDOW_S * window.index, window=window).state
    return state


@cache
def followed_anew(bad: tuple[int, ...]) -> AttemptState:
    return followed(bad, bouts=())


def told(incidents: tuple[Incident, ...]) -> list[tuple[str, tuple[int, ...], str]]:
    return [(i.cause.fault_class, i.cause.suspects, i.status) for i in incidents]


def test_a_rank_that_is_bad_again_and_again_is_one_incident() -> None:
    state = played(BAD)
    assert told(state.incidents) == [("compute.slow", (3,), "open")]
    (incident,) = state.incidents
    (bouts,) = [item for item in incident.cause.evidence if item.name == "bouts"]
    assert bouts.value == len(BAD) and incident.severity != "critical"
    assert incident.cost.share_of_step < 0.2  # spread over all windows, not only the bad ones


def test_once_or_twice_is_no_incident() -> None:
    for bad in ((), BAD[:1], BAD[:2]):
        state = played(bad)
        assert state.incidents == () and sum(bout.rank == 3 for bout in state.bouts) == len(bad)


def test_bouts_of_the_same_device_in_the_attempt_before_count() -> None:
    earlier = played(BAD[:2]).bouts
    assert len(earlier) == 2
    before = tuple(
        replace(bout, attempt=-1, since_s=bout.since_s - 600, until_s=bout.until_s - 600) for bout in earlier
    )
    assert told(played(BAD[:1], bouts=before).incidents) == [("compute.slow", (3,), "open")]
    old = tuple(replace(bout, until_s=-DAY_S - 1.0) for bout in before)
    assert played(BAD[:1], bouts=old).incidents == ()


def test_a_lasting_fault_is_one_bout_and_no_recurrence() -> None:
    state = played(tuple(range(8, 20)))
    assert [bout.num >= 8 for bout in state.bouts if bout.rank == 3] == [True]
    assert told(state.incidents) == [("compute.slow", (3,), "resolved")]
    assert not any(item.name == "bouts" for item in state.incidents[0].cause.evidence)


def test_it_ends_when_the_day_has_too_few_bouts() -> None:
    state = played(BAD)
    done = simulate(replace(JOB, steps=500), rng=np.random.default_rng(9))
    topology = build(done.layouts)
    late = [window for window in windows(done, topology) if window.index >= 40]
    for window in late[:3]:
        state = advance(state, topology=topology, now_s=2 * DAY_S, window=window).state
    assert [incident.status for incident in state.incidents] == ["resolved"]


def test_where_all_ranks_have_bouts_none_recurs() -> None:
    symptom, view = seen()
    bouts: tuple[Bout, ...] = ()
    for window in range(0, 60, 6):
        for rank in range(8):
            bouts = extended(
                bouts, [replace(symptom, rank=rank)], attempt=0, window=window + 1000 * rank, now_s=0.0
            )
    assert len(bouts) == 80 and recurrences(view, bouts) == {}
    mine = [bout for bout in bouts if bout.rank == 3]
    assert set(recurrences(view, mine)) == {3}


def test_more_by_chance_needs_more_bouts() -> None:
    counts = [needed(expected, num_ranks=64) for expected in (0.0, 0.1, 1.0, 10.0, 100.0)]
    assert counts == sorted(counts) and counts[0] == 3 and counts[-1] > 130
    assert needed(1.0, num_ranks=10_000) > needed(1.0, num_ranks=8)


def test_a_symptom_that_is_no_vote_makes_no_bout() -> None:
    symptom, _ = seen()
    assert extended((), [replace(symptom, is_vote=False)], attempt=0, window=1, now_s=0.0) == ()


@pytest.mark.slow
@pytest.mark.long
def test_a_healthy_noisy_job_recurs_in_nothing() -> None:
    from tests.analytics.test_attempt import NOISY, course

    for seed in range(3):
        assert course(replace(NOISY, steps=1500), seed=300 + seed)[-1].state.incidents == ()


def test_bouts_of_some_windows_are_one_incident_that_stays_open() -> None:
    bad = (8, 9, 10, 16, 17, 18, 24, 25, 26, 32, 33, 34)
    *early, last = played(bad).incidents
    assert [one.status for one in early] == ["resolved", "resolved"]
    assert last.status == "open" and 235 <= last.onset_step <= 250
    lost = 0.5 * JOB.step_s * 60 * JOB.ranks / 3600  # more than is lost: not all of the step is computing
    assert 0.3 * lost < last.cost.gpu_hours_so_far < lost
    assert (
        0 < last.cost.share_of_step < 0.6 * early[0].cost.share_of_step
    )  # of all windows, not of the bad ones


@pytest.mark.parametrize("bad", [(8, 9), (8, 9, 10)])
def test_bouts_with_as_many_quiet_windows_as_end_an_incident_are_one_from_the_third_on(
    bad: tuple[int, ...],
) -> None:
    every = len(bad) + 2
    *early, last = played(tuple(w + more for more in range(0, 28, every) for w in bad)).incidents
    assert [one.status for one in early] == ["resolved", "resolved"]
    assert last.status == "open" and last.cause.suspects == (3,)


def test_quiet_windows_cost_nothing() -> None:
    (incident,) = played((10, 11, 13, 15, 17, 19, 21)).incidents
    lost = 0.5 * JOB.step_s * 70 * JOB.ranks / 3600
    assert incident.cost.gpu_hours_so_far < lost


def test_a_bout_longer_than_all_others_together_costs_the_whole() -> None:
    last = played((8, 14, *range(20, 40))).incidents[-1]
    assert last.status == "open" and last.severity == "critical"
    assert not any(item.name in ("bouts", "bad_share") for item in last.cause.evidence)


def test_a_bout_that_had_come_to_stay_and_ends_is_over() -> None:
    assert [one.status for one in played((8, 14, *range(20, 34))).incidents] == ["resolved"]


def test_what_comes_and_goes_explains_nothing_in_a_quiet_window() -> None:
    (incident,) = played(BAD).incidents
    assert blame((), (incident,), ()) == {}
    symptom, _ = seen()
    assert set(blame((), (incident,), (symptom,))) == {3}
