"""The reader of NCCL Inspector's lines: calls, steps by their pattern, ranks over communicators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from argus.collectors.gather import gather
from argus.collectors.readers import ReaderError, Reading, nccl_inspector
from argus.collectors.readers._fake_inspector import fake_inspector


def read(path: Path, text: str) -> Reading:
    path.write_text(text)
    (reading,) = nccl_inspector.read(path)
    return reading


def test_calls_and_the_steps_they_repeat_in(tmp_path: Path) -> None:
    reading = read(tmp_path / "h-0-pid1001.log", fake_inspector(rank=1, world_size=4, num_steps=10))
    one = reading.records
    assert one.layout.rank == 1 and one.layout.world_size == 4 and one.layout.host == "h-0"
    assert one.steps["step"].tolist() == list(range(10)) and len(one.collectives) == 30
    assert {one.name(row["op"]) for row in one.collectives} == {"all_reduce"}
    assert (one.collectives["end_ns"] - one.collectives["entry_ns"] == 5_000_000).all()
    assert (one.phases["wait_ns"] < one.phases["dur_ns"]).all() and (one.phases["wait_ns"] > 0).all()
    assert reading.warnings == ()


def test_without_the_verbose_form_ends_are_those_of_writing(tmp_path: Path) -> None:
    reading = read(tmp_path / "a.log", fake_inspector(rank=0, world_size=2, is_verbose=False))
    assert any("do not tell when they began" in warning for warning in reading.warnings)
    calls = reading.records.collectives
    assert (calls["end_ns"] - calls["entry_ns"] == 5_000_000).all()


def test_lines_that_are_missing_shift_nothing(tmp_path: Path) -> None:
    """The plug-in writes the last call of each communicator: what happened between two looks is not there."""
    whole = fake_inspector(rank=0, world_size=2, num_steps=40).splitlines(keepends=True)
    kept = [line for index, line in enumerate(whole) if index % 7 != 3]
    reading = read(tmp_path / "a.log", "".join(kept))
    steps = {(int(row["seq"]) // 16) // 3 - int(row["step"]) for row in reading.records.collectives}
    assert steps <= {0, -1, 1}
    assert set(reading.records.steps["step"].tolist()) <= set(range(40))


def test_members_of_small_communicators_are_told_by_all_files(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"h-pid{rank}.log").write_text(fake_inspector(rank=rank, world_size=4, pair=True))
    readings = gather([tmp_path], tmp_path / "s").readings
    groups = {group.name: group.ranks for one in readings for group in one.records.layout.groups}
    assert groups == {"0xabc": (0, 1, 2, 3), "0xd0": (0, 1), "0xd1": (2, 3)}


def test_no_pattern_is_one_step_and_is_said(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in fake_inspector(rank=0, world_size=2, num_steps=8).splitlines()]
    for number, line in enumerate(lines):
        line["coll_perf"]["coll_msg_size_bytes"] = 1000 + number**3
    reading = read(tmp_path / "a.log", "".join(json.dumps(line) + "\n" for line in lines))
    assert len(reading.records.steps) == 1 and any("repeat no pattern" in text for text in reading.warnings)


def test_flat_lines_and_sends_are_understood_or_said(tmp_path: Path) -> None:
    flat = {
        "id": "0x1",
        "rank": 0,
        "n_ranks": 2,
        "pid": 7,
        "hostname": "w-0",
        "dump_timestamp_us": 10_000_000,
    }
    perf = {"coll": "AllGather", "coll_sn": 1, "coll_msg_size_bytes": 8, "coll_exec_time_us": 61.5}
    send = {**flat, "p2p_perf": {"p2p": "Send", "p2p_sn": 1}}
    text = json.dumps({**flat, "coll_perf": perf}) + "\n" + json.dumps(send) + "\nbroken {\n"
    reading = read(tmp_path / "a.log", text)
    assert reading.records.layout.host == "w-0" and len(reading.records.collectives) == 1
    assert any("1 lines are no calls" in text for text in reading.warnings)
    assert any("1 sends and receives" in text for text in reading.warnings)


@pytest.mark.parametrize("bad", [float("nan"), -1, 10**30, "soon", None, True])
def test_hostile_values_are_counted(tmp_path: Path, bad: object) -> None:
    lines = fake_inspector(rank=0, world_size=2, num_steps=8).splitlines()
    odd = json.loads(lines[0])
    odd["coll_perf"] |= {"coll_sn": bad, "coll_exec_time_us": bad}
    odd["coll_perf"].pop("event_trace_ts")
    reading = read(tmp_path / "a.log", "\n".join([json.dumps(odd), *lines]))
    assert len(reading.records.collectives) == 24
    assert any("1 lines are no calls" in text for text in reading.warnings)


def test_a_file_without_calls_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ReaderError, match=r"a\.log holds no collective call"):
        read(tmp_path / "a.log", '{"header": {}}\n')


def test_files_of_several_processes_put_together_are_ranks_of_their_own(tmp_path: Path) -> None:
    texts = [
        fake_inspector(rank=rank, world_size=4, late_us=5000 * (rank == 2), latest_us=5000)
        for rank in range(4)
    ]
    for rank, text in enumerate(texts):
        (tmp_path / f"pid{rank}.log").write_text(text)
    mixed = [line for lines in zip(*(text.splitlines() for text in texts), strict=True) for line in lines]
    (tmp_path / "all.log").write_text("\n".join([*mixed, "torn {"]))
    found = list(nccl_inspector.read(tmp_path / "all.log"))
    assert [one.records.layout.rank for one in found] == [0, 1, 2, 3]
    for rank, one in enumerate(found):
        (alone,) = nccl_inspector.read(tmp_path / f"pid{rank}.log")
        assert one.records.collectives.tolist() == alone.records.collectives.tolist()
        assert one.records.steps.tolist() == alone.records.steps.tolist()
    assert [one.warnings for one in found] == [
        ("all.log: 1 lines are no calls and are left out",),
        (),
        (),
        (),
    ]


@pytest.mark.parametrize("num_processes", [1, 2])
def test_a_process_that_drives_several_gpus_is_as_many_ranks(tmp_path: Path, num_processes: int) -> None:
    by_process: dict[int, list[str]] = {}
    for rank in range(4):
        text = fake_inspector(rank=rank, world_size=4, late_us=5000 * (rank == 2), latest_us=5000, pair=True)
        (tmp_path / f"pid{rank}.txt").write_text(text)
        lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            line["metadata"] |= {"pid": 1 + rank // (4 // num_processes), "hostname": "h"}
        by_process.setdefault(lines[0]["metadata"]["pid"], []).append(
            "".join(json.dumps(line) + "\n" for line in lines)
        )
    found = []
    for process, texts in by_process.items():
        (tmp_path / f"p{process}.log").write_text("".join(texts))
        found += list(nccl_inspector.read(tmp_path / f"p{process}.log"))
    assert [one.records.layout.rank for one in found] == [0, 1, 2, 3]
    for rank, one in enumerate(found):
        (alone,) = nccl_inspector.read(tmp_path / f"pid{rank}.txt")
        calls = alone.records.collectives
        world = calls[[alone.records.name(row["group"]) == "0xabc" for row in calls]]
        assert one.records.collectives["entry_ns"].tolist() == world["entry_ns"].tolist()
        assert len(one.records.steps) == len(alone.records.steps)
    told = [text for one in found for text in one.warnings]
    assert len(told) == num_processes
    assert all(f"{96 // num_processes} calls of smaller communicators" in text for text in told)
