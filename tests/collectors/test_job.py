"""Many readings become one job: which of them belong together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argus.collectors.job import join, without_holes
from argus.collectors.readers import Reading
from argus.collectors.records.events import STEP, RankRecords
from argus.collectors.records.layout import Layout
from argus.collectors.records.stacks import StackDump


def reading(source: str, *, pid: int, start_s: int, num_steps: int, first: int = 0) -> Reading:
    steps = np.zeros(num_steps, STEP)
    steps["step"] = np.arange(first, first + num_steps)
    steps["start_ns"] = (start_s + np.arange(num_steps)) * 10**9
    steps["end_ns"] = steps["start_ns"] + 10**9
    layout = Layout(run="r", attempt=0, rank=0, world_size=1, host="h", pid=pid)
    return Reading(records=RankRecords(layout=layout, steps=steps), source=source)


def test_of_two_launches_under_one_name_the_later_counts_alone() -> None:
    early = reading("rank-0.argus", pid=10, start_s=0, num_steps=50)
    late = reading("rank-0.2.argus", pid=11, start_s=1000, num_steps=20)
    for order in ([early, late], [late, early]):
        job = join(order)
        assert job.num_steps == 20 and job.records[0].layout.pid == 11
        assert job.warnings == (
            "rank-0.argus is of an earlier launch than rank-0.2.argus; it is left out, one job is analysed at a time",
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
