"""Ranks that files count within their host's folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from argus.collectors.gather import Gathered, gather
from argus.collectors.readers._fake import fake_trace


def gathered(folder: Path, names: list[str], *, world: int, is_told: bool = False) -> Gathered:
    """Traces of these files, in order of rank, whose groups name `world` ranks; `is_told` = they say their own, too."""
    for rank, name in enumerate(names):
        trace = fake_trace(rank=rank, world_size=world, num_steps=2)
        if not is_told:
            trace.pop("distributedInfo")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(trace))
    return gather([folder], folder / "s")


def ranks(found: Gathered) -> list[int]:
    return [one.records.layout.rank for one in found.readings]


@pytest.mark.parametrize("names", [("node0", "node1"), ("host-9", "host-10"), ("machine1", "machine2")])
def test_local_ranks_in_hosts_folders_are_ranks_of_the_job(tmp_path: Path, names: tuple[str, str]) -> None:
    found = gathered(tmp_path, [f"{host}/rank{rank}.json" for host in names for rank in range(2)], world=4)
    hosts = {one.records.layout.rank: one.records.layout.host for one in found.readings}
    assert hosts == {0: names[0], 1: names[0], 2: names[1], 3: names[1]}
    assert any("count within the folders" in warning for warning in found.warnings)


@pytest.mark.parametrize(
    ("names", "world", "expected"),
    [
        (["node0/rank0.json", "node0/rank1.json", "node1/rank2.json", "node1/rank3.json"], 4, [0, 1, 2, 3]),
        (["run0/rank0.json", "run0/rank1.json", "run1/rank0.json", "run1/rank1.json"], 4, [0, 1, 0, 1]),
        (["node0/rank0.json", "node0/rank1.json", "node1/rank0.json", "node1/rank1.json"], 8, [0, 1, 0, 1]),
        (["node0/rank0.json", "node0/rank1.json", "node2/rank0.json", "node2/rank1.json"], 4, [0, 1, 0, 1]),
        (["node0/rank0.json", "node0/rank1.json", "node1/rank0.json"], 3, [0, 1, 0]),
    ],
)
def test_ranks_are_let_be_where_they_may_be_the_jobs_or_of_two_jobs(
    tmp_path: Path, names: list[str], world: int, expected: list[int]
) -> None:
    found = gathered(tmp_path, names, world=world)
    assert ranks(found) == expected
    assert not any("count within the folders" in warning for warning in found.warnings)


def test_a_rank_that_the_file_states_counts(tmp_path: Path) -> None:
    names = [f"node{host}/rank{rank}.json" for host in range(2) for rank in range(2)]
    assert ranks(gathered(tmp_path, names, world=4, is_told=True)) == [0, 1, 2, 3]


def test_folders_that_are_given_one_by_one_are_told_apart_as_in_one(tmp_path: Path) -> None:
    names = [f"node{host}/rank{rank}.json" for host in range(2) for rank in range(2)]
    gathered(tmp_path, names, world=4)
    found = gather([tmp_path / "node0", tmp_path / "node1"], tmp_path / "s")
    assert ranks(found) == [0, 1, 2, 3]


def test_the_folder_one_stands_in_tells_the_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gathered(tmp_path, ["rank1/trace.json"], world=2)
    monkeypatch.chdir(tmp_path / "rank1")
    assert ranks(gather([Path()], tmp_path / "s")) == [1]
