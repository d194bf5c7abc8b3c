"""Binned densities and their valleys against scipy's exact sum."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import gaussian_kde

from argus.collectors.host.density import REACH, densities, valleys

Floats = NDArray[np.float64]


def groups() -> dict[str, Floats]:
    rng = np.random.default_rng(11)
    return {
        "one mode": rng.normal(10, 0.03, 700),
        "two modes": np.concatenate([rng.normal(10, 0.03, 300), rng.normal(10.4, 0.05, 200)]),
        "skewed": np.log(10 + rng.gamma(2, 2, 900)),
        "uniform": rng.uniform(9, 10, 400),
        "identical": np.full(30, 7.0),
    }


def exact(samples: Floats, grid: Floats, *, h: float) -> Floats:
    """scipy's estimate; the plain sum where scipy refuses a spread of zero."""
    spread = samples.std(ddof=1)
    if spread > 0:
        return np.asarray(gaussian_kde(samples, bw_method=h / spread)(grid))
    away = (grid[:, None] - samples[None, :]) / h
    return np.asarray(np.exp(-0.5 * away**2).sum(axis=1) / (len(samples) * h * np.sqrt(2 * np.pi)))


@pytest.mark.parametrize("factor", [0.3, 1.0])
def test_density_is_within_a_thousandth_of_the_peak_of_scipy(factor: float) -> None:
    parts = [np.sort(part) for part in groups().values()]
    h = np.array([factor * 1.06 * max(part.std(), 1e-3) * len(part) ** -0.2 for part in parts])
    logs, bounds = np.concatenate(parts), np.cumsum([0] + [len(part) for part in parts])
    grid = densities(logs, bounds, bandwidth=h)
    found = valleys(grid, logs, bounds=bounds)
    for i, part in enumerate(parts):
        at = grid.position[bounds[i] : bounds[i + 1]]
        if np.diff(at).max(initial=0.0) >= 2 * REACH:
            continue
        cells = np.arange(grid.cells[i], grid.cells[i + 1])
        points = part[0] + (cells - at[0]) * grid.step[i]
        want = exact(part, points, h=float(h[i]))
        assert np.abs(grid.value[cells] / grid.step[i] - want).max() <= 1e-3 * want.max()
        assert grid.step[i] <= h[i] / 4
        deep = np.flatnonzero((want[1:-1] < want[:-2]) & (want[1:-1] < want[2:])) + 1
        deep = deep[want[deep] > 1e-6 * want.max()]
        mine = found.log[found.group == i]
        for valley in points[deep]:
            assert np.abs(mine - valley).min() <= grid.step[i] * 1.001


def test_an_empty_stretch_yields_one_cut_in_its_middle() -> None:
    logs = np.concatenate([np.zeros(20), np.full(20, 5.0)])
    bounds = np.array([0, 40])
    found = valleys(densities(logs, bounds, bandwidth=np.array([0.01])), logs, bounds=bounds)
    assert found.sample.tolist() == [20]
    assert found.log[0] == pytest.approx(2.5, abs=0.01)
    assert (found.first_mode[0], found.mode[0]) == pytest.approx((0.0, 5.0), abs=0.01)


def test_groups_do_not_feel_each_other() -> None:
    parts = [np.sort(part) for part in groups().values()]
    bounds = np.cumsum([0] + [len(part) for part in parts])
    h = np.full(len(parts), 0.02)
    together = densities(np.concatenate(parts), bounds, bandwidth=h)
    for i, part in enumerate(parts):
        alone = densities(part, np.array([0, len(part)]), bandwidth=h[:1])
        mine = together.value[together.cells[i] : together.cells[i + 1]]
        assert mine.sum() == pytest.approx(1.0, abs=1e-9)
        assert mine.max() == pytest.approx(alone.value.max(), rel=3e-3)
