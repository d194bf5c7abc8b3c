"""Times of a kineto trace that are no plain numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from argus.collectors.readers import ReaderError
from argus.collectors.readers._fake import fake_trace
from tests.collectors.readers.test_kineto import calls, phases, read, write


def test_times_in_quotes_are_read_as_the_numbers_they_are(tmp_path: Path) -> None:
    plain, quoted = (fake_trace(rank=0, world_size=2, num_steps=2) for _ in range(2))
    for event in quoted["traceEvents"]:
        event.update({key: str(event[key]) for key in ("ts", "dur") if key in event})
    ours, theirs = read(write(tmp_path / "a.json", plain)), read(write(tmp_path / "b.json", quoted))
    assert not theirs.warnings and calls(theirs) == calls(ours) and phases(theirs) == phases(ours)
    assert theirs.records.steps.tolist() == ours.records.steps.tolist()


def test_a_trace_without_a_usable_time_is_one_sentence(tmp_path: Path) -> None:
    trace = fake_trace(rank=0, world_size=2)
    for event in trace["traceEvents"]:
        event["ts"] = "soon"
    with pytest.raises(
        ReaderError, match=r"t\.json: its \d+ events span no time .*, \d+ have no usable time$"
    ):
        read(write(tmp_path / "t.json", trace))


def test_numbers_without_end_cost_only_their_event(tmp_path: Path) -> None:
    trace = fake_trace(rank=0, world_size=2, num_steps=2)
    begin = {"ph": "B", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 9, "ts": 10**400}
    trace["traceEvents"] += [begin, {"ph": "E", "pid": 1, "tid": 9, "ts": 2.5}]
    for event in trace["traceEvents"]:
        if "In msg nelems" in event.get("args", {}):
            event["args"]["In msg nelems"] = 10**40
    reading = read(write(tmp_path / "t.json", trace))
    assert reading.warnings == ("t.json: 1 events have no usable time and are left out",)
    assert {size for *_, size in calls(reading)} == {1 << 60}


def test_events_at_zero_are_not_where_a_trace_begins(tmp_path: Path) -> None:
    """Without a step's mark the trace would last from when the process was loaded (pytorch#188481)."""
    trace = fake_trace(rank=0, world_size=2, num_steps=2, clock_us=3_600e6)
    events = [event for event in trace["traceEvents"] if not event["name"].startswith("ProfilerStep")]
    trace["traceEvents"] = events
    for event in events[-10:]:
        event["ts"] = event["dur"] = 0.0
    reading = read(write(tmp_path / "t.json", trace))
    (step,) = reading.records.steps
    assert step["end_ns"] - step["start_ns"] < 10**9
    assert reading.warnings == ("t.json: 10 events have no usable time and are left out",)


def test_events_that_are_no_json_are_counted(tmp_path: Path) -> None:
    text = json.dumps(fake_trace(rank=0, world_size=2, num_steps=2))
    broken = text.replace('"gemm<float>(int)"', '"{"device": "cpu"}(12): run"', 1)
    reading = read(write(tmp_path / "t.json", broken.encode()))
    assert len(reading.records.steps) == 2 and len(calls(reading)) == 4
    (told,) = reading.warnings
    assert told.startswith("t.json: 1 events are no JSON")


@pytest.mark.parametrize("name", ["t.json", "rank3.json"])
def test_a_trace_of_another_profiler_is_told_by_what_it_lacks(tmp_path: Path, name: str) -> None:
    events = [
        {"ph": "X", "cat": "FEE", "name": "step", "pid": 1, "tid": 1, "ts": n, "dur": 1} for n in range(9)
    ]
    with pytest.raises(ReaderError, match="none of its 9 events is an operator, a kernel or a step"):
        read(write(tmp_path / name, {"traceEvents": events}))
