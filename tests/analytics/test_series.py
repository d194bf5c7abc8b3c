"""Step times of one series: what is found, when, and what is let be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from argus.analytics.series.findings import series_findings
from argus.analytics.series.judge import Slowdown, slowdowns
from argus.analytics.series.period import periods_of
from argus.analytics.series.shift import best_split
from argus.analytics.series.track import HISTORY, LEVEL_VALUES, MAX_PERIODS, STARTUP, Event, Track, follow
from argus.analytics.window import Floats
from argus.collectors.records.series import StepSeries


def noise(count: int, *, seed: int = 0, spread: float = 0.03, level: float = 2.0) -> Floats:
    return level * np.random.default_rng(seed).normal(1.0, spread, count)


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.kind for event in events]


def judged(values: Floats) -> tuple[Slowdown, ...]:
    track, events = follow(values.tolist())
    return slowdowns(values, events, track.periods)


@pytest.mark.slow
def test_a_change_of_five_percent_in_three_percent_noise_is_found_in_time_and_place() -> None:
    rng = np.random.default_rng(11)
    found, near, trials = 0, 0, 4000
    for _ in range(trials):
        values = rng.normal(1.0, 0.03, LEVEL_VALUES)
        values[-20:] *= 1.05
        split = best_split(values)
        found += split is not None
        near += split is not None and abs(split.place - (LEVEL_VALUES - 20)) <= 3
    assert found / trials >= 0.99
    assert near / found >= 0.90


@pytest.mark.parametrize("factor", [1.06, 1.15, 1.5, 3.0, 0.9])
def test_a_change_is_found_online_whichever_way(factor: float) -> None:
    values = noise(260, spread=0.01)
    values[200:] *= factor
    _, events = follow(values.tolist())
    (shift,) = [event for event in events if event.kind == "shift"]
    assert abs(shift.start - 200) <= 3
    assert shift.end <= 222
    assert shift.ratio == pytest.approx(factor, rel=0.03)


def test_noise_alone_holds_no_change() -> None:
    total = 0
    for seed, spread in enumerate((0.002, 0.01, 0.03, 0.05)):
        _, events = follow(noise(2500, seed=seed, spread=spread).tolist())
        total += len(events)
    assert total <= 1


def test_a_spike_is_told_and_is_no_incident() -> None:
    values = noise(200)
    values[120] *= 4
    _, events = follow(values.tolist())
    assert [(event.kind, event.start) for event in events] == [("spike", 120)]
    assert judged(values) == ()


def test_a_burst_of_spikes_is_one_incident() -> None:
    values = noise(300)
    values[[150, 153, 155, 160, 166, 171]] *= 3
    (burst,) = judged(values)
    assert (burst.is_burst, burst.start, burst.end) == (True, 150, 171)


def test_a_plateau_is_one_incident_with_both_its_ends() -> None:
    values = noise(600, spread=0.01)
    values[300:420] *= 1.15
    values[300] *= 8
    (rise,) = judged(values)
    assert abs(rise.start - 300) <= 1 and rise.end is not None and abs(rise.end - 419) <= 1
    assert rise.ratio == pytest.approx(1.15, abs=0.02)


def test_a_fall_is_no_incident() -> None:
    values = noise(400, spread=0.01)
    values[200:] *= 0.8
    _, events = follow(values.tolist())
    assert "shift" in kinds(events) and judged(values) == ()


def test_the_first_values_warm_up() -> None:
    values = noise(200, spread=0.01)
    values[:STARTUP] *= np.linspace(8, 2, STARTUP)
    _, events = follow(values.tolist())
    assert events == ()


def test_a_saw_tooth_is_learned_and_is_no_incident() -> None:
    tooth = np.tile(np.linspace(1.0, 1.12, 80), 12)
    values = tooth * noise(len(tooth), spread=0.004)
    track, events = follow(values.tolist())
    assert any(abs(period.lag - 80) <= 2 for period in track.periods)
    assert "periodic" in kinds(events) and judged(values) == ()


def test_slow_steps_at_a_fixed_distance_are_a_period_in_steps() -> None:
    values = noise(500, spread=0.01)
    values[::25] *= 1.8
    track, events = follow(values.tolist())
    period = track.periods[0]
    assert (period.lag, period.unit) == (25, "values")
    late = [event for event in events if event.kind == "spike" and event.start > 200]
    assert late == []


def test_slow_steps_at_a_fixed_time_are_a_period_in_seconds() -> None:
    """Every 60 s, while the length of a step wanders: the distance in steps does too."""
    rng = np.random.default_rng(4)
    values, at, due = [], 0.0, 60.0
    wander = 1 + 0.12 * np.sin(np.arange(400) / 23)
    for step in range(400):
        took = 2.0 * wander[step] * rng.normal(1, 0.005)
        if at >= due:
            took, due = took * 1.7, due + 60.0
        at += took
        values.append(took)
    found = periods_of(np.array(values))
    assert found
    assert found[0].unit == "s" and found[0].length == pytest.approx(60.0, rel=0.06)


def test_noise_and_trends_have_no_period() -> None:
    for seed in range(5):
        assert periods_of(noise(512, seed=seed)) == ()
    assert periods_of(np.linspace(1, 1.5, 512) * noise(512, spread=0.005)) == ()
    walk = np.exp(np.cumsum(np.random.default_rng(2).normal(0, 0.01, 512)))
    assert all(period.strength < 0.9 for period in periods_of(walk))


def test_a_slow_rise_is_drift_and_no_incident() -> None:
    values = noise(400, spread=0.005) * np.linspace(1, 1.25, 400)
    _, events = follow(values.tolist())
    assert "drift" in kinds(events) and judged(values) == ()


def test_a_level_that_goes_to_and_fro_oscillates() -> None:
    values = noise(420, spread=0.005)
    for start in range(60, 420, 120):
        values[start : start + 60] *= 1.2
    _, events = follow(values.tolist())
    assert "oscillation" in kinds(events)


def test_memory_does_not_grow() -> None:
    track, _ = follow(noise(3000).tolist())
    assert len(track.level) <= LEVEL_VALUES and len(track.history) <= HISTORY
    assert len(track.periods) <= MAX_PERIODS and track.count == 3000


def test_a_recorded_series_and_one_that_comes_in_pieces_give_the_same() -> None:
    values = noise(400, spread=0.01)
    values[250:] *= 1.2
    whole = follow(values.tolist())[1]
    track, events = Track(), list[Event]()
    for piece in np.array_split(values, 7):
        track, found = follow(piece.tolist(), track)
        events += found
    assert tuple(events) == whole


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_unit_does_not_matter(scale: float) -> None:
    values = noise(300, spread=0.01)
    values[200:] *= 1.2
    _, events = follow((values * scale).tolist())
    assert [(event.kind, event.start) for event in events] == [("shift", 200)]


def test_missing_and_impossible_values_keep_their_place() -> None:
    values = noise(300, spread=0.01)
    values[200:] *= 1.2
    values[[50, 51, 120]] = [np.nan, -1.0, 0.0]
    findings, incidents = series_findings(
        StepSeries(name="a", values_s=tuple(values), interval=5, first_step=7)
    )
    (shift,) = findings
    assert (shift.start_step, shift.measure("start_index")) == (7 + 5 * 200, 200.0)
    (incident,) = incidents
    assert (incident.onset_step, incident.status, incident.cause.suspects) == (1007, "open", ())


@pytest.mark.parametrize("values", [(), (1.0,), (float("nan"),) * 50, (1.0,) * 300, (0.0,) * 99])
def test_nothing_to_see_is_nothing_found(values: tuple[float, ...]) -> None:
    assert series_findings(StepSeries(name="x", values_s=values)) == ((), ())


SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "iteration-time"


def has_event(values: Floats) -> bool:
    """The data's own rule: median of the next 20 values ≥ 1.05 of the last 20, ten values of start-up."""
    if len(values) < 50:
        return False
    middle = np.median(np.lib.stride_tricks.sliding_window_view(values[10:], 20), axis=1)
    return bool((middle[20:] >= 1.05 * middle[:-20]).any())


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.exists(), reason="the public series are not here")
def test_the_public_series() -> None:
    raw = json.loads((SHARED / "megatron-golden-series.json").read_text())
    false, count, loud, naive = 0, 0, {}, 0
    for name, item in raw.items():
        values = np.array(item["values"])
        count += len(values)
        slow = judged(values)
        naive += bool((values[10:] > 2 * np.median(values[10:])).any())
        false += 0 if has_event(values) else sum(not one.is_burst for one in slow)
        if slow:
            loud[name] = slow
    assert false <= count / 10_000
    assert len(loud) < naive / 2
    (plateau,) = [
        one for n, s in loud.items() if "flex_tp2pp2emp16etp1cp1_gb_200" in n for one in s if not one.is_burst
    ]
    assert (plateau.start, plateau.end) == (4909, 5180)
    assert plateau.ratio == pytest.approx(1.15, abs=0.02)
    assert not any("gpt3_15b_8t_release/golden_values_lts_dgx_a100" in name for name in loud)
    (burst,) = [one for name, slow in loud.items() if "nemotron3_super_release_gb200" in name for one in slow]
    assert 1210 <= burst.start <= 1220 and burst.end is not None and burst.end <= 1240
