"""Marks of steps in a kineto trace that are there more than once."""

from __future__ import annotations

from pathlib import Path

import pytest

from argus.collectors.readers._fake import fake_trace
from tests.collectors.readers.test_kineto import read, write


@pytest.mark.parametrize("is_first", [False, True])
def test_a_step_that_other_threads_mark_again_is_the_whole_one(tmp_path: Path, is_first: bool) -> None:
    trace = fake_trace(rank=0, world_size=2, num_steps=3)
    alone = read(write(tmp_path / "a.json", trace)).records
    marks = [event for event in trace["traceEvents"] if event["name"].startswith("ProfilerStep")]
    more = [{**one, "tid": 555, "ts": one["ts"] + 50, "dur": one["dur"] * 0.6} for one in marks]
    events = trace["traceEvents"]
    trace["traceEvents"] = more + events if is_first else events + more
    both = read(write(tmp_path / "b.json", trace)).records
    assert both.steps.tolist() == alone.steps.tolist()
    assert both.phases.tolist() == alone.phases.tolist()
