"""Cells of a table that are no number."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from argus.collectors.gather import Gathered, gather


def read(folder: Path, cells: Sequence[str], *, name: str = "step_time", mark: str = ";") -> Gathered:
    """A table of steps with these times in seconds, between them plain ones."""
    rows = [f"{step}{mark}{cell}" for step, cell in enumerate([*cells, *["1.5"] * 20])]
    (folder / "times.csv").write_text("\n".join([f"step{mark}{name}", *rows]))
    return gather([folder / "times.csv"], folder / "s")


def told(found: Gathered) -> list[str]:
    return [warning for warning in found.warnings if "of 'step_time" in warning or "of 'tokens" in warning]


def test_cells_that_are_no_number_are_told_once_with_column_and_count(tmp_path: Path) -> None:
    (sentence,) = told(read(tmp_path, ["n/a", "-", "1.2e", "n/a", "1,2,3", "inf"]))
    assert "6 of 26 cells of 'step_time'" in sentence and "'n/a', '-', '1.2e', …" in sentence


@pytest.mark.parametrize(
    ("cells", "seconds"),
    [
        (["12 ms", "12ms"], [0.012, 0.012]),
        (["1,234.5", "2,000.0"], [1234.5, 2000.0]),
        (["", "NaN", "null", "None", "NA"], None),
        (["1e-1"], [0.1]),
    ],
)
def test_what_can_be_read_or_was_not_logged_is_not_told(
    tmp_path: Path, cells: list[str], seconds: list[float] | None
) -> None:
    found = read(tmp_path, cells)
    assert not told(found)
    series = found.readings[0].series
    assert series is not None
    if seconds is not None:
        assert list(series.values_s[: len(cells)]) == pytest.approx(seconds)


def test_rates_and_phases_are_told_too(tmp_path: Path) -> None:
    assert told(read(tmp_path, ["fast"], name="tokens_per_sec"))
    rows = [f"{step},{rank},0.5,{'n/a' if step == 3 else 0.3}" for step in range(12) for rank in range(4)]
    (tmp_path / "phases.csv").write_text("\n".join(["step,rank,forward_s,backward_s", *rows]))
    found = gather([tmp_path / "phases.csv"], tmp_path / "s2")
    assert any("4 of 48 cells of 'backward_s' are no numbers" in text for text in found.warnings)
