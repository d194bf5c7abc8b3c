"""Step times of one series: what is found, when, and what is let be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from argus.analytics.series import track as tracking
from argus.analytics.series.event import Event
from argus.analytics.series.follow import Followed, follow, read_whole, settled
from argus.analytics.series.judge import Slowdown, lone_slowdowns
from argus.analytics.series.pulse import KEPT
from argus.analytics.series.ranks import split_by_ranks
from argus.analytics.series.recorded import series_findings
from argus.analytics.series.rhythm import HISTORY, MAX_PERIODS, MAX_QUIET
from argus.analytics.series.shift import NEAR, gate
from argus.analytics.series.track import KEEP, STARTUP, Tracks, finish, observe
from argus.analytics.window import Floats
from argus.collectors.records.series import StepSeries
from argus.evals.healthy_series import count_false
from argus.evals.step_noise import FAMILIES


def noise(count: int, *, seed: int = 0, spread: float = 0.03, level: float = 2.0) -> Floats:
    return level * np.random.default_rng(seed).normal(1.0, spread, count)


def many(values: Floats, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Event, ...]]:
    """Events of each series, as if each were alone: many at once is only faster."""
    alone = gate(1)
    monkeypatch.setattr(tracking, "gate", lambda num_series: alone)
    monkeypatch.setattr(tracking, "MAX_LOOKS", len(values))
    tracks, events = observe(Tracks.start(len(values)), values)
    _, last = finish(tracks)
    found = settled([*events, *last])
    return [tuple(event for event in found if event.series == row) for row in range(len(values))]


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.kind for event in events]


def judged(values: Floats) -> tuple[Slowdown, ...]:
    state, events = read_whole(values)
    return lone_slowdowns(values, events, state.rhythm.periods)


def placed_by_chance(rng: np.random.Generator, *, before: int, after: int, trials: int) -> float:
    """How often a change of 5 % in 3 % noise can be placed within NEAR at all: the best guess of one who knows both
    levels and the noise, and takes the place with most of the posterior around it."""
    step = np.log(1.05) / 0.03
    values = rng.normal(0.0, 1.0, (trials, before + after))
    values[:, before:] += step
    likelihood = np.cumsum((step * values - step**2 / 2)[:, ::-1], axis=1)[:, ::-1]
    posterior = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    around = np.lib.stride_tricks.sliding_window_view(posterior, 2 * NEAR + 1, axis=1).sum(axis=2)
    return float((np.abs(around.argmax(axis=1) + NEAR - before) <= NEAR).mean())


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.05, 1 / 1.05])
def test_a_change_of_five_percent_in_three_percent_noise_is_found_in_time_and_place(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ALL trials, whose last 20 values lie behind the change; the best possible is printed beside it."""
    trials, before, after = 1000, STARTUP + 120, 20
    rng = np.random.default_rng(11)
    values = rng.normal(1.0, 0.03, (trials, before + after))
    values[:, before:] *= factor
    shifts = [[e.start for e in events if e.kind == "shift"] for events in many(values, monkeypatch)]
    found = sum(any(abs(start - before) <= after for start in starts) for starts in shifts)
    near = sum(any(abs(start - before) <= NEAR for start in starts) for starts in shifts)
    bound = placed_by_chance(rng, before=100, after=after, trials=trials)
    print(f"found {found / trials:.4f}, within {NEAR}: {near / trials:.4f}, at best {bound:.4f}")
    assert found / trials >= 0.99
    assert near / trials >= 0.92
    assert near / trials <= bound


@pytest.mark.parametrize("factor", [1.06, 1.15, 1.5, 3.0, 0.9])
def test_a_change_is_found_online_whichever_way(factor: float) -> None:
    values = noise(260, spread=0.01)
    values[200:] *= factor
    _, events = read_whole(values)
    (shift,) = [event for event in events if event.kind == "shift"]
    assert abs(shift.start - 200) <= 3
    assert shift.end <= 222
    assert shift.ratio == pytest.approx(factor, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("spread", "most"), [(0.002, 0.0), (0.01, 0.0), (0.03, 2e-4), (0.06, 5e-4)])
def test_noise_alone_seldom_looks_like_a_change(
    spread: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate is the chance of one look; a value is looked at for eight ages and twenty places."""
    values = np.random.default_rng(3).normal(1.0, spread, (40, 1000))
    num = sum(event.kind == "shift" for events in many(values, monkeypatch) for event in events)
    assert num <= most * values.size


@pytest.mark.slow
@pytest.mark.parametrize("family", list(FAMILIES))
def test_healthy_noise_of_any_kind_is_no_incident(family: str) -> None:
    """Eight series of each; what strong wander (AR(1) of 0.9 at 3 %) makes of more is measured by the benchmark."""
    series = (FAMILIES[family](np.random.default_rng(seed), 1000) for seed in range(8))
    assert count_false(series).false == 0


def test_a_spike_is_told_and_is_no_incident() -> None:
    values = noise(200)
    values[120] *= 4
    _, events = read_whole(values)
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
    _, events = read_whole(values)
    assert "shift" in kinds(events) and judged(values) == ()


def test_the_first_values_warm_up() -> None:
    values = noise(200, spread=0.01)
    values[:STARTUP] *= np.linspace(8, 2, STARTUP)
    _, events = read_whole(values)
    assert events == ()


def test_a_saw_tooth_is_learned_and_is_no_incident() -> None:
    tooth = np.tile(np.linspace(1.0, 1.12, 80), 12)
    values = tooth * noise(len(tooth), spread=0.004)
    state, events = read_whole(values)
    assert any(abs(period.lag - 80) <= 2 for period in state.rhythm.periods)
    assert "periodic" in kinds(events) and judged(values) == ()


def test_a_slow_rise_is_drift_and_no_incident() -> None:
    values = noise(400, spread=0.005) * np.linspace(1, 1.25, 400)
    _, events = read_whole(values)
    assert "drift" in kinds(events) and judged(values) == ()


def test_a_level_that_goes_to_and_fro_oscillates() -> None:
    values = noise(420, spread=0.005)
    for start in range(60, 420, 120):
        values[start : start + 60] *= 1.2
    _, events = read_whole(values)
    assert "oscillation" in kinds(events)


def test_memory_does_not_grow() -> None:
    values = noise(3000)
    values[::37] *= 4
    state, _ = follow(Followed(), values)
    assert state.tracks.logs.shape == (1, KEEP) and state.tracks.count == 3000
    assert len(state.rhythm.history) == HISTORY and len(state.rhythm.periods) <= MAX_PERIODS
    assert len(state.rhythm.pulses) <= KEPT and len(state.rhythm.quiet) <= MAX_QUIET
    assert len(state.tracks.changes) <= 1 and len(state.tracks.swings) <= 1


@pytest.mark.parametrize("pieces", [7, 133])
def test_a_recorded_series_and_one_that_comes_in_pieces_give_the_same(pieces: int) -> None:
    values = noise(400, spread=0.01)
    values[250:] *= 1.2
    values[[90, 350]] *= 4
    whole = follow(Followed(), values)[1]
    assert {"spike", "shift"} <= set(kinds(whole))
    state, events = Followed(), list[Event]()
    for piece in np.array_split(values, pieces):
        state, found = follow(state, piece)
        events += found
    assert tuple(events) == whole


def test_a_series_among_others_is_found_as_it_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.stack([noise(300, seed=seed, spread=0.01) for seed in range(6)])
    values[3, 150:] *= 1.3
    values[4, 80] *= 5
    together = many(values, monkeypatch)
    for row, events in enumerate(together):
        (alone,) = many(values[row : row + 1], monkeypatch)
        assert [(e.kind, e.start, e.got) for e in events] == [(e.kind, e.start, e.got) for e in alone]
    assert [len(events) for events in together] == [0, 0, 0, 1, 1, 0]


def test_a_place_once_told_is_told_better_when_more_is_known() -> None:
    again = 0
    for seed in range(20):
        values = noise(300, seed=seed)
        values[200:] *= 1.06
        _, events = follow(Followed(), values)
        first = {event.start for event in events if event.kind == "shift" and event.instead_of is None}
        moved = [event for event in events if event.instead_of is not None]
        assert all(event.instead_of in first for event in moved)
        again += len(moved)
    assert again > 0


@pytest.mark.parametrize("after", [25, 60])
def test_a_change_beside_many_long_steps_is_found(after: int) -> None:
    """The long steps before it are no reason to believe the level noisy, nor is the change itself once it is old."""
    values = noise(45 + STARTUP + after, spread=0.01)
    values[[14, 18, 23, 27, 29, 38]] *= 2
    values[-after:] *= 1.4
    (rise,) = judged(values)
    assert not rise.is_burst and rise.end is None
    assert abs(rise.start - (len(values) - after)) <= NEAR and rise.ratio == pytest.approx(1.4, abs=0.04)


@pytest.mark.parametrize("small", [0.95, 1.05])
def test_a_large_change_soon_after_a_small_one_is_found(small: float) -> None:
    """Also where the first is only told when the second has begun."""
    values = noise(160, spread=0.008)
    values[60:] *= small
    values[66:] *= 1.5 / small
    (rise,) = judged(values)
    assert abs(rise.start - 66) <= NEAR and rise.ratio == pytest.approx(1.5, abs=0.1)


def test_long_steps_of_a_rise_are_no_burst_before_it() -> None:
    values = noise(200, spread=0.01)
    values[100:] *= 2
    values[88] *= 2
    (rise,) = judged(values)
    assert (rise.is_burst, rise.start) == (False, 100)


@pytest.mark.parametrize("repeats", [0.0, 0.6, 0.9])
def test_ranks_seldom_call_noise_a_change(repeats: float) -> None:
    """Noise with a sixth of its values twice as long, and one that repeats itself: at most the promised chance a look."""
    rng = np.random.default_rng(5)
    found = 0
    for _ in range(3000):
        logs = rng.normal(0.0, 0.02, 150)
        for place in range(1, len(logs)):
            logs[place] += repeats * logs[place - 1]
        logs[rng.random(150) < (0.0 if repeats else 0.15)] += np.log(2)
        found += split_by_ranks(logs, since=0, min_scales=gate(1)) is not None
    assert found <= 5  # a look for every 8 values, each of which may be wrong 6.3e-5 times: 1.5


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_unit_does_not_matter(scale: float) -> None:
    values = noise(300, spread=0.01)
    values[200:] *= 1.2
    _, events = read_whole(values * scale)
    assert [(event.kind, event.start) for event in events] == [("shift", 200)]


def test_nor_does_it_where_noise_wanders() -> None:
    """What is heard of a level before there is one is how far the values lie from 1 in their unit."""
    wanders = np.cumsum(np.random.default_rng(1).normal(0.0, 0.003, (12, 300)), axis=1)
    for logs in wanders:
        (_, in_s), (_, in_ms) = read_whole(np.exp(logs)), read_whole(1e3 * np.exp(logs))
        assert [(e.kind, e.start, e.end) for e in in_s] == [(e.kind, e.start, e.end) for e in in_ms]


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
