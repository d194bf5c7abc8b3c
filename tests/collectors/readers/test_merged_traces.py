"""Chrome traces that are no plain kineto file: ranks merged into one, begin and end events, many files alike."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from argus.collectors.gather import gather
from argus.collectors.readers import ReaderError, Reading, kineto
from argus.collectors.readers._fake import fake_trace
from argus.collectors.readers._fold import FOLD_FROM, folded
from argus.collectors.readers._pairs import Pairs
from argus.collectors.records.events import RankRecords

Event = dict[str, Any]


def merged(*ranks: int, named: bool = True, **trace: Any) -> Event:
    """Traces of some ranks in one file, each rank's processes named if `named`, its events last."""
    events: list[Event] = []
    for rank in ranks:
        for event in fake_trace(rank=rank, world_size=4, num_steps=2)["traceEvents"]:
            events.append({**event, "pid": f"{rank}/{event.get('pid', 0)}"})
    labels = [
        {
            "ph": "M",
            "name": "process_name",
            "pid": pid,
            "args": {"name": f"python (rank {pid.split('/')[0]})"},
        }
        for pid in sorted({event["pid"] for event in events})
    ]
    base = fake_trace(rank=0, world_size=4)["baseTimeNanoseconds"]
    return {"baseTimeNanoseconds": base, "traceEvents": events + (labels if named else []), **trace}


def read(path: Path, trace: Any) -> list[Reading]:
    path.write_text(json.dumps(trace))
    return list(kineto.read(path))


def alike(one: RankRecords, other: RankRecords) -> bool:
    rows = ("steps", "phases", "collectives", "kernels")
    return (
        all((getattr(one, name) == getattr(other, name)).all() for name in rows) and one.names == other.names
    )


def test_ranks_merged_into_one_file_read_as_if_each_had_its_own(tmp_path: Path) -> None:
    readings = read(tmp_path / "merged.json", merged(0, 2, 3))
    assert [one.records.layout.rank for one in readings] == [0, 2, 3]
    assert {one.records.layout.world_size for one in readings} == {4}
    assert not any(one.warnings for one in readings)
    for one in readings:
        rank = one.records.layout.rank
        (alone,) = read(tmp_path / f"rank{rank}.json", fake_trace(rank=rank, world_size=4, num_steps=2))
        assert alike(one.records, alone.records)


def test_a_merged_file_keeps_to_the_world_it_states_and_counts_what_is_nobodys(tmp_path: Path) -> None:
    info = {"rank": 2, "world_size": 64}
    trace = merged(0, 2, distributedInfo=info)
    trace["traceEvents"].append(
        {"ph": "X", "cat": "cpu_op", "name": "x", "pid": 9, "tid": 1, "ts": 1, "dur": 1}
    )
    readings = read(tmp_path / "merged.json", trace)
    assert [(one.records.layout.rank, one.records.layout.world_size) for one in readings] == [
        (0, 64),
        (2, 64),
    ]
    assert all("1 events of processes that do not say their rank" in one.warnings[0] for one in readings)
    with pytest.raises(ReaderError, match="rank 2 does not fit into a world of 1"):
        read(tmp_path / "m.json", merged(0, 2, distributedInfo={"rank": 0, "world_size": 1}))


def test_processes_without_names_are_one_rank_and_one_clear_sentence(tmp_path: Path) -> None:
    (reading,) = read(tmp_path / "rank0.json", merged(0, 1, named=False))
    (told,) = [text for text in reading.warnings if "processes" in text]
    assert "holds 2 processes" in told and "count as rank 0" in told


def in_pairs(trace: Event) -> Event:
    """The trace with every complete event as a begin and an end, in the order of time, the outer first."""
    marks: list[tuple[float, int, float, Event]] = []
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            dur = event.get("dur", 0)
            rest = {key: value for key, value in event.items() if key not in ("ph", "ts", "dur")}
            marks.append((event["ts"], 1, -dur, {**rest, "ph": "B", "ts": event["ts"]}))
            end = {"ph": "E", "ts": event["ts"] + dur, "name": event["name"]}
            marks.append(
                (event["ts"] + dur, 0, dur, {**end, "tid": event.get("tid"), "pid": event.get("pid")})
            )
    marks.sort(key=lambda mark: mark[:3])
    return {**trace, "traceEvents": [mark[3] for mark in marks]}


def test_a_trace_of_begins_and_ends_is_the_trace_of_complete_events(tmp_path: Path) -> None:
    trace = fake_trace(rank=1, world_size=2, num_steps=2)
    (plain,) = read(tmp_path / "plain.json", trace)
    (paired,) = read(tmp_path / "pairs.json", in_pairs(trace))
    assert not paired.warnings
    assert len(plain.records.collectives) and len(plain.records.kernels)
    for rows, when in (("steps", "end_ns"), ("collectives", "end_ns"), ("kernels", "dur_ns")):
        one, other = (getattr(reading.records, rows)[when] for reading in (plain, paired))
        assert sorted(one.tolist()) == sorted(other.tolist())


def completed(pairs: Pairs, *events: Event) -> Iterator[tuple[str, object]]:
    return ((str(event["name"]), event["dur"]) for event in pairs.completed(events))


def begin(name: str, ts: object, **more: Any) -> Event:
    return {"ph": "B", "name": name, "ts": ts, "pid": 1, "tid": 1, **more}


def end(ts: object, **more: Any) -> Event:
    return {"ph": "E", "ts": ts, "pid": 1, "tid": 1, **more}


@pytest.mark.parametrize(
    ("events", "found", "num_lone"),
    [
        ([begin("a", 0), begin("b", 1), end(3), end(9)], [("b", 2), ("a", 9)], 0),
        ([begin("a", 0), begin("b", 1), end(9, name="a")], [("a", 9)], 1),  # b never ended
        ([begin("a", 0), end(4, tid=2), end(5)], [("a", 5)], 1),  # another thread's end
        ([end(4), begin("a", 5)], [], 2),
        ([begin("a", "soon"), end(4)], [("a", None)], 0),
    ],
)
def test_pairs_nest_by_thread_and_what_has_no_counterpart_is_counted(
    events: list[Event], found: list[tuple[str, object]], num_lone: int
) -> None:
    pairs = Pairs()
    assert list(completed(pairs, *events)) == found
    assert pairs.num_lone == num_lone


def test_lone_and_timeless_events_of_a_file_are_told(tmp_path: Path) -> None:
    span = {"cat": "cpu_op"}
    events = [
        begin("a", 0, **span),
        end(10),
        begin("b", 20, **span),
        begin("c", "x", **span),
        end(30, name="c"),
    ]
    (reading,) = read(tmp_path / "rank0.json", {"traceEvents": events})
    assert any("1 events begin or end without a counterpart" in text for text in reading.warnings)
    assert any("1 events have no usable time" in text for text in reading.warnings)


def test_what_many_files_have_in_common_is_one_sentence(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    traces.mkdir()
    events = [{"ph": "X", "cat": "cpu_op", "name": "x", "tid": 1, "ts": 0, "dur": 9}]
    for rank in range(FOLD_FROM + 1):
        (traces / f"rank{rank}.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    (traces / "rank9.json").write_bytes(b"\0")
    found = gather([traces], tmp_path / "scratch")
    assert len(found.readings) == FOLD_FROM + 1
    assert len(found.warnings) == 2
    assert (
        f"in {FOLD_FROM + 1} files: rank 0 is inferred from the file name, e.g. rank0.json" in found.warnings
    )


def test_few_files_and_other_sentences_stay_as_they_are() -> None:
    few = [(f"r{n}", f"r{n}: {n} rows are left out") for n in range(FOLD_FROM - 1)]
    other = [("a b.json", "a b.json: is cut"), ("x", "in a folder, x is odd")]
    assert folded([*few, *other]) == tuple(sentence for _, sentence in (*few, *other))
    many = [("m.json", f"m.json: {n} calls are unknown") for n in range(1, FOLD_FROM + 2)]
    assert folded(many) == (f"m.json: 1 calls are unknown (and {FOLD_FROM} times more like this)",)
    paths = [("x.log", f"node{n}/x.log is damaged") for n in range(FOLD_FROM)]
    assert folded(paths) == (f"{paths[0][1]} (and {FOLD_FROM - 1} times more like this)",)


def test_the_process_that_ran_the_operators_is_told_unless_several_did(tmp_path: Path) -> None:
    trace = fake_trace(rank=0, world_size=2)
    operators = [event for event in trace["traceEvents"] if event.get("cat") == "cpu_op"]
    for event in operators:
        event["pid"] = 4886
    assert [one.records.layout.pid for one in read(tmp_path / "one.json", trace)] == [4886]
    operators[-1]["pid"] = "4890"
    assert [one.records.layout.pid for one in read(tmp_path / "two.json", trace)] == [0]
