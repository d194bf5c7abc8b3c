"""Kernel durations to clusters: what is kept, what is refused and why."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from argus.collectors.host.compress import MAX_DUR_NS, compress, summarise
from argus.collectors.host.split import ROBUST
from argus.collectors.records.events import KERNEL, Rows
from argus.collectors.records.kernels import MAX_NAME, KernelSummary

PAIR = (("gemm", "compute"),)


def one(durations: NDArray[np.float64], *, mode: str = "default") -> Rows:
    return summarise(np.zeros(len(durations), np.int64), durations, pairs=PAIR, rank=0, mode=mode).clusters


def modes(rng: np.random.Generator, *medians_ns: float, n: int = 300) -> NDArray[np.float64]:
    return np.concatenate([m * np.exp(rng.normal(0, 0.02, n)) for m in medians_ns])


def test_each_mode_keeps_count_quantiles_maximum_and_sum() -> None:
    rng = np.random.default_rng(0)
    durations = np.rint(modes(rng, 10e3, 20e3, 900e3))
    clusters = one(durations)
    assert clusters["count"].tolist() == [300, 300, 300]
    for row, part in zip(clusters, np.split(np.sort(durations), 3), strict=True):
        assert row["p50_ns"] == np.quantile(part, 0.5)
        assert row["p99_ns"] == pytest.approx(np.quantile(part, 0.99))
        assert (row["max_ns"], row["sum_ns"]) == (part.max(), part.sum())


def test_near_modes_are_seen_beside_a_distant_one_where_the_published_rule_merges_them() -> None:
    durations = modes(np.random.default_rng(0), 10e3, 13e3, 1e6)
    assert len(one(durations)) == 3
    assert len(one(durations, mode="paper")) == 2


def test_paper_mode_keeps_the_triple_only() -> None:
    clusters = one(modes(np.random.default_rng(0), 10e3), mode="paper")
    assert np.isnan(clusters["max_ns"]).all() and np.isnan(clusters["sum_ns"]).all()


@pytest.mark.parametrize("n", [20, 100, 1000])
def test_one_even_mode_stays_one_cluster(n: int) -> None:
    rng = np.random.default_rng(3)
    split = sum(len(one(modes(rng, 20e3, n=n))) > 1 for _ in range(50))
    assert split <= 2


def test_fewer_than_eight_samples_are_one_cluster() -> None:
    durations = np.array([1e3, 1e3, 1e3, 1e6, 1e6, 1e6, 1e6])
    assert len(one(durations)) == 1
    assert len(one(np.repeat(durations, 2))) == 2


def test_at_most_eight_clusters_and_every_one_has_enough_samples() -> None:
    durations = modes(np.random.default_rng(0), *(1e3 * 2.0**i for i in range(14)), n=700)
    clusters = one(durations)
    assert len(clusters) == ROBUST.max_clusters
    assert clusters["count"].min() >= ROBUST.looks[0].min_count
    assert clusters["count"].sum() == len(durations)


def test_a_coarse_clock_makes_no_modes() -> None:
    rng = np.random.default_rng(0)
    durations = np.rint(modes(rng, 1500, n=2000) / 256) * 256
    assert len(one(durations)) == 1


def test_what_cannot_be_used_is_counted_by_reason() -> None:
    durations = np.array([1e3, np.nan, -5.0, 0.0, 2.0 * MAX_DUR_NS, 2e3, np.inf])
    summary = summarise(np.zeros(7, np.int64), durations, pairs=PAIR, rank=0)
    assert summary.events == 2 and summary.clusters["count"].tolist() == [2]
    assert summary.dropped == {
        "kernel_nan": 1,
        "kernel_clock_step": 1,
        "kernel_zero": 1,
        "kernel_too_long": 2,
    }


def test_an_empty_window_is_an_empty_summary() -> None:
    summary = compress(np.empty(0, KERNEL), names=("",), rank=3)
    assert (summary.events, len(summary.clusters), summary.kernels) == (0, 0, ())


def test_names_that_never_arrived_are_one_name_and_long_ones_stay_distinct() -> None:
    rows = np.zeros(6, KERNEL)
    rows["dur_ns"] = 1000
    rows["name"] = [1, 2, 3, 8, 9, 9]
    long = "k" * (MAX_NAME + 5)
    summary = compress(rows, names=("", "a", long + "1", long + "2"), rank=0)
    names = [name for name, _ in summary.kernels]
    assert "?" in names and len(names) == len(set(names)) == 4
    assert max(map(len, names)) <= MAX_NAME
    assert summary.clusters["count"].tolist() == [1, 1, 1, 3]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-(1 << 40), 1 << 45)), min_size=0, max_size=200))
def test_any_rows_give_a_summary_that_accounts_for_every_one(rows: list[tuple[int, int]]) -> None:
    kernels = np.zeros(len(rows), KERNEL)
    for row, (name, dur) in zip(kernels, rows, strict=True):
        row["name"], row["dur_ns"] = name, dur
    summary = compress(kernels, names=("", "a", "b"), rank=0)
    assert isinstance(summary, KernelSummary)
    assert summary.events + sum(summary.dropped.values()) == len(rows)
    assert summary.clusters["count"].sum() == summary.events
    assert (summary.clusters["p50_ns"] <= summary.clusters["p99_ns"]).all()
    assert (summary.clusters["p99_ns"] <= summary.clusters["max_ns"]).all()


def test_order_of_events_does_not_matter() -> None:
    rng = np.random.default_rng(5)
    durations = modes(rng, 10e3, 30e3)
    assert one(durations).tobytes() == one(rng.permutation(durations)).tobytes()


@pytest.mark.slow
def test_ten_million_samples_of_one_kernel() -> None:
    durations = np.random.default_rng(0).integers(9_000, 11_000, 10_000_000).astype(np.float64)
    clusters = one(durations)
    assert clusters["count"].sum() == 10_000_000
