"""Profiles whose step numbers count from different beginnings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from argus.collectors.gather import gather
from argus.collectors.job import Job, join
from argus.collectors.readers._fake import STEP_US, fake_trace

FIRST, NUM_STEPS, WORLD = 3, 10, 4
SAID = "numbers its steps otherwise"


def profiled(
    folder: Path,
    *,
    ahead: dict[int, int],
    drop: int = 0,
    clocks_us: dict[int, float] | None = None,
    is_numbered: bool = False,
    is_even: bool = False,
    **options: Any,
) -> Job:
    """A job of four ranks whose steps last differently long; each rank counts `ahead` of the truth, and those that do
    lack the first `drop` steps. With `is_numbered` their calls have numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    longer = np.zeros(NUM_STEPS) if is_even else np.random.default_rng(5).uniform(0, 5_000, NUM_STEPS)
    for rank in range(WORLD):
        trace = fake_trace(rank=rank, world_size=WORLD, num_steps=NUM_STEPS, **options)
        kept = []
        for event in trace["traceEvents"]:
            step = int((event["ts"] + 50) // (2 * STEP_US))
            event["ts"] += float(longer[:step].sum()) + (clocks_us or {}).get(rank, 0.0)
            if event["name"].startswith("ProfilerStep"):
                event["name"] = f"ProfilerStep#{FIRST + step + ahead.get(rank, 0)}"
                event["dur"] += float(longer[step])
            if is_numbered and "Collective name" in event["args"]:
                event["args"]["Seq"] = 2 * step + (event["args"]["Collective name"] == "allreduce")
            if step >= drop or rank not in ahead:
                kept.append(event)
        (folder / f"rank{rank}.json").write_text(json.dumps(trace | {"traceEvents": kept}))
    return join(gather([folder], folder / "s").readings)


def offsets(job: Job) -> list[int]:
    """By rank, its last step less the truth."""
    return [int(one.steps["step"].max()) - FIRST - NUM_STEPS + 1 for one in job.records]


@pytest.mark.parametrize("is_numbered", [False, True])
@pytest.mark.parametrize("host", ["", "h0"])
@pytest.mark.parametrize(("by", "drop"), [(-2, 2), (100, 0), (-3, 0)])
def test_a_rank_that_counts_otherwise_is_brought_to_the_others_count(
    tmp_path: Path, by: int, drop: int, host: str, is_numbered: bool
) -> None:
    job = profiled(tmp_path, ahead={0: by}, drop=drop, host=host, is_numbered=is_numbered)
    assert offsets(job) == [0] * WORLD and job.num_steps == NUM_STEPS
    assert [SAID in warning for warning in job.warnings].count(True) == 1


@pytest.mark.parametrize("is_numbered", [False, True])
@pytest.mark.parametrize("is_even", [False, True])
@pytest.mark.parametrize("clock_us", [0.0, 30_000.0, 45_000.0, -3e9])
def test_numbers_that_agree_stand_whatever_the_clocks_say(
    tmp_path: Path, clock_us: float, is_even: bool, is_numbered: bool
) -> None:
    job = profiled(tmp_path, ahead={}, clocks_us={2: clock_us}, is_even=is_even, is_numbered=is_numbered)
    assert offsets(job) == [0] * WORLD
    assert not any(SAID in warning for warning in job.warnings)


def test_steps_are_matched_by_how_they_differ_where_clocks_are_off(tmp_path: Path) -> None:
    job = profiled(tmp_path, ahead={1: 100}, clocks_us={1: 0.8 * STEP_US})
    assert offsets(job) == [0] * WORLD


def test_a_rank_without_a_step_in_common_is_named(tmp_path: Path) -> None:
    job = profiled(tmp_path, ahead={1: 100}, clocks_us={1: 6e8})
    assert any("no step of rank 1 is one of another rank's" in warning for warning in job.warnings)
    assert not any(SAID in warning for warning in job.warnings)


def test_a_rank_without_marked_steps_among_others_is_named(tmp_path: Path) -> None:
    for rank in range(3):
        trace = fake_trace(rank=rank, world_size=3, num_steps=3)
        if rank == 1:
            events = trace["traceEvents"]
            trace["traceEvents"] = [one for one in events if not one["name"].startswith("ProfilerStep")]
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    job = join(gather([tmp_path], tmp_path / "s").readings)
    assert any("no step is marked in rank1.json" in warning for warning in job.warnings)
