"""Traces that all state the same rank of themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from argus.collectors.gather import Gathered, gather
from argus.collectors.readers._fake import fake_trace

SAID = "state rank 0 of themselves"


def gathered(
    folder: Path, names: Sequence[str], *, world: int = 4, stated: Sequence[int] = (), apart_s: float = 0.0
) -> Gathered:
    """Traces of these files; each states rank 0 or what `stated` says, and begins `apart_s` after the one before."""
    for number, name in enumerate(names):
        rank = stated[number] if stated else 0
        trace = fake_trace(rank=rank, world_size=world, num_steps=2, clock_us=number * apart_s * 1e6)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(trace))
    return gather([folder], folder / "s")


def ranks(found: Gathered) -> list[int]:
    return [one.records.layout.rank for one in found.readings]


@pytest.mark.parametrize(
    "names",
    [
        [f"rank{rank}.json" for rank in range(4)],
        [f"rank{rank}/trace.json" for rank in range(4)],
        [f"node{host}/trace.json" for host in range(4)],
        [f"node{rank // 2}/rank{rank % 2}.json" for rank in range(4)],
    ],
)
def test_names_tell_apart_what_states_one_rank(tmp_path: Path, names: list[str]) -> None:
    found = gathered(tmp_path, names)
    assert ranks(found) == [0, 1, 2, 3]
    assert {one.records.layout.world_size for one in found.readings} == {4}
    assert [SAID in warning for warning in found.warnings].count(True) == 1


def test_a_rank_below_zero_is_none(tmp_path: Path) -> None:
    assert ranks(gathered(tmp_path, ["rank0.json", "rank1.json"], world=2, stated=(-1, -1))) == [0, 1]


def test_jobs_of_one_rank_each_do_not_wait_for_one_another(tmp_path: Path) -> None:
    found = gathered(tmp_path, ["rank0.json", "rank1.json"], world=1)
    assert ranks(found) == [0, 1]
    assert not any(len(one.records.collectives) for one in found.readings)


@pytest.mark.parametrize(
    ("names", "stated", "apart_s"),
    [
        (["t0.json", "t1.json"], (0, 0), 0.0),
        (["rank0_a.json", "rank0_b.json"], (0, 0), 0.0),
        (["rank1.json", "other.json"], (0, 0), 0.0),
        (["rank3.json", "rank4.json"], (1, 2), 0.0),
        (["worker-0_17.json", "worker-1_17.json"], (0, 0), 600.0),
    ],
)
def test_what_traces_state_counts_where_it_can_be(
    tmp_path: Path, names: list[str], stated: tuple[int, ...], apart_s: float
) -> None:
    found = gathered(tmp_path, names, stated=stated, apart_s=apart_s)
    assert ranks(found) == list(stated)
    assert not any(SAID in warning for warning in found.warnings)
