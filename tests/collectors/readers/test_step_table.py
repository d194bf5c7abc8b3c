"""Tables of step times: which columns are read, in which units, and what is refused in one sentence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from argus.collectors.readers import ReaderError, Reading, step_series
from argus.collectors.records.series import StepSeries

EPOCH = 1_796_176_000.0


def readings(path: Path, text: str) -> list[Reading]:
    path.write_text(text)
    return list(step_series.read(path))


def read(path: Path, text: str) -> list[StepSeries]:
    return [one.series for one in readings(path, text) if one.series is not None]


def table(head: str, rows: Sequence[Sequence[object]], mark: str = ",") -> str:
    return "\n".join([head, *(mark.join(map(str, row)) for row in rows)])


@pytest.mark.parametrize(
    "text",
    [
        "step;step_time\n0;1,5\n1;1,0625\n2;2",
        "step;step_time\n0;1,500\n1;1,0625\n2;2,000",
        "step\tstep_time\n0\t1,5\n1\t1,0625\n2\t2",
        'step,step_time\n0,"1,5"\n1,"1,0625"\n2,"2"',
        "0;1,5\n1;1,0625\n2;2",
        "step,step_time\n0,1.5s\n1,1.0625 s\n2,2 sec",
        "step,step_time\n0,1500ms\n1,1062.5 ms\n2,2000000us",
        "step,step_time_ms\n0,1500ms\n1,1062.5\n2,2 s",
        'step,step_time_ms\n0,"1,500"\n1,"1,062.5"\n2,"2,000"',
        "step;step_time_ms\n0;1.500,0\n1;1.062,5\n2;2.000",
        "step;step_time_us\n0;1.500.000,0\n1;1.062.500\n2;2.000.000",
        "step;step_time_ms\n0;1\u202f500,0\n1;1\u00a0062,5 ms\n2;2 000",
        "step,step_time_ms\n0,1'500.0\n1,1'062.5\n2,2’000",
        "sep=;\nstep;step_time\n0;1,5\n1;1,0625\n2;2",
        "\ufeffstep,step_time\n0,1.5\n1,1.0625\n2,2",
        "_step,loss,sec/it\n0,9,1.5\n1,8,1.0625\n2,7,2",
        "step,train/data_time,train/iter_time (ms)\n0,9,1500\n1,8,1062.5\n2,7,2000",
        "time,step,step_time\n1796176000,0,1.5\n1796176002,1,1.0625\n1796176003,2,2",
        '"Step","sun-7 - train/step_time","sun-7 - train/step_time__MIN"\n"0","1.5","1"\n"1","1.0625","1"\n"2","2","1"',
    ],
)
def test_numbers_in_every_dress_are_the_same_seconds(tmp_path: Path, text: str) -> None:
    (one,) = read(tmp_path / "t.csv", text)
    assert one.values_s == pytest.approx((1.5, 1.0625, 2.0))
    assert (one.name, one.unit, one.first_step, one.interval) == ("t", "s", 0, 1)


@pytest.mark.parametrize(
    ("head", "unit"),
    [
        ("tokens_per_sec", "s a token"),
        ("samples/s", "s a sample"),
        ("it/s", "s"),
        ("throughput", "s a unit of work"),
    ],
)
def test_throughput_is_read_as_its_inverse_and_says_so(tmp_path: Path, head: str, unit: str) -> None:
    (one,) = read(tmp_path / "t.csv", table(f"step,loss,{head}", [(0, 9, 4), (1, 8, 5), (2, 7, 0)]))
    assert one.values_s[:2] == (0.25, 0.2) and math.isnan(one.values_s[2])
    assert one.unit == unit
    (one,) = read(tmp_path / "t.csv", table(f"{head},step_time", [(4, 1.5), (5, 1.6)]))
    assert (one.values_s, one.unit) == ((1.5, 1.6), "s")


@pytest.mark.parametrize(
    "clock",
    [
        lambda at: f"{EPOCH + at:.3f}",
        lambda at: f"{(EPOCH + at) * 1e3:.0f}",
        lambda at: f"{at:.2f}",
        lambda at: f"2026-12-01 10:00:{at:09.6f}",
        lambda at: f"2026-12-01T10:00:{at:09.6f}Z",
    ],
)
@pytest.mark.parametrize("head", ["time", "timestamp"])
def test_the_steps_of_a_clock_are_its_differences(
    tmp_path: Path, head: str, clock: Callable[[float], str]
) -> None:
    at = [0.0, 1.0, 2.0, 3.0, 4.0, 5.5, 7.0, 10.0, 11.5, 13.0]
    step = [10, 11, 12, 13, 14, 15, 16, 18, 19, 20]
    rows = [(clock(a), s, 2.0) for a, s in zip(at, step, strict=True)]
    (one,) = read(tmp_path / "t.csv", table(f"{head},step,loss", rows))
    assert one.values_s == pytest.approx([1.0] * 4 + [1.5] * 5, abs=2e-3)
    assert (one.first_step, one.interval) == (11, 1)


def test_a_clock_that_went_back_has_a_gap(tmp_path: Path) -> None:
    at = [*range(100, 130), *range(5, 35)]
    (one,) = read(tmp_path / "t.csv", table("_runtime", [(f"{a}.00",) for a in at]))
    assert [i for i, value in enumerate(one.values_s) if math.isnan(value)] == [29]
    assert set(one.values_s[:29]) == {1.0}


def test_durations_called_time_are_no_clock(tmp_path: Path) -> None:
    values = tuple(1.0 + (i * 7 % 10) / 100 for i in range(40))
    (one,) = read(tmp_path / "t.csv", table("step,time", list(enumerate(values))))
    assert one.values_s == values


def test_a_clock_of_whole_seconds_says_nothing_of_short_steps(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with pytest.raises(ReaderError, match=r"t\.csv .*'timestamp'.* too coarse"):
        read(path, table("timestamp", [(int(EPOCH + 1.5 * i),) for i in range(40)]))
    (one,) = read(path, table("timestamp", [(int(EPOCH + 60 * i),) for i in range(40)]))
    assert set(one.values_s) == {60.0}


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("t.csv", (1.0, 1.05), (1.0, 1.05)),
        ("run-tag-step_time.csv", (0.01, 0.02), (0.01, 0.02)),
        ("run-tag-loss.csv", (1.0, 1.05), (1.1,)),
        ("t.csv", (8.0, 7.9), (1.1,)),
    ],
)
def test_values_of_tensorboard_are_seconds_if_tag_or_clock_say_so(
    tmp_path: Path, name: str, values: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    rows = [(f"{EPOCH + 1.1 * i:.3f}", i, value) for i, value in enumerate(values)]
    (one,) = read(tmp_path / name, table("Wall time,Step,Value", rows))
    assert one.values_s == pytest.approx(expected, abs=2e-3)


def test_rows_of_several_ranks_give_a_series_each(tmp_path: Path) -> None:
    rows = [(rank, step, step + rank / 8 + 1) for step in (0, 5, 10) for rank in (2, 0, 1)]
    found = read(tmp_path / "t.csv", table("rank,step,step_time", rows))
    assert [(one.name, one.interval, one.values_s) for one in found] == [
        (f"t/rank {rank}", 5, tuple(step + rank / 8 + 1 for step in (0, 5, 10))) for rank in (2, 0, 1)
    ]
    hosts = [("a", 0, 1.0), ("b", 0, 2.0), ("a", 1, 3.0)]
    found = read(tmp_path / "t.csv", table("host,local_rank,step_time", hosts))
    assert [one.name for one in found] == [f"t/host {h}, local_rank {r}" for h, r, _ in hosts]
    (one,) = read(tmp_path / "t.csv", table("rank,step_time", [(3, 1.0), (3, 2.0)]))
    assert one.name == "t"


def test_a_column_a_rank_and_a_file_called_step_times_need_no_other_name(tmp_path: Path) -> None:
    rows = [(1, 1.0, 1.1), (2, 1.0, 1.2)]
    for name, head in (("t.csv", "step,rank0,rank1"), ("step_times.csv", "step,base,new")):
        found = read(tmp_path / name, table(head, rows))
        assert [one.values_s for one in found] == [(1.0, 1.0), (1.1, 1.2)]
        assert [one.name.rpartition("/")[2] for one in found] == head.split(",")[1:]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("step,loss\n0,1.9\n1,1.8", "only 'step', 'loss': call the column of seconds step_time"),
        ("step,base,new\n1,1.0,1.1", "only 'step', 'base', 'new'"),
        ("name,city\nbob,paris\nann,rome", "only 'name', 'city'"),
        ("step,data_time,mem\n0,1.0,3\n1,1.0,3", "only 'step', 'data_time', 'mem'"),
        ("step,step_time\n0,fast\n1,slow", "no number"),
        ("step,step_time\n", "no row"),
        ("step,step_time\n0,0\n1,0", "zero or less"),
        ("step,step_time\n0,1.0\n1,-1.0\n2,1.0\n3,-1.0", "zero or less"),
        ("step,step_time\n0,1796176000\n1,1796176001", "1.796e+09 s a step"),
        ("[0, 0, 0, 0]", "zero or less"),
        ("[null, null]", "no number"),
    ],
)
def test_what_holds_no_step_times_is_one_sentence(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(ReaderError) as caught:
        read(tmp_path / "t.csv", text)
    assert why in str(caught.value) and str(caught.value).startswith("t.csv holds no ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "head",
    [
        "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name",
        "Time(%),Total Time (ms),Calls,Average,Minimum,Maximum,Style,Range",
        "Start (ns),Duration (ns),CorrId,Device,Strm,Bytes,Throughput,Reg,Name",
        "Start (ns),End (ns),Duration (ns),DurChild (ns),Name,PID,TID,Lvl,NumChild",
    ],
)
def test_tables_of_nsys_stats_hold_no_steps(tmp_path: Path, head: str) -> None:
    rows = [(step, 1000, *([3] * (head.count(",") - 2)), "gemm") for step in range(60)]
    with pytest.raises(ReaderError, match="nsys export --type sqlite"):
        read(tmp_path / "report1_sum.csv", table(head, rows))


def test_steps_with_a_start_and_a_duration_are_no_table_of_nsys(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "t.csv", table("name,start,duration", [("a", 1, 1.5), ("b", 3, 1.25)]))
    assert one.values_s == (1.5, 1.25)


def test_a_column_without_numbers_beside_a_good_one_is_told(tmp_path: Path) -> None:
    (one,) = readings(tmp_path / "t.csv", table("a - step_time,b - step_time", [("1.0", ""), ("2.0", "")]))
    assert one.series is not None and one.series.values_s == (1.0, 2.0)
    assert [warning.count("b - step_time") for warning in one.warnings] == [1]


def test_names_that_a_job_writes_again_are_no_row(tmp_path: Path) -> None:
    attempt = table("step,step_time", [(step, 1.0) for step in range(10, 20)])
    (one,) = readings(tmp_path / "t.csv", f"{attempt}\n{attempt}\n")
    assert one.series is not None and one.series.steps == (*range(10, 20), *range(10, 20))
    assert not one.warnings
