"""The step times of a running job: spikes, changes and periods, found when there and not when absent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from argus.analytics.detectors import l1_period, l1_shift, l1_spike
from argus.analytics.finding import Finding
from argus.analytics.series.event import Event
from argus.analytics.series.live import LiveSeries, hear
from argus.analytics.view import View
from argus.analytics.window import Floats, Window, assemble
from argus.collectors.host.window import cut_window
from argus.collectors.records.events import FLAG_CHECKPOINT
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build

STEPS = 10
DETECTORS = (l1_spike, l1_shift, l1_period)


@cache
def template() -> Window:
    done = simulate(Job(ranks=4, steps=STEPS), rng=np.random.default_rng(0))
    topology = build(done.layouts)
    window = assemble([cut_window(records, WindowPlan(), 0) for records in done.records], topology)
    return replace(window, flags=np.zeros(STEPS, np.uint32))


def views(step_s: Floats, *, marked: tuple[int, ...] = (), missing: tuple[int, ...] = ()) -> Iterator[View]:
    """One view per window of 10 steps; `step_s` (rank, step) or (step,) for all ranks alike."""
    whole = np.broadcast_to(step_s, (4, step_s.shape[-1]))
    flags = np.zeros(whole.shape[1], np.uint32)
    flags[list(marked)] = FLAG_CHECKPOINT
    series = LiveSeries()
    for index in range(whole.shape[1] // STEPS):
        here = slice(index * STEPS, (index + 1) * STEPS)
        window = replace(
            template(),
            index=index,
            first_step=here.start,
            steps=np.arange(here.start, here.stop),
            step_s=whole[:, here].copy(),
            flags=flags[here],
        )
        if index in missing:
            continue
        yield View(run="r", attempt=0, topology=window.topology, now_s=0.0, window=window, series=series)
        series = hear(series, window).series


def found(step_s: Floats, **how: tuple[int, ...]) -> list[Finding]:
    return [
        finding for view in views(step_s, **how) for module in DETECTORS for finding in module.detect(view)
    ]


def last_placed(findings: list[Finding]) -> Mapping[int, Finding]:
    """Shifts by the step where each was told first."""
    return {int(f.measure("placed_before") or f.start_step or 0): f for f in findings if f.kind == "shift"}


def noise(count: int, *, seed: int = 0, spread: float = 0.03) -> Floats:
    return np.random.default_rng(seed).normal(1.0, spread, count)


def test_a_shift_of_5_percent_in_3_percent_noise_is_found_close_to_its_step() -> None:
    near = seen = 0
    for seed in range(20):
        series = noise(180, seed=seed)
        series[133:] *= 1.05
        shifts = last_placed(found(series)).values()
        seen += any(abs((f.start_step or 0) - 133) <= 20 and (f.ratio or 0) > 1 for f in shifts)
        near += any(abs((f.start_step or 0) - 133) <= 3 for f in shifts)
    assert seen >= 19 and near >= 17


def test_a_faster_job_is_a_shift_with_a_ratio_below_one() -> None:
    series = noise(120, seed=1, spread=0.02)
    series[60:] *= 0.8
    assert [(f.kind, (f.ratio or 2) < 1, f.ranks) for f in found(series)] == [("shift", True, ())]


def test_healthy_noise_has_no_findings() -> None:
    assert [f for seed in range(5) for f in found(noise(300, seed=seed, spread=0.02))] == []


def test_a_slow_rise_is_drift() -> None:
    series = noise(300, spread=0.005) * np.linspace(1, 1.2, 300)
    assert {(f.kind, f.detector, f.role) for f in found(series)} == {("drift", "l1_shift", "notice")}


@pytest.mark.parametrize("spread", [0.02, 0.15])
def test_a_spike_is_a_notice_about_one_step(spread: float) -> None:
    series = 0.5 * np.exp(np.random.default_rng(4).normal(0, spread, 60))
    series[45] = 2.5
    (spike,) = found(series)
    assert (spike.kind, spike.role, spike.start_step, spike.ranks) == ("spike", "notice", 45, ())
    assert (spike.ratio or 0) > 3


def test_a_period_is_told_once_with_its_unit() -> None:
    series = noise(1000, spread=0.01)
    series[80::100] *= 3
    told = found(series)
    (period,) = [f for f in told if f.kind == "periodic"]
    (length,) = [e for e in period.evidence if e.name == "period"]
    assert (length.value, length.unit) == (100.0, "steps")
    assert [f.start_step for f in told if f.kind == "spike"] == [80, 180, 280, 380]


def test_marked_steps_are_left_out() -> None:
    series = noise(300, spread=0.01)
    marks = tuple(range(40, 300, 50))
    series[list(marks)] *= 5
    assert found(series, marked=marks) == []
    assert found(series) != []


def test_what_all_ranks_show_is_told_once_of_the_job() -> None:
    step_s = np.tile(noise(200, spread=0.005), (4, 1)) * np.random.default_rng(1).normal(1, 0.003, (4, 200))
    step_s[2, 120] *= 0.4  # fast alone: no step of the job is slow
    step_s[:, 150] *= 4
    assert [(f.kind, f.start_step, f.ranks) for f in found(step_s)] == [("spike", 150, ())]


def test_a_rank_that_leaves_the_others_is_named_beside_the_job() -> None:
    step_s = np.random.default_rng(1).normal(1, 0.003, (4, 200))
    step_s[3, 100:] *= 1.4
    assert {(f.kind, f.ranks) for f in found(step_s)} == {("shift", ()), ("shift", (3,))}


def test_a_rank_apart_that_the_job_does_not_show_is_named() -> None:
    step_s = np.random.default_rng(1).normal(1, 0.003, (4, 200))
    step_s[0] *= 2.0  # one rank is always the slowest
    step_s[3, 100:] *= 1.4
    (shift,) = found(step_s)
    assert (shift.kind, shift.ranks, shift.role) == ("shift", (3,), "notice")
    assert abs((shift.start_step or 0) - 100) <= 1


def test_missing_windows_and_steps_raise_nothing_and_keep_their_place() -> None:
    series = noise(400, spread=0.01)
    series[300:] *= 1.3
    series[20:26] = np.nan
    (shift,) = last_placed(found(series, missing=(12, 13, 20))).values()
    assert abs((shift.start_step or 0) - 300) <= 1


def test_a_rank_that_joins_late_and_cold_is_not_accused() -> None:
    step_s = np.random.default_rng(1).normal(1, 0.005, (4, 200))
    step_s[3, :100] = np.nan
    step_s[3, 100:110] *= np.linspace(4, 1, 10)
    assert [f for f in found(step_s) if f.ranks] == []


def test_ranks_that_come_and_go_keep_their_own_past() -> None:
    step_s = np.random.default_rng(1).normal(1, 0.005, (4, 200))
    step_s[0] *= 2.0
    step_s[3, 160:] *= 1.4
    series, told = LiveSeries(), list[tuple[Event, tuple[int, ...]]]()
    for view in views(step_s):
        window = view.window
        assert window is not None
        if 60 <= window.first_step < 90:  # a rank is gone for three windows
            rows = np.array([0, 2, 3])
            window = replace(window, ranks=window.ranks[rows], step_s=window.step_s[rows])
        heard = hear(series, window)
        series = heard.series
        told += heard.ranks
    assert [(event.kind, ranks) for event, ranks in told] == [("shift", (3,))]


def test_windows_heard_again_after_a_restart_bring_the_state_back() -> None:
    """The service replays the last windows of an attempt; what comes then is told as if it had never stopped."""
    series = noise(900, spread=0.01)
    series[80::100] *= 3
    series[850:] *= 1.2
    seen = list(views(series))
    whole, again = LiveSeries(), LiveSeries()
    last = [view.window for view in seen if view.window is not None]
    for window in last[:82]:
        whole = hear(whole, window).series
    for window in last[82 - 60 : 82]:
        again = hear(again, window).series
    for window in last[82:]:
        one, two = hear(whole, window), hear(again, window)
        assert [(e.kind, e.start) for e in one.job] == [(e.kind, e.start) for e in two.job]
        whole, again = one.series, two.series


@pytest.mark.filterwarnings("error")
def test_steps_that_took_no_time_by_broken_clocks_find_nothing_and_warn_of_nothing() -> None:
    step_s = np.ones(40)
    step_s[10:20] = 0.0
    assert not [finding for finding in found(step_s) if finding.role == "culprit"]
