"""What a window is reduced to: own time, gaps, pauses, transfers, and what is missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.digest import digest_of, own_series
from argus.analytics.window import Window, assemble
from argus.collectors.host.window import cut_window
from argus.collectors.records.events import (
    COLLECTIVE,
    EVENT,
    FLAG_CHECKPOINT,
    PHASE,
    STEP,
    RankRecords,
)
from argus.collectors.records.layout import GroupInfo, Layout
from argus.collectors.records.plan import WindowPlan
from argus.topology.layout import build

MS = 1_000_000
NAMES = ("", "forward", "all_reduce", "pg", "gc")
WORLD, STEPS = 3, 4


def records(rank: int, *, blocked_ms: int = 0, gc_ms: int = 0, flags: int = 0) -> RankRecords:
    """Steps of 100 ms: forward takes 60 (10 of them waiting), 40 lie outside any phase."""
    group = GroupInfo(name="pg", desc="mesh_dp", ranks=tuple(range(WORLD)))
    steps, phases = np.zeros(STEPS, STEP), np.zeros(STEPS, PHASE)
    for rows in (steps, phases):
        rows["step"] = np.arange(STEPS)
        rows["start_ns"] = np.arange(STEPS) * 100 * MS
    steps["end_ns"], steps["cpu_ns"] = steps["start_ns"] + 100 * MS, 55 * MS
    steps["flags"][0] = flags
    phases["name"], phases["dur_ns"], phases["wait_ns"], phases["cpu_ns"] = 1, 60 * MS, 10 * MS, 50 * MS
    calls = np.zeros(STEPS if blocked_ms else 0, COLLECTIVE)
    calls["step"] = calls["seq"] = np.arange(len(calls))
    calls["op"], calls["group"], calls["blocked_ns"] = 2, 3, blocked_ms * MS
    calls["entry_ns"] = calls["step"] * 100 * MS + 65 * MS
    calls["end_ns"] = calls["entry_ns"] + blocked_ms * MS
    events = np.zeros(1 if gc_ms else 0, EVENT)
    events["step"], events["kind"], events["dur_ns"] = 2, 4, gc_ms * MS
    return RankRecords(
        layout=Layout(run="r", attempt=0, rank=rank, world_size=WORLD, host="h", groups=(group,)),
        names=NAMES,
        steps=steps,
        phases=phases,
        collectives=calls,
        events=events,
    )


def window(*each: RankRecords) -> Window:
    topology = build(one.layout for one in each)
    return assemble([cut_window(one, WindowPlan(first=STEPS), 0) for one in each], topology)


def test_own_time_is_phases_without_waiting_and_the_gap_between_them() -> None:
    digest = digest_of(window(*(records(rank) for rank in range(WORLD))))
    assert digest.phases == ("forward", "other")
    assert digest.self_s == pytest.approx(np.array([[0.05] * WORLD, [0.04] * WORLD]))
    assert digest.cpu_s == pytest.approx(np.array([[0.05] * WORLD, [0.005] * WORLD]))
    assert digest.own_s == pytest.approx([0.09] * WORLD) and digest.own_dev == pytest.approx([0.0] * WORLD)
    assert digest.job_step_s == pytest.approx([0.1] * STEPS)


def test_cpu_time_that_a_reader_could_not_know_is_none() -> None:
    each = [records(rank) for rank in range(WORLD)]
    for one in each:
        one.steps["cpu_ns"] = one.phases["cpu_ns"] = -1
    assert digest_of(window(*each)).cpu_s == pytest.approx(np.zeros((2, WORLD)), abs=0.0)
    for one in each:
        one.steps["cpu_ns"], one.phases["cpu_ns"] = 0, -2  # several rows of a phase add up
    assert digest_of(window(*each)).cpu_s == pytest.approx(np.zeros((2, WORLD)), abs=0.0)


def test_blocking_outside_every_phase_is_not_own_time() -> None:
    digest = digest_of(window(*(records(rank, blocked_ms=30) for rank in range(WORLD))))
    assert digest.own_s == pytest.approx([0.06] * WORLD)
    assert digest.transfer_s == pytest.approx([0.03]) and digest.transfer_sum_s == pytest.approx([0.03])


def test_pauses_are_per_usable_step_and_flagged_steps_are_left_out() -> None:
    digest = digest_of(
        window(*(records(rank, gc_ms=30 * rank, flags=FLAG_CHECKPOINT) for rank in range(WORLD)))
    )
    assert digest.num_usable == 3 and np.isnan(digest.job_step_s[0])
    assert digest.gc_s == pytest.approx([0.0, 0.01, 0.02])


def test_a_missing_rank_is_nan_and_nobodys_peer() -> None:
    whole = window(*(records(rank) for rank in range(WORLD)))
    torn = replace(whole, step_s=whole.step_s.copy(), dur_s=whole.dur_s.copy())
    torn.step_s[1], torn.dur_s[:, 1] = np.nan, np.nan
    digest = digest_of(torn)
    assert np.isnan(digest.own_s[1]) and np.isnan(digest.own_dev[1]) and np.isnan(digest.late_s[1])
    assert digest.own_peers_s[[0, 2]] == pytest.approx([0.09, 0.09])


def test_the_step_series_of_a_rank_adds_up_to_its_own_time() -> None:
    seen = window(*(records(rank) for rank in range(WORLD)))
    assert own_series(seen)[1] == pytest.approx([0.09] * STEPS)
