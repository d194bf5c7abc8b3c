"""The reader of training logs: step lines, tables of timers, straggler lines with their milliwatts."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path

import pytest

from argus.collectors.gather import gather
from argus.collectors.host.window import phase_cells
from argus.collectors.readers import ReaderError, Reading, training_log
from argus.collectors.readers._fake_logs import ITERATION, STRAGGLER, timer_tables
from argus.collectors.readers._files import Inflated
from argus.collectors.readers._lines import Lines, parse
from argus.collectors.readers._straggler_line import watts

TIMERS = {
    "forward-backward": [31.0, 31.0],
    "forward-compute": [10.0, 11.0],
    "batch-generator": [2.0, 1.0],
    "backward-compute": [20.0, 19.0],
    "all-grads-sync": [1.0, 5.0],
    "optimizer-inner-step": [2.0, 2.0],
    "optimizer": [3.0, 3.0],
}


def read(path: Path, text: str) -> list[Reading]:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return list(training_log.read(path))


@pytest.mark.parametrize("name", ["train.log", "slurm-12.out.gz"])
def test_a_table_of_all_ranks_becomes_the_ranks_phases(tmp_path: Path, name: str) -> None:
    readings = read(tmp_path / name, "noise\n" + timer_tables(TIMERS, num_tables=3))
    ranks = [one for one in readings if one.series is None]
    assert [one.records.layout.rank for one in ranks] == [0, 1] and ranks[0].records.layout.world_size == 2
    one = ranks[0].records
    assert one.steps["user_step"].tolist() == [10, 20, 30] and one.steps["step"].tolist() == [0, 1, 2]
    cells = phase_cells(one.phases)
    found = {
        one.name(cell["phase"]): (cell["sum_ns"] / 1e6, cell["wait_ns"] / 1e6)
        for cell in cells
        if not cell["step"]
    }
    assert found["forward"] == (8.0, 0.0), "the batch is loaded inside of the forward timer"
    assert found["data"] == (2.0, 0.0) and found["backward"] == (20.0, 0.0)
    assert found["grad_sync"] == (1.0, 1.0) and found["optimizer"] == (3.0, 0.0)
    assert found["other"][0] == found["other"][1]


def test_a_timer_that_only_wraps_others_counts_where_there_are_none(tmp_path: Path) -> None:
    (_, one, _) = read(tmp_path / "t.log", timer_tables({"forward-backward": [30.0, 33.0]}, num_tables=2))
    names = {one.records.name(row["native"]) for row in one.records.phases}
    assert names == {"forward-backward", "other"}


def test_least_and_largest_are_told_where_they_lie_apart(tmp_path: Path) -> None:
    table = (
        "(min, max) time across ranks (ms):\n"
        "    forward-compute ................................: (340.12, 468.20)\n"
        "    backward-compute ...............................: (640.00, 641.00)\n"
    )
    readings = read(tmp_path / "t.log", (ITERATION.format(step=1, ms=1500) + table) * 3)
    told = [event.text for one in readings for event in one.events]
    assert len(told) == 1 and told[0].startswith("forward-compute takes 340.12 ms")


def test_trap_9_the_straggler_line_prints_milliwatts_with_a_w(tmp_path: Path) -> None:
    assert (watts(601_796.0), watts(601.8)) == (601.796, 601.8)
    (reading,) = read(tmp_path / "t.log", STRAGGLER * 4)
    told = {
        event.text.split(" ")[1] if "GPU" in event.text else event.text[:4]: event for event in reading.events
    }
    assert "451.8 W against 683.8 W" in told["power"].text and told["power"].node == "rank:5"
    assert not any("451796" in event.text or "683801" in event.text for event in reading.events)
    assert told["clock"].kind == "clock" and told["clock"].value == 1410.0 and told["clock"].node == "rank:5"
    assert told["power"].kind == told["temperature"].kind == "", (
        "only the clock is a sign, the others are notes"
    )
    assert any("the slowest by throughput in 4 of 4" in e.text and e.node == "rank:5" for e in reading.events)


def test_clocks_alike_are_no_sign(tmp_path: Path) -> None:
    (reading,) = read(tmp_path / "t.log", STRAGGLER.replace("1410MHz", "1950MHz"))
    assert {event.kind for event in reading.events} == {""}


def test_deepspeed_timers_of_several_ranks_are_compared(tmp_path: Path) -> None:
    lines = [
        f"[Rank {rank}] rank={rank} time (ms) | fwd: {100 + rank} | bwd: 200 | bwd_inner: 150 | bwd_allreduce: 50 | step: 9\n"
        for _ in range(4)
        for rank in (0, 1)
    ]
    found = read(tmp_path / "ds.log", "".join(lines))
    ranks = [one for one in found if one.series is None]
    series = [one.series for one in found if one.series is not None]
    assert [(one.name, set(one.values_s)) for one in series] == [
        ("ds/rank 0", {0.309}),
        ("ds/rank 1", {0.31}),
    ]
    assert [one.records.layout.rank for one in ranks] == [0, 1]
    assert [len(one.records.steps) for one in ranks] == [4, 4]
    phases = {ranks[1].records.name(row["name"]) for row in ranks[1].records.phases}
    assert phases == {"forward", "backward", "optimizer", "other"}


def test_each_rank_that_prints_step_lines_has_its_own_series(tmp_path: Path) -> None:
    line = (
        "[rank{rank}]:[titan] 2026-01-05 - root - INFO - step: {step:2d}  loss: 8.1  tps: {tps:,}  mfu: 4%\n"
    )
    text = "".join(
        line.format(rank=rank, step=step, tps=2000 - 500 * rank) for step in range(1, 5) for rank in (0, 1)
    )
    series = [one.series for one in read(tmp_path / "titan.log", text)]
    assert [one.name for one in series if one] == ["titan/rank 0", "titan/rank 1"]
    assert [len(one.values_s) for one in series if one] == [4, 4]


@pytest.mark.parametrize(
    ("raw", "rank", "text"),
    [
        ("[rank3]: hello", 3, "hello"),
        ("[rank12]:[titan] x", 12, "[titan] x"),
        ("7: srun says", 7, "srun says"),
        ("[1,4]<stdout>:mpirun", 4, "mpirun"),
        ("[default1]:torchrun", -1, "torchrun"),
        ("\x1b[31mred\x1b[0m", -1, "red"),
        ("[2026-01-05 10:00:00,1] x", -1, "[2026-01-05 10:00:00,1] x"),
        ("10:00:01 x", -1, "10:00:01 x"),
    ],
)
def test_what_launchers_put_before_a_line(raw: str, rank: int, text: str) -> None:
    line = parse(raw)
    assert (line.rank, line.text) == (rank, text)


def test_a_log_without_anything_is_one_sentence_only_if_it_was_named(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    path = tmp_path / "job" / "other.log"
    path.write_text("nothing to see\n" * 50)
    with pytest.raises(ReaderError, match=r"other\.log"):
        list(training_log.read(path))
    assert gather([tmp_path / "job"], tmp_path / "s").warnings == ()
    assert gather([path], tmp_path / "s").warnings == (f"{path} is in no format that is known",)


def test_interesting_lines_may_come_late(tmp_path: Path) -> None:
    (tmp_path / "slurm-9.out").write_text("noise of a start\n" * 8000 + timer_tables(TIMERS, num_tables=2))
    assert len(gather([tmp_path], tmp_path / "s").readings) == 3


@pytest.mark.parametrize("late", [0, 10, 20])
def test_ranks_without_a_label_give_one_value_a_step(tmp_path: Path, late: int) -> None:
    printed = [(step + rank % 2 * late, step, rank) for step in range(10, 310, 10) for rank in range(8)]
    lines = (f"step: {step}  loss: 5.2  tps: {step * (96 + rank)}\n" for _, step, rank in sorted(printed))
    (one,) = read(tmp_path / "a.log", "".join(lines))
    assert one.series is not None and one.series.steps == tuple(range(10, 310, 10))
    assert one.series.values_s[4] == pytest.approx(1 / (50 * 99.5), rel=1e-3)


def test_steps_after_a_restart_are_values_of_their_own(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "a.log", step_lines([*range(1, 21), *range(11, 41)], end="\n"))
    assert one.series is not None and one.series.steps == (*range(1, 21), *range(11, 41))


def step_lines(steps: Iterable[int], *, end: str, bar: str = "") -> str:
    return "".join(f"{bar}step: {step}  loss:  5.2  tps: {100 + step}{end}" for step in steps)


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_a_carriage_return_ends_a_line_too(tmp_path: Path, end: str) -> None:
    (one,) = read(tmp_path / "a.log", step_lines(range(1, 4001), end=end))
    assert one.series is not None and not one.warnings
    assert len(one.series.values_s) == 4000 and one.series.first_step == 1


def test_a_step_behind_a_long_progress_bar_is_read_and_keeps_its_rank(tmp_path: Path) -> None:
    bar = "".join(f" {at}%|####|\r" for at in range(9000))
    text = "".join(step_lines([1, 2, 3], end="\n", bar=f"[rank{rank}]:{bar}") for rank in (0, 1))
    readings = read(tmp_path / "a.log", text)
    assert [one.series and (one.series.name, len(one.series.values_s)) for one in readings] == [
        ("a/rank 0", 3),
        ("a/rank 1", 3),
    ]


def test_a_line_that_is_cut_is_told(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "a.log", step_lines([1, 2], end="\n", bar="." * (3 << 20)))
    assert one.series is not None and len(one.series.values_s) == 2
    assert len(one.warnings) == 1 and "longer than 65,536 characters" in one.warnings[0]


def test_a_line_feed_in_the_next_chunk_ends_the_same_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"[rank1]: a\r\nb\r\n\r\n[rank2]: c\rd")
    whole = [("a", 1), ("b", -1), ("", -1), ("c", 2), ("d", 2)]
    read_some = Inflated.read
    monkeypatch.setattr(Inflated, "read", lambda source: read_some(source, 1))
    assert [(line.text, line.rank) for line in Lines(path)] == whole
