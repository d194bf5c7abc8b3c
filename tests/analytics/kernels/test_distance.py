"""W₁ between ranks: against scipy on many quantile nodes, against pairs, as a metric."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import wasserstein_distance

from argus.analytics.kernels.distance import (
    Profile,
    barycentre,
    cdf_profile,
    matrix,
    mean_w1,
    quantile_nodes,
    quantile_profile,
    to_peers,
)
from argus.analytics.kernels.mixture import Mixture, cdf, fit

STATED_ERROR = 0.01
"""Discretisation of the default strata and of the paper's grid, relative to W₁ of a 5 % shift."""


def mixtures(num: int, *, seed: int = 0, paper: bool = False) -> Mixture:
    rng = np.random.default_rng(seed)
    device = 0.1 * rng.normal(size=(num, 1))
    p50 = np.log([[1e4, 4e4]]) + device
    sigma = 0.05 * np.exp(0.2 * rng.normal(size=(num, 2)))
    count = np.stack([np.full(num, 600), np.full(num, 400)], axis=1)
    unknown = np.full((num, 2), np.nan)
    return fit(
        count,
        p50,
        log_p99=p50 + 2.33 * sigma,
        log_max=unknown if paper else p50 + 3.2 * sigma,
        log_mean=unknown if paper else p50 + sigma**2 / 2,
    )


@pytest.mark.slow
def test_default_distance_equals_scipy_on_a_hundred_thousand_nodes() -> None:
    shape = mixtures(5)
    nodes = quantile_nodes(shape, nodes=100_000)
    ours = matrix(quantile_profile(shape))
    for i in range(5):
        for j in range(i):
            assert ours[i, j] == pytest.approx(wasserstein_distance(nodes[i], nodes[j]), rel=STATED_ERROR)


@pytest.mark.slow
def test_paper_distance_equals_scipy_on_a_hundred_thousand_nodes() -> None:
    shape = mixtures(4, paper=True)
    log_x = np.linspace(shape.mu.min() - 1, shape.mu.max() + 1, 400_000)
    levels = (np.arange(100_000) + 0.5) / 100_000
    nodes = [np.exp(np.interp(levels, row, log_x)) for row in cdf(shape, log_x)]
    ours = matrix(cdf_profile(shape, points=4096))
    for i in range(4):
        for j in range(i):
            assert ours[i, j] == pytest.approx(wasserstein_distance(nodes[i], nodes[j]), rel=STATED_ERROR)


@pytest.mark.parametrize("num", [1, 2, 3, 40])
def test_mean_distance_without_pairs_equals_the_mean_over_pairs(num: int) -> None:
    profile = quantile_profile(mixtures(num))
    full = matrix(profile)
    want = full.sum(axis=1) / max(num - 1, 1)
    assert mean_w1(profile) == pytest.approx(want, rel=1e-9)


def test_it_is_a_metric_that_scales_with_time() -> None:
    profile = quantile_profile(mixtures(12))
    full = matrix(profile)
    assert np.allclose(full, full.T) and np.allclose(np.diag(full), 0)
    assert (full[:, :, None] <= full[:, None, :] + full.T[None, :, :] + 1e-6).all()
    double = matrix(Profile(value=2 * profile.value, weight=profile.weight))
    assert np.allclose(double, 2 * full)


def test_the_barycentre_is_nearest_to_all() -> None:
    profile = quantile_profile(mixtures(21))
    at_centre = to_peers(profile, barycentre(profile)).sum()
    assert all(at_centre <= to_peers(profile, row).sum() + 1e-6 for row in profile.value)


def test_a_shift_of_all_durations_is_its_distance() -> None:
    shape = mixtures(1)
    both = fit(
        np.repeat([[600, 400]], 2, axis=0),
        np.concatenate([shape.mu, shape.mu + np.log(1.05)]),
        log_p99=np.concatenate([shape.mu + 0.1, shape.mu + 0.1 + np.log(1.05)]),
        log_max=np.concatenate([shape.mu + 0.2, shape.mu + 0.2 + np.log(1.05)]),
        log_mean=np.concatenate([shape.mu + 0.001, shape.mu + 0.001 + np.log(1.05)]),
    )
    profile = quantile_profile(both)
    mean = profile.value @ profile.weight
    assert matrix(profile)[0, 1] == pytest.approx(0.05 * mean[0], rel=1e-3)


def test_no_cluster_at_all_is_no_distance() -> None:
    empty = np.zeros((3, 0))
    shape = fit(empty.astype(np.int64), empty, log_p99=empty, log_max=empty, log_mean=empty)
    assert mean_w1(cdf_profile(shape)).tolist() == [0.0, 0.0, 0.0]
