"""Calls of ranks whose files do not number them: which of them are one call."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from argus.collectors.job import Job, join
from argus.collectors.readers import Reading
from argus.collectors.records.events import COLLECTIVE, STEP, RankRecords
from argus.collectors.records.layout import GroupInfo, Layout

NAMES = ("", "world", "all_reduce", "all_gather")
A, B, C, G = ("all_reduce", 4), ("all_reduce", 8), ("all_reduce", 16), ("all_gather", 4)

Call = tuple[str, int]


def rank_of(rank: int, steps: Sequence[Sequence[Call]], *, num_ranks: int) -> Reading:
    """A rank that enters the calls of each step one millisecond after the other."""
    rows = np.zeros(len(steps), STEP)
    rows["step"] = np.arange(len(steps))
    rows["start_ns"] = 10**9 + np.arange(len(steps)) * 10**8
    rows["end_ns"] = rows["start_ns"] + 10**8
    calls = [
        (step, op, size, place) for step, mine in enumerate(steps) for place, (op, size) in enumerate(mine)
    ]
    collectives = np.zeros(len(calls), COLLECTIVE)
    for row, (step, op, size, place) in zip(collectives, calls, strict=True):
        row["step"], row["op"], row["group"], row["bytes"] = step, NAMES.index(op), 1, size
        row["entry_ns"] = rows["start_ns"][step] + (place + 1) * 10**6
        row["end_ns"] = row["entry_ns"] + 10**7
    group = GroupInfo(name="world", desc="", ranks=tuple(range(num_ranks)))
    layout = Layout(run="r", attempt=0, rank=rank, world_size=num_ranks, host="h", groups=(group,))
    records = RankRecords(layout=layout, steps=rows, collectives=collectives, names=NAMES)
    return Reading(records=records, source=f"{rank}", is_seq_known=False)


def job_of(*ranks: Sequence[Sequence[Call]]) -> Job:
    return join([rank_of(at, steps, num_ranks=len(ranks)) for at, steps in enumerate(ranks)])


def sizes_by_seq(job: Job) -> list[dict[int, tuple[str, int]]]:
    """Operation and bytes of each rank's calls by their number."""
    return [
        {int(row["seq"]): (one.name(int(row["op"])), int(row["bytes"])) for row in one.collectives}
        for one in job.records
    ]


@pytest.mark.parametrize("order", [[A, B, C], [B, A, C], [C, B, A]])
def test_calls_that_run_at_once_are_told_apart_by_their_sizes(order: list[Call]) -> None:
    job = job_of([[A, B, C], [A, B, C]], [order, [A, B, C]])
    assert (job.warnings, job.num_unmatched) == ((), 0)
    first, second = sizes_by_seq(job)
    assert first == second and len(first) == 6


def test_the_nth_call_of_a_size_is_the_nth_of_the_others() -> None:
    job = job_of([[A, B, A]], [[B, A, A]])
    assert not job.warnings
    assert [one.collectives["seq"].tolist() for one in job.records] == [[0, 1, 2], [1, 0, 2]]


def test_a_call_begun_beyond_the_edge_of_its_step_is_no_other_call() -> None:
    job = job_of([[A, B], [A, B], [A, B]], [[A], [B, A, B], [A, B]])
    assert (job.warnings, job.num_unmatched) == ((), 0)
    first, second = sizes_by_seq(job)
    assert first == second and len(first) == 6


@pytest.mark.parametrize(
    ("cut", "numbers"),
    [([[B], [A, B]], [1, 2, 3]), ([[A, B], [A]], [0, 1, 2]), ([[B, A], [A, B]], [1, 0, 2, 3])],
)
def test_calls_cut_off_by_the_recording_are_no_different_calls(
    cut: list[list[Call]], numbers: list[int]
) -> None:
    job = job_of([[A, B], [A, B]], cut)
    assert (job.warnings, job.num_unmatched) == ((), 0)
    assert job.records[1].collectives["seq"].tolist() == numbers


@pytest.mark.parametrize("other", [[A, G], [A, C], [A, A], [G, B]])
def test_other_operations_and_sizes_are_different_calls(other: list[Call]) -> None:
    job = job_of([[A, B], [A, B]], [[A, B], other])
    assert job.num_unmatched == 2
    assert len(job.warnings) == 1 and "different calls in 1 of 2 (group, step) pairs" in job.warnings[0]
    assert [one.collectives["seq"].tolist() for one in job.records] == [[0, 1], [0, 1]]


def test_a_size_nobody_knows_tells_nothing_apart() -> None:
    job = job_of([[A, B]], [[("all_reduce", 0), B]])
    assert not job.warnings
    assert [one.collectives["seq"].tolist() for one in job.records] == [[0, 1], [0, 1]]
