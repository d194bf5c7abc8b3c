"""Distributions rebuilt from clusters, against numeric integration and the clusters themselves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from argus.analytics.kernels.mixture import Mixture, cdf, fit, partial_mean, quantile


def mixtures(*, paper: bool = False, seed: int = 0, num: int = 6) -> Mixture:
    rng = np.random.default_rng(seed)
    p50 = np.sort(rng.uniform(8, 12, (num, 3)), axis=1) + np.array([0.0, 2.0, 4.0])
    high = rng.uniform(0.01, 0.3, (num, 3))
    p99 = p50 + 2.33 * high
    unknown = np.full((num, 3), np.nan)
    return fit(
        rng.integers(8, 2000, (num, 3)),
        p50,
        log_p99=p99,
        log_max=unknown if paper else p99 + rng.uniform(0, 0.5, (num, 3)),
        log_mean=unknown if paper else p50 + high**2,
    )


@pytest.mark.parametrize("paper", [False, True])
def test_a_cdf_rises_from_zero_to_one(paper: bool) -> None:
    values = cdf(mixtures(paper=paper), np.linspace(0, 30, 4000))
    assert (np.diff(values, axis=1) >= -1e-12).all()
    assert values[:, 0] == pytest.approx(0.0) and values[:, -1] == pytest.approx(1.0)


def test_the_quantile_function_inverts_each_cluster() -> None:
    shape = mixtures()
    ends = np.cumsum(shape.weight, axis=1)
    middle = ends - shape.weight / 2
    for row in range(shape.num_ranks):
        got = quantile(shape.of(np.array([row])), middle[row])
        assert np.log(got[0]) == pytest.approx(shape.mu[row], abs=1e-9)


@pytest.mark.parametrize("upto", [0.1, 0.5, 0.9, 1.0])
def test_partial_means_are_the_integral_of_the_quantile_function(upto: float) -> None:
    shape = mixtures(num=2)
    ends = np.cumsum(shape.weight, axis=1)
    got = partial_mean(shape, np.array([upto]))[:, 0]
    for row in range(shape.num_ranks):
        one = shape.of(np.array([row]))
        breaks = [0.0, *[end for end in ends[row] if end < upto], upto]
        want = sum(
            quad(
                lambda u, one=one: float(quantile(one, np.array([u]))[0, 0]), a + 1e-12, b - 1e-12, limit=400
            )[0]
            for a, b in itertools.pairwise(breaks)
        )
        assert got[row] == pytest.approx(want, rel=2e-4)


def test_the_mean_of_a_cluster_is_kept_exactly_where_its_shape_allows() -> None:
    sigma = 0.2
    p50 = np.array([[10.0]])
    shape = fit(
        np.array([[5000]]),
        p50,
        log_p99=p50 + 2.326 * sigma,
        log_max=p50 + 3.6 * sigma,
        log_mean=p50 + sigma**2 / 2,
    )
    assert np.log(partial_mean(shape, np.array([1.0]))[0, 0]) == pytest.approx(10.0 + sigma**2 / 2, abs=1e-6)


def test_identical_durations_and_single_samples_make_finite_shapes() -> None:
    for count in (1, 2, 1000):
        p50 = np.array([[7.0]])
        shape = fit(np.array([[count]]), p50, log_p99=p50, log_max=p50, log_mean=p50)
        assert np.log(partial_mean(shape, np.array([1.0]))[0, 0]) == pytest.approx(7.0, abs=2e-3)
        assert np.isfinite(cdf(shape, np.linspace(6, 8, 50))).all()
