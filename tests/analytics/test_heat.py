"""Codes of heat maps: what stands out is never lost, what was not seen is never shown as well."""

from __future__ import annotations

import numpy as np
import pytest

from argus.analytics.heat import EQUAL, MISSING, beside_past, beside_peers, codes, worst_of_rows


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


@pytest.mark.parametrize("ranks_per_row", [1, 3, 8, 64])
def test_the_slow_rank_is_seen_however_many_share_its_row(
    rng: np.random.Generator, ranks_per_row: int
) -> None:
    values = rng.normal(1.0, 0.01, (5, 64))
    values[:, 37] *= 1.5
    logs = beside_peers(values, np.zeros(64, np.int64))
    rows = codes(worst_of_rows(logs, ranks_per_row=ranks_per_row))
    assert rows.shape == (-(-64 // ranks_per_row), 5)
    assert (rows.argmax(axis=0) == 37 // ranks_per_row).all() and (rows.max(axis=0) > EQUAL + 50).all()


def test_renaming_ranks_renames_their_codes(rng: np.random.Generator) -> None:
    values, classes = rng.lognormal(0, 0.2, (4, 24)), np.arange(24) % 3
    order = rng.permutation(24)
    assert np.allclose(
        beside_peers(values, classes)[:, order], beside_peers(values[:, order], classes[order])
    )


def test_a_class_of_two_is_told_by_the_other() -> None:
    logs = beside_peers(np.array([[1.0, 2.0]]), np.zeros(2, np.int64))
    assert logs.tolist() == [[-1.0, 1.0]]


def test_alone_nobody_is_slow() -> None:
    assert np.isnan(beside_peers(np.array([[1.0, 2.0]]), np.array([0, 1]))).all()


def test_missing_ranks_and_windows_have_their_own_code(rng: np.random.Generator) -> None:
    values = rng.normal(1.0, 0.01, (3, 16))
    values[:, 5] = np.nan
    values[1] = np.nan
    table = codes(worst_of_rows(beside_peers(values, np.zeros(16, np.int64)), ranks_per_row=1))
    assert (table[5] == MISSING).all() and (table[:, 1] == MISSING).all()
    assert (np.delete(np.delete(table, 5, 0), 1, 1) != MISSING).all()


def test_more_and_more_is_never_shown_as_less() -> None:
    assert (np.diff(codes(np.linspace(-3, 3, 301)).astype(int)) >= 0).all()


def test_a_rank_beside_its_own_past(rng: np.random.Generator) -> None:
    values = rng.normal(1.0, 0.001, (9, 4))
    values[6:, 2] *= 1.3
    logs = beside_past(values)
    assert (logs[6:, 2] > 0.3).all() and np.abs(logs[:6]).max() < 0.02
