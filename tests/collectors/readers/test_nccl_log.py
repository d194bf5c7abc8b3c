"""The reader of NCCL's own lines and of its watchdog's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from argus.analytics.unlike_calls import unlike_calls
from argus.collectors.gather import gather
from argus.collectors.readers import ReaderError, Reading, nccl_log
from argus.collectors.readers._fake_logs import ITERATION, nccl_lines, watchdog_lines
from argus.collectors.records.layout import GroupInfo, Layout
from argus.topology.layout import build


def read(path: Path, text: str) -> list[Reading]:
    path.write_text(text)
    return list(nccl_log.read(path))


def test_the_watchdogs_lines_are_a_dump_of_each_rank(tmp_path: Path) -> None:
    readings = read(tmp_path / "job.log", watchdog_lines({3: 1}, world=8))
    assert [one.records.layout.rank for one in readings] == list(range(8))
    dumps = {one.dump.rank: one.dump for one in readings if one.dump}
    assert dumps[0].groups == {"0": (1582, 1579)} and dumps[3].groups == {"0": (1579, 1579)}
    (call,) = dumps[0].pending
    assert (call.op, call.seq, call.group) == ("all_reduce", 1580, "0")
    assert call.timeout_ns == 600_000 * 10**6 and not dumps[3].pending
    assert readings[0].records.layout.groups[0].ranks == tuple(range(8))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("[PG ID 0 PG GUID 0(default_pg) Rank", "[PG 0 (default_pg) Rank"),
        ("[PG ID 0 PG GUID 0(default_pg) Rank", "[PG 0 Rank"),
        (", last completed NCCL work:", ", last started work: 1579, last completed work:"),
    ],
)
def test_each_versions_way_to_tell_its_counters_is_read(tmp_path: Path, ours: str, theirs: str) -> None:
    lines = watchdog_lines({3: 1}, world=8)
    readings = read(tmp_path / "job.log", lines.replace(ours, theirs))
    assert ours in lines and readings[0].records.layout.groups[0].ranks == tuple(range(8))
    dumps = {one.dump.rank: one.dump for one in readings if one.dump}
    assert dumps[0].groups == {"0": (1582, 1579)} and dumps[3].groups == {"0": (1579, 1579)}


def test_an_inner_group_without_a_guid_keeps_its_name(tmp_path: Path) -> None:
    line = "[rank{0}]:[E1 x] [PG 2 (mesh_tp) Rank {1}] last enqueued work: 50, last completed work: 49\n"
    readings = read(tmp_path / "job.log", line.format(4, 0) + line.format(5, 1))
    group = GroupInfo(name="2", desc="mesh_tp", ranks=(4, 5))
    assert [one.records.layout.groups for one in readings] == [(group,), (group,)]


def test_groups_of_several_files_are_put_together(tmp_path: Path) -> None:
    line = (
        "[rank{rank}]:[E1 x] [PG ID 2 PG GUID 99(EXPERT_MODEL_PARALLEL_GROUP) Rank {inner}] Timeout at NCCL work: 50, "
        "last enqueued NCCL work: {seq}, last completed NCCL work: 49.\n"
    )
    for inner, rank in enumerate((4, 12)):
        (tmp_path / f"log_{inner}.txt").write_text(line.format(rank=rank, inner=inner, seq=50 + inner))
    readings = gather([tmp_path], tmp_path / "s").readings
    assert [one.records.layout.rank for one in readings] == [4, 12], "not the number within the group"
    assert {one.records.layout.groups[0].ranks for one in readings} == {(4, 12)}
    assert {one.records.layout.groups[0].desc for one in readings} == {"EXPERT_MODEL_PARALLEL_GROUP"}


def test_the_rank_of_a_file_counts_where_its_lines_have_none(tmp_path: Path) -> None:
    text = watchdog_lines({}, world=1).replace("[rank0]:", "")
    (reading,) = read(tmp_path / "stderr-rank-6.log", text)
    assert reading.records.layout.rank == 6


def test_a_rank_without_its_counters_made_no_other_call(tmp_path: Path) -> None:
    lines = watchdog_lines({}, world=8).splitlines(keepends=True)
    text = "".join(line for line in lines if not ("[rank5]" in line and "last enqueued" in line))
    dumps = [one.dump for one in read(tmp_path / "job.log", text) if one.dump]
    assert len(dumps) == 8 and len({dump.pending[0].shape for dump in dumps}) == 1
    assert {dump.groups["0"] for dump in dumps} == {(1582, 1579)}, "nor is it behind"
    group = GroupInfo(name="0", desc="default_pg", ranks=tuple(range(8)))
    layouts = [
        Layout(run="dump", attempt=0, rank=rank, world_size=8, groups=(group,), source="nccl_log")
        for rank in range(8)
    ]
    untold = [replace(dump.pending[0], shape="") if dump.rank == 5 else dump.pending[0] for dump in dumps]
    for calls in (untold, [dump.pending[0] for dump in dumps]):
        each = [replace(dump, pending=(call,)) for dump, call in zip(dumps, calls, strict=True)]
        assert unlike_calls(each, build(layouts)) == ()


@pytest.mark.parametrize("label", ["0: ", "[1,0]<stderr>:", "2025-03-21T02:07:08Z stderr F ", "(W pid=7) "])
def test_the_label_of_c10d_counts_before_a_launchers(tmp_path: Path, label: str) -> None:
    lines = watchdog_lines({3: 1}, world=8).splitlines(keepends=True)
    tp = "[rank7]:[E1 ProcessGroupNCCL.cpp:7] [PG ID 2 PG GUID 9(tp) Rank 1] last enqueued work: 50, last completed work: 49\n"
    readings = read(tmp_path / "worker-1.log", "".join(label + line for line in [*lines, tp]))
    dumps = {one.dump.rank: one.dump for one in readings if one.dump}
    assert list(dumps) == list(range(8)) and dumps[3].groups == {"0": (1579, 1579)}
    assert dumps[7].groups == {"0": (1582, 1579), "9": (50, 49)} and "9" not in dumps[1].groups


def test_a_number_within_a_group_is_no_rank(tmp_path: Path) -> None:
    tp = "[E1 ProcessGroupNCCL.cpp:7] [PG ID 2 PG GUID 9(tp) Rank 1] last enqueued work: 50, last completed work: 49\n"
    readings = read(tmp_path / "job.log", watchdog_lines({}, world=2) + tp)
    assert [one.dump.groups for one in readings if one.dump] == [{"0": (1582, 1579)}] * 2


def test_a_log_of_counters_alone_is_the_watchdogs(tmp_path: Path) -> None:
    """It was read as folded stacks: text, then a number."""
    lines = [line for line in watchdog_lines({3: 1}, world=8).splitlines() if "last enqueued" in line]
    log = tmp_path / "job.log"
    log.write_text("\n".join(line.rstrip(".") for line in lines))
    found = gather([log], tmp_path / "scratch").readings
    assert [one.dump.rank for one in found if one.dump] == [0, 1, 2, 4, 5, 6, 7]


def test_a_rank_that_no_job_has_is_nobodys(tmp_path: Path) -> None:
    line = "[rank{0}]:[E] [PG 0 (default_pg) Rank {0}] last enqueued work: 5, last completed work: 3\n"
    (reading,) = read(tmp_path / "job.log", line.format(2) + line.format(9_999_999))
    assert reading.records.layout.rank == 2 and reading.records.layout.world_size < 100


@pytest.mark.parametrize("done", ["76280750235782912", "-1", "99999999999999999999"])
def test_counters_nobody_set_are_no_progress(tmp_path: Path, done: str) -> None:
    text = (
        "[rank2]:[E x] [PG 0 Rank 2] Timeout at NCCL work: 1, last enqueued NCCL work: 1, "
        f"last completed NCCL work: {done}.\n"
    )
    (reading,) = read(tmp_path / "a.log", text)
    assert reading.dump is not None and reading.dump.groups == {"0": (1, 0)}


def test_what_nccl_says_of_hosts_and_ranks(tmp_path: Path) -> None:
    text = nccl_lines(4, networks={2: "Socket", 3: "Socket"})
    text += "h-1:102:300 [2] misc/ibvwrap.cc:190 NCCL WARN NET/IB : mlx5_2:1 Got async event : port error\n"
    (reading,) = read(tmp_path / "a.log", text)
    told = [(event.node, event.kind, event.text) for event in reading.events]
    texts = [text for node, kind, text in told if node == "host:h-1" and not kind]
    assert "the network Socket" in texts[0] and "without GPUDirect" in texts[1]
    assert any(
        kind == "port_errors" and text.startswith("1 warnings of a network port") for _, kind, text in told
    )
    assert any(node.startswith("rank:") and "55.01 s" in text for node, _, text in told)
    assert "host:h-0" not in {node for node, _, _ in told}
    assert reading.records.layout.world_size == 4


def test_one_log_holds_lines_for_several_readers(tmp_path: Path) -> None:
    text = (
        nccl_lines()
        + "".join(ITERATION.format(step=n, ms=1000 + n) for n in range(40))
        + watchdog_lines({1: 2}, world=4)
    )
    (tmp_path / "slurm-7.out").write_text(text)
    readings = gather([tmp_path], tmp_path / "s").readings
    assert sum(one.series is not None for one in readings) == 1
    assert sorted(one.dump.rank for one in readings if one.dump) == [0, 1, 2, 3]
    assert {one.records.layout.host for one in readings if one.dump} == {"h-0", "h-1"}


def test_text_of_others_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ReaderError, match=r"a\.log holds no line of NCCL"):
        read(tmp_path / "a.log", "hello\n")


def test_a_time_that_is_none_costs_its_line(tmp_path: Path) -> None:
    line = (
        "h-0:1:1 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 1.2.3 (kernels 0.1)\n"
    )
    (reading,) = read(tmp_path / "job.log", nccl_lines() + line)
    assert reading.events == read(tmp_path / "job.log", nccl_lines())[0].events
