"""A bad step now and then is nobody's; one in window after window of one host, and hardly elsewhere, is the host's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from argus.analytics.digest import digest_of
from argus.analytics.hiccup import LAST_WINDOWS, MIN_WINDOWS, lasts, one_step, recurs, visited_with
from argus.analytics.lifecycle import NAMED_BETTER
from argus.analytics.view import Digest
from argus.analytics.window import assemble
from argus.collectors.records.plan import WindowPlan
from argus.evals.play import play
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import Topology, build

JOB = Job(ranks=16, ranks_per_host=4, steps=160, step_s=1.5, gpu=False)


@cache
def seen(ranks_per_host: int) -> tuple[Digest, Topology]:
    """A window of a healthy job on hosts of so many ranks."""
    done = simulate(
        replace(JOB, steps=10, warmup_steps=0, ranks_per_host=ranks_per_host), rng=np.random.default_rng(0)
    )
    topology = build(done.layouts)
    (closed,) = done.windows(WindowPlan())
    return digest_of(assemble(closed.parts, topology)), topology


def visited(hiccups: Sequence[tuple[int, ...]], rank: int, *, ranks_per_host: int = 4) -> tuple[int, ...]:
    """Ranks of the host of `rank` that are visited as it is."""
    digest, topology = seen(ranks_per_host)
    digests = [replace(digest, index=n, hiccups=ranks) for n, ranks in enumerate(hiccups)]
    return visited_with(digests, topology, rank)


def named(hiccups: Sequence[tuple[int, ...]], *, ranks_per_host: int = 4) -> list[int]:
    """Ranks that recur after windows with these hiccups."""
    digest, topology = seen(ranks_per_host)
    digests = [replace(digest, index=n, hiccups=ranks) for n, ranks in enumerate(hiccups)]
    return [int(rank) for rank in digest.ranks[recurs(digests, topology, digest.ranks)]]


def test_a_healthy_window_has_no_hiccup_and_a_stalled_rank_has_one() -> None:
    assert seen(4)[0].hiccups == ()
    stall = Fault(kind="starved", ranks=(5,), severity=3.0, start_step=4, end_step=5)
    steady = Fault(kind="starved", ranks=(5,), severity=3.0)
    for fault, expected in ((stall, (5,)), (steady, ())):
        done = simulate(replace(JOB, steps=10, warmup_steps=0), [fault], rng=np.random.default_rng(0))
        (closed,) = done.windows(WindowPlan())
        assert digest_of(assemble(closed.parts, build(done.layouts))).hiccups == expected


def test_a_pause_the_runtime_tells_of_is_no_hiccup() -> None:
    """Collections of one rank after another are counted by their own rule."""
    pause = Fault(kind="gc", ranks=(5,), severity=3.0, start_step=4, end_step=5)
    done = simulate(replace(JOB, steps=10, warmup_steps=0), [pause], rng=np.random.default_rng(0))
    (closed,) = done.windows(WindowPlan())
    digest = digest_of(assemble(closed.parts, build(done.layouts)))
    assert [pause.rank for pause in digest.pauses] == [5] and digest.hiccups == ()


def test_a_lost_step_hides_no_hiccup() -> None:
    times = np.ones((8, 10))
    times[5, 4] = 1.6
    whole, holed = times, times.copy()
    holed[5, [1, 7]] = np.nan
    alike = np.zeros(8, np.int64)
    assert lasts(whole, alike).tolist() == lasts(holed, alike).tolist() == [rank != 5 for rank in range(8)]
    steady = np.where(np.arange(8)[:, None] == 5, 1.1, 1.0) * np.ones((8, 10))
    steady[5, [1, 7]] = np.nan
    assert lasts(steady, alike).all()


def test_the_worst_step_counts_by_what_it_exceeds_the_next_worst() -> None:
    alike, times = np.zeros(8, np.int64), np.ones((8, 10))
    times[2] = 1.2
    times[5, 4] = 1.6
    times[6, [1, 4]] = 1.6
    assert one_step(times, alike) == pytest.approx([0.06 if rank == 5 else 0.0 for rank in range(8)])
    assert not one_step(times[:, :1], alike).any()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("severity", "accused"), [(1.02, []), (1.12, [5])])
def test_one_bad_step_a_window_lifts_nobody_over_the_limit_who_is_hardly_slow(
    severity: float, accused: list[int], seed: int
) -> None:
    """Rank 5 is a little slow for two windows; in each of them one step goes badly, too."""
    job = replace(JOB, gpu=True, steps=110)
    slow = Fault(kind="compute", ranks=(5,), severity=severity, start_step=60, end_step=80)
    stalls = [
        Fault(kind="compute", ranks=(5,), severity=1.2, start_step=step, end_step=step + 1)
        for step in (66, 74)
    ]
    played = play(simulate(job, [slow, *stalls], rng=np.random.default_rng(seed)))
    assert [rank for one in played.incidents for rank in one.cause.suspects] == accused


def test_one_host_in_window_after_window_recurs() -> None:
    assert named([(5, 6)] * MIN_WINDOWS) == [5, 6]
    assert named([(5,), (6,), (5, 6), (5,), (6, 7), (5, 6)]) == [5, 6]  # not each of its ranks each time
    assert named([(3,)] * MIN_WINDOWS, ranks_per_host=16) == [3]  # of a lone host it is the rank


def test_ranks_of_a_host_are_visited_together_those_of_a_lone_one_each_by_itself() -> None:
    assert visited([(4, 5, 6, 7)] * MIN_WINDOWS, 6) == (4, 5, 6, 7)
    assert visited([(4, 5, 6, 7), (4, 5, 6), (4, 5, 6)], 6) == (4, 5, 6)  # rank 7 once
    assert visited([(4, 5, 6, 7)] * MIN_WINDOWS, 3) == ()
    assert visited([(4, 5)] * MIN_WINDOWS, 4, ranks_per_host=16) == ()
    assert visited([(4,), (5,), (6,), (7,)], 4) == ()  # each of them once


@pytest.mark.parametrize(
    "hiccups",
    [
        [(5, 6)] * (MIN_WINDOWS - 1),
        [(5,), (0,), (5,), (9,), (5,)],  # others have them, too
        [(1,), (5,), (9,), (13,)] * 2,  # another host each time
        [(5,)] * MIN_WINDOWS + [()],  # not in the newest
        [(5,)] * 2 + [()] * LAST_WINDOWS + [(5,)],  # long ago
    ],
    ids=["twice", "noise", "by turns", "over", "rare"],
)
def test_what_may_be_chance_does_not(hiccups: Sequence[tuple[int, ...]]) -> None:
    assert named(hiccups) == []


@pytest.mark.slow
@pytest.mark.parametrize("severity", [2.0, 4.0])
def test_a_daemon_of_one_host_is_one_incident_that_holds_all_of_its_ranks(severity: float) -> None:
    visits = Fault(kind="starved", ranks=(4, 5, 6, 7), severity=severity, every=10, start_step=60)
    played = play(simulate(JOB, [visits], rng=np.random.default_rng(1)))
    left = [one.cause for one in played.incidents if one.ended != NAMED_BETTER]
    assert {(one.fault_class, one.scope, one.suspects) for one in left} == {
        ("host.cpu_starved", "host:h-0001", (4, 5, 6, 7))
    }


@pytest.mark.slow
def test_all_ranks_of_a_host_are_accused_though_the_others_wait_for_the_last_alone() -> None:
    """Before a few ranks of eight were, each by itself, and the second half of the host never."""
    job = replace(JOB, ranks=32, ranks_per_host=8)
    host = tuple(range(8, 16))
    visits = Fault(kind="starved", ranks=host, severity=2.0, every=10, start_step=60)
    (incident,) = play(simulate(job, [visits], rng=np.random.default_rng(3))).incidents
    assert (incident.cause.scope, incident.cause.suspects) == ("host:h-0001", host)
    assert incident.opened_window <= 9


@pytest.mark.slow
def test_stalls_of_another_host_each_time_accuse_none() -> None:
    rng = np.random.default_rng(2)
    visits = [
        Fault(kind="starved", ranks=(rank,), severity=2.0, start_step=step, end_step=step + 1)
        for step, rank in zip(range(40, 160, 10), rng.integers(0, 16, 12).tolist(), strict=True)
    ]
    assert not [one for one in play(simulate(JOB, visits, rng=rng)).incidents if one.cause.suspects]
