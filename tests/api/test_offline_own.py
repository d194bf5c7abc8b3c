"""Tables of phases that are too small to accuse anybody still say whose own work takes longer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from argus.api.offline.files import triage_files
from argus.api.report import Report

PHASES = {"data_time": 0.02, "forward_time": 0.3, "backward_time": 0.6, "optimizer_time": 0.06}


def headline(
    path: Path, *, num_ranks: int, num_steps: int, seed: int = 0, slow: int = -1, times: float = 1.0
) -> str:
    """What triage says of a table whose rank `slow` takes `times` as long in its backward pass."""
    rng = np.random.default_rng(seed)
    spent = {
        name: usual * np.exp(rng.normal(0, 0.02, (num_steps, num_ranks))) for name, usual in PHASES.items()
    }
    if slow >= 0:
        spent["backward_time"][:, slow] *= times
    step_s = sum(spent.values(), np.zeros((num_steps, num_ranks))).max(axis=1)
    lines = [",".join(["rank", "step", "step_time", *PHASES])]
    for step in range(num_steps):
        for rank in range(num_ranks):
            cells = [rank, step, step_s[step], *(spent[name][step, rank] for name in PHASES)]
            lines.append(",".join(str(cell) for cell in cells))
    path.write_text("\n".join(lines) + "\n")
    report = triage_files([path], now_s=0.0)
    assert isinstance(report, Report)
    assert report.diagnosis["verdict"] == "INCONCLUSIVE"
    return str(report.diagnosis["headline"])


@pytest.mark.parametrize(("num_ranks", "num_steps", "times"), [(2, 60, 1.3), (3, 60, 1.3), (6, 20, 2.0)])
def test_the_rank_whose_own_work_takes_longer_is_named(
    tmp_path: Path, num_ranks: int, num_steps: int, times: float
) -> None:
    slow = num_ranks - 1
    said = headline(tmp_path / "phases.csv", num_ranks=num_ranks, num_steps=num_steps, slow=slow, times=times)
    assert f"rank {slow} " in said and "backward" in said
    assert not said.endswith("…")


@pytest.mark.parametrize("num_ranks", [2, 3, 6])
@pytest.mark.parametrize("num_steps", [20, 60])
def test_ranks_that_are_alike_are_not_named(tmp_path: Path, num_ranks: int, num_steps: int) -> None:
    said = headline(tmp_path / "phases.csv", num_ranks=num_ranks, num_steps=num_steps)
    assert "own work" not in said


def test_too_few_steps_name_nobody(tmp_path: Path) -> None:
    said = headline(tmp_path / "phases.csv", num_ranks=2, num_steps=6, slow=1, times=1.3)
    assert "own work" not in said
