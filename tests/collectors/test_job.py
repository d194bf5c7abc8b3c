"""Many readings become one job: which of them belong together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argus.collectors.gather import gather
from argus.collectors.job import join, without_holes
from argus.collectors.readers import Reading
from argus.collectors.readers._fake import fake_trace
from argus.collectors.records.events import STEP, RankRecords
from argus.collectors.records.layout import GroupInfo, Layout
from argus.collectors.records.stacks import StackDump


def reading(
    source: str, *, pid: int, start_s: int, num_steps: int, first: int = 0, rank: int = 0, num_ranks: int = 1
) -> Reading:
    steps = np.zeros(num_steps, STEP)
    steps["step"] = np.arange(first, first + num_steps)
    steps["user_step"] = steps["step"]
    steps["start_ns"] = (start_s + np.arange(num_steps)) * 10**9
    steps["end_ns"] = steps["start_ns"] + 10**9
    layout = Layout(run="r", attempt=0, rank=rank, world_size=num_ranks, host="h", pid=pid)
    return Reading(records=RankRecords(layout=layout, steps=steps), source=source)


def test_of_two_launches_under_one_name_the_later_counts_alone() -> None:
    early = reading("rank-0.argus", pid=10, start_s=0, num_steps=50)
    late = reading("rank-0.2.argus", pid=11, start_s=1000, num_steps=20)
    for order in ([early, late], [late, early]):
        job = join(order)
        assert job.num_steps == 20 and job.records[0].layout.pid == 11
        assert job.warnings == (
            "rank-0.argus is of an earlier launch and left out, one job is analysed at a time",
        )


def test_files_of_one_process_are_joined() -> None:
    one = reading("rank-0.argus", pid=10, start_s=0, num_steps=20)
    other = reading("rank-0.2.argus", pid=10, start_s=20, num_steps=30, first=20)
    job = join([one, other])
    assert (job.num_steps, len(job.records[0].steps), job.warnings) == (50, 50, ())


def test_traces_do_not_tell_their_process_and_are_joined() -> None:
    one = reading("a.json", pid=0, start_s=0, num_steps=20)
    again = replace(reading("b.json", pid=0, start_s=0, num_steps=25), is_time_known=False)
    assert join([one, again]).num_steps == 25


def launch(
    start_s: int, *, pid: int, ranks: range = range(4), skew_s: int = 0, first: int = 3, cycles: int = 1
) -> list[Reading]:
    """Files of one launch; the last of four ranks has a clock that is off by `skew_s`."""
    return [
        reading(
            f"{start_s}-{cycle}-rank-{rank}",
            pid=pid + (rank if pid > 1 else 0),
            start_s=start_s + cycle * 30 + (skew_s if rank == 3 else 0),
            num_steps=12,
            first=first + 30 * cycle,
            rank=rank,
            num_ranks=4,
        )
        for rank in ranks
        for cycle in range(cycles)
    ]


def starts_s(readings: list[Reading]) -> list[int]:
    """When the steps of each rank begin in the job that is made of them."""
    return [int(one.steps["start_ns"].min()) // 10**9 for one in join(readings).records]


@pytest.mark.parametrize("pids", [(10, 20), (1, 1)])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_the_later_of_two_equal_launches_is_used_whatever_the_files_are_called(
    pids: tuple[int, int], is_reversed: bool
) -> None:
    early, late = launch(0, pid=pids[0]), launch(130, pid=pids[1])
    mixed = [late[0], *early, *late[1:]]
    assert starts_s(mixed[::-1] if is_reversed else mixed) == [130] * 4
    (told,) = join(mixed).warnings
    assert "of an earlier launch" in told and "0-0-rank-2, … are" in told


@pytest.mark.parametrize("pid", [1, 20])
def test_the_launch_of_more_ranks_is_used_and_never_mixed_with_the_other(pid: int) -> None:
    assert starts_s([*launch(0, pid=1), *launch(130, pid=pid, ranks=range(2))]) == [0] * 4
    told = join([*launch(0, pid=1), *launch(130, pid=pid, ranks=range(2))]).warnings
    assert len(told) == 1 and "130-0-rank-1 are of a later launch on fewer ranks" in told[0]
    assert starts_s([*launch(0, pid=1, ranks=range(2)), *launch(130, pid=pid)]) == [130] * 4


def test_profiler_cycles_of_one_launch_stay_together_beside_another_launch() -> None:
    early, late = launch(0, pid=1, cycles=3), launch(500, pid=1, cycles=2)
    assert join(early).warnings == () and len(join(early).records[0].steps) == 36
    assert [len(one.steps) for one in join([*late, *early]).records] == [24] * 4


def test_a_clock_that_is_off_does_not_take_its_rank_out_of_the_launch() -> None:
    for skew_s in (2, -2, -7200, 7200):
        early, late = (launch(at, pid=at + 10, skew_s=skew_s) for at in (0, 130))
        assert starts_s([*early, *late]) == [130, 130, 130, 130 + skew_s]
    assert starts_s([*launch(0, pid=10, ranks=range(3)), *launch(130, pid=90, skew_s=13)])[3] == 143


def test_a_copy_of_a_file_is_of_its_launch() -> None:
    job = join([*launch(0, pid=1), *launch(0, pid=1, ranks=range(1))])
    assert len(job.warnings) == 1 and "repeats steps of rank 0" in job.warnings[0]


def test_files_without_step_marks_of_one_process_are_not_taken_for_launches() -> None:
    files = [*launch(0, pid=10), *launch(130, pid=10)]
    for file in files:
        file.records.steps["user_step"] = -1
    assert starts_s(files) == [0] * 4


def test_steps_nobody_recorded_are_no_steps_of_the_job() -> None:
    one = reading("a", pid=10, start_s=0, num_steps=3, first=3)
    other = reading("b", pid=10, start_s=6, num_steps=3, first=9)
    job = join([one, other])
    assert (job.first_step, job.num_steps, job.steps.tolist()) == (3, 6, [3, 4, 5, 9, 10, 11])
    assert without_holes(job).steps.tolist() == [3, 4, 5, 6, 7, 8]


def test_stacks_seen_in_a_hole_are_of_the_step_before() -> None:
    job = join(
        [reading("a", pid=10, start_s=0, num_steps=3), reading("b", pid=10, start_s=6, num_steps=3, first=6)]
    )
    dumps = tuple(StackDump(run="r", attempt=0, rank=0, host="h", ts_s=1.0, step=n) for n in (-1, 1, 4, 7))
    seen = replace(job, records=(replace(job.records[0], stacks=dumps),))
    assert [dump.step for dump in without_holes(seen).records[0].stacks] == [-1, 1, 2, 4]


def test_a_job_without_holes_stays_as_it_is() -> None:
    job = join([reading("a", pid=10, start_s=0, num_steps=3, first=3)])
    assert without_holes(job) is job


def test_ranks_that_only_calls_name_are_missing(tmp_path: Path) -> None:
    for rank in range(2):
        trace = fake_trace(rank=rank, world_size=4)
        trace.pop("distributedInfo")
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    job = join(gather([tmp_path], tmp_path / "s").readings)
    assert (job.world_size, job.missing) == (4, (2, 3))
    assert job.records[0].layout.groups[0].ranks == (0, 1, 2, 3)


def test_a_later_profile_of_a_rank_brings_the_groups_of_its_own_calls() -> None:
    everyone, tensor = (
        GroupInfo(name=name, desc=desc, ranks=(0, 1)) for name, desc in (("0", "default_pg"), ("7", "tp"))
    )
    first, second = (
        reading(f"{n}.json", pid=10, start_s=10 * n, num_steps=5, first=5 * n, num_ranks=2) for n in range(2)
    )
    parts = ((first, (everyone,)), (second, (everyone, tensor)))
    of_both = [
        replace(one, records=replace(one.records, layout=replace(one.records.layout, groups=groups)))
        for one, groups in parts
    ]
    (records,) = join(of_both).records
    assert len(records.steps) == 10 and records.layout.groups == (everyone, tensor)


def test_profiles_of_jobs_of_two_sizes_are_never_mixed(tmp_path: Path) -> None:
    for name, size in (("a", 2), ("b", 3)):
        (tmp_path / name).mkdir()
        for rank in range(size):
            trace = fake_trace(rank=rank, world_size=size, num_steps=4)
            for event in trace["traceEvents"] if name == "a" else ():
                event["name"] = event["name"].replace(
                    "ProfilerStep#", "ProfilerStep#1"
                )  # other steps than b's
            (tmp_path / name / f"rank{rank}.json").write_text(json.dumps(trace))
    job = join(gather([tmp_path], tmp_path / "s").readings)
    assert (job.ranks, job.num_steps, job.world_size) == ((0, 1, 2), 4, 3)
    left = "a/rank0.json, a/rank1.json are of a job of 2 ranks and left out, one job is analysed at a time"
    assert job.warnings == (left,)
