"""Profiles of one job that were taken at very different times."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from argus.collectors.gather import gather
from argus.collectors.job import join
from argus.collectors.readers._fake import fake_trace

SAID = "it may be of another launch"


def warnings(folder: Path, clocks_s: Mapping[int, float], *, world: int = 4, base_ns: int = -1) -> list[str]:
    for rank in range(world):
        trace = fake_trace(rank=rank, world_size=world, num_steps=4, clock_us=clocks_s.get(rank, 0.0) * 1e6)
        if base_ns >= 0:
            trace["baseTimeNanoseconds"] = base_ns
        (folder / f"rank{rank}.json").write_text(json.dumps(trace))
    job = join(gather([folder], folder / "s").readings)
    assert job.ranks == tuple(range(world))
    return [warning for warning in job.warnings if SAID in warning]


@pytest.mark.parametrize(("apart_s", "when"), [(-3600.0, "60 minutes before"), (600.0, "10 minutes after")])
def test_a_file_of_another_launch_is_named(tmp_path: Path, apart_s: float, when: str) -> None:
    (sentence,) = warnings(tmp_path, {3: apart_s})
    assert "rank3.json" in sentence and "rank 3" in sentence and when in sentence


@pytest.mark.parametrize("clocks_s", [{}, {1: 90.0, 2: -90.0}, {0: 1e4, 1: 2e4, 2: 3e4, 3: 4e4}])
def test_clocks_that_are_off_a_little_or_all_differ_are_not(
    tmp_path: Path, clocks_s: dict[int, float]
) -> None:
    assert not warnings(tmp_path, clocks_s)


def test_clocks_that_count_from_each_hosts_start_say_nothing(tmp_path: Path) -> None:
    assert not warnings(tmp_path, {3: 1e6}, base_ns=0)


def test_of_two_ranks_neither_is_most(tmp_path: Path) -> None:
    assert not warnings(tmp_path, {1: 1e4}, world=2)
