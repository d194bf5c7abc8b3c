"""The laws of `analytics/detectors`, run on every detector found there with the scenario it is there for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module

import numpy as np
import pytest

from argus.analytics.detectors import detectors
from argus.analytics.finding import Finding
from argus.analytics.view import View
from argus.analytics.window import Floats
from argus.collectors.records.layout import Layout
from argus.evals.moments import Moment, moments
from argus.evals.scenarios import scenarios
from argus.evals.simulator.simulate import simulate
from argus.evals.truth import Scenario
from argus.evals.views import views
from argus.topology.layout import Topology, build
from tests.analytics.kernels.kit import renamed
from tests.damage import DAMAGE

MAX_LONE_WINDOWS = 5
"""Of the 20 windows of a healthy job so many may hold a hiccup worth a finding."""


def needs(name: str) -> str:
    """The scenario a detector is there for."""
    wanted = getattr(import_module(f"argus.analytics.detectors.{name}"), "NEEDS", None)
    assert wanted in scenarios(), (
        f'{name} must name the scenario it is there for: NEEDS = "slow_rank" (got {wanted!r})'
    )
    return str(wanted)


NEEDED = tuple(sorted({needs(name) for name in detectors()}))
HEALTHY = ((4, 0), (4, 1), (8, 2), (32, 0), (64, 1))
"""Ranks and seeds of the healthy jobs."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A scenario's job as it arrives, what detectors are shown of it, and the detectors that are there for it."""

    scenario: Scenario
    layouts: tuple[Layout, ...]
    topology: Topology
    moments: tuple[Moment, ...]
    views: tuple[View, ...]
    detectors: tuple[str, ...]


def shown(name: str, *, seed: int = 0, ranks: int = 8) -> Shown:
    """Played anew."""
    scenario = scenarios()[name](seed=seed, ranks=ranks, severity=1.5)
    done = simulate(scenario.job, scenario.faults, rng=np.random.default_rng(seed))
    topology, arrived = build(done.layouts), tuple(moments(done))
    return Shown(
        scenario=scenario,
        layouts=done.layouts,
        topology=topology,
        moments=arrived,
        views=tuple(views(arrived, topology)),
        detectors=tuple(one for one in detectors() if needs(one) == name),
    )


@pytest.fixture(scope="module", params=NEEDED)
def needed(request: pytest.FixtureRequest) -> Shown:
    """Each scenario that a detector needs; the tests of one come one after the other."""
    return shown(request.param)


def findings(name: str, seen: tuple[View, ...]) -> list[Finding]:
    return [finding for view in seen for finding in detectors()[name](view)]


def arrays(value: object) -> Iterator[np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    """Every array inside frozen values and tuples of them."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from arrays(item)
    elif is_dataclass(value):
        for item in fields(value):
            yield from arrays(getattr(value, item.name))


@pytest.mark.slow
def test_a_detector_fires_on_the_scenario_that_needs_it(needed: Shown) -> None:
    for name in needed.detectors:
        suspects = [f for f in findings(name, needed.views) if f.role in ("culprit", "link", "notice")]
        assert suspects, name
        if needed.scenario.truth.ranks:
            culprits = {rank for f in suspects if f.role == "culprit" for rank in f.ranks}
            assert culprits <= set(needed.scenario.truth.ranks), name


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "seed"), HEALTHY)
def test_a_detector_blames_nobody_for_long_in_a_healthy_job(ranks: int, seed: int) -> None:
    """A lone hiccup that delays everybody is really there once; the same suspect again would be a false alarm."""
    seen = shown("healthy", seed=seed, ranks=ranks).views
    for name in detectors():
        named = {(f.ranks, f.group, f.window) for f in findings(name, seen) if f.role in ("culprit", "link")}
        again = [key for key in named for gap in (1, 2) if (key[0], key[1], key[2] + gap) in named]
        assert not again, name
        assert len({window for _, _, window in named}) <= MAX_LONE_WINDOWS, name


@pytest.mark.slow
def test_a_detector_is_pure(needed: Shown) -> None:
    seen = needed.views[-12:]
    before = [array.copy() for view in seen for array in arrays(view)]
    for name in needed.detectors:
        assert findings(name, seen) == findings(name, seen), name
    after = [array for view in seen for array in arrays(view)]
    assert all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in zip(before, after, strict=True)
    )


RENAMED = tuple(int(rank) for rank in np.random.default_rng(3).permutation(8))
"""Rank r becomes RENAMED[r]."""

SWAPPED = (1, 0, 3, 2, 5, 4, 7, 6)
"""Of pipelines: the order of ranks is that of the stages, so only ranks of one stage change names."""


@pytest.mark.slow
@pytest.mark.parametrize("scenario", NEEDED)
def test_renaming_ranks_renames_the_findings(scenario: str) -> None:
    plain = shown(scenario, seed=1)
    names = SWAPPED if plain.scenario.job.pp > 1 else RENAMED
    topology = build(_renamed_layout(layout, names) for layout in plain.layouts)
    other = tuple(views((_renamed(moment, names) for moment in plain.moments), topology))
    for name in plain.detectors:
        told = _facts(findings(name, plain.views), names)
        assert _facts(findings(name, other), range(8)) == told, name


def _facts(found: list[Finding], new_name: Sequence[int]) -> list[tuple[object, ...]]:
    """Findings without names of groups and nodes, which are numbered by rank, and without rounding."""
    rows = [
        (f.window, f.level, f.kind, f.role, tuple(sorted(new_name[rank] for rank in f.ranks)), f.phase or "", f.start_step,
         None if f.ratio is None else f"{f.ratio:.4g}")
        for f in found
    ]  # fmt: skip
    return sorted(rows, key=repr)


def _renamed_layout(layout: Layout, names: Sequence[int]) -> Layout:
    groups = tuple(
        replace(group, ranks=tuple(sorted(names[rank] for rank in group.ranks))) for group in layout.groups
    )
    return replace(layout, rank=names[layout.rank], groups=groups)


def _renamed(moment: Moment, names: Sequence[int]) -> Moment:
    return replace(
        moment,
        parts=tuple(
            replace(part, rank=names[part.rank], kernels=renamed(part.kernels, names))
            for part in moment.parts
        ),
        beats=tuple(replace(beat, rank=names[beat.rank]) for beat in moment.beats),
    )


@pytest.mark.slow
@pytest.mark.parametrize("damage", list(DAMAGE))
def test_missing_records_never_raise(needed: Shown, damage: str) -> None:
    damaged = (replace(moment, parts=DAMAGE[damage](moment.parts)) for moment in needed.moments)
    seen = tuple(views(damaged, needed.topology))
    for name in needed.detectors:
        found = findings(name, seen)
        assert {rank for finding in found for rank in finding.ranks} <= set(needed.topology.ranks), name


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.05, 0.5, 1.0])
def test_nan_never_raises(needed: Shown, share: float) -> None:
    rng = np.random.default_rng(4)
    for view in needed.views:
        holed = _with_nan(view, rng, share=share)
        for name in needed.detectors:
            found = detectors()[name](holed)
            assert all(np.isfinite(f.ratio) for f in found if f.ratio is not None), name


def _with_nan(view: View, rng: np.random.Generator, *, share: float) -> View:
    if view.window is None:
        return view

    def holes(values: Floats) -> Floats:
        return np.where(rng.random(values.shape) < share, np.nan, values)

    whole = view.window
    window = replace(
        whole,
        step_s=holes(whole.step_s),
        step_cpu_s=holes(whole.step_cpu_s),
        dur_s=holes(whole.dur_s),
        wait_s=holes(whole.wait_s),
        max_s=holes(whole.max_s),
        cpu_s=holes(whole.cpu_s),
    )
    return replace(view, window=window)
