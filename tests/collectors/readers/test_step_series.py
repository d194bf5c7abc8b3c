"""Bare step times in JSON, tables and logs: every form, and one sentence for what cannot be used."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from argus.collectors.readers import ReaderError, reader_for, step_series, training_log
from argus.collectors.records.series import StepSeries

MEGATRON = (
    " [2026-01-05 10:00:00] iteration {step:8d}/  250000 | consumed samples: 186368 | "
    "elapsed time per iteration ({unit}): {value} | learning rate: 1.0E-04 | global batch size: 1024 | "
    "lm loss: 2.38E+00 | number of skipped iterations: 0 |\n"
)
TITAN = "\x1b[31mstep: {step:2d}  \x1b[32mloss: 8.1  grad_norm: 0.2 \x1b[34mmemory: 3.1GiB(4%)  tps: {tps:,}  mfu: 4%\x1b[0m\n"
DEEPSPEED = (
    "[Rank 0] step={step}, skipped=0, lr=[0.001], RunningAvgSamplesPerSec=3.9, CurrSamplesPerSec={rate}\n"
)
PIPE = "steps: {step} loss: 4.6178 iter time (s): {value:.3f} samples/sec: 257.601\n"
TIMERS = (
    "[Rank 0] rank=0 time (ms) | fwd: 600.5 | bwd: {bwd} | bwd_inner: 1 | bwd_allreduce: 2 | step: 99.5\n"
)


def read(path: Path, text: str | bytes, *, reader: ModuleType = step_series) -> list[StepSeries]:
    body = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(body) if path.suffix == ".gz" else body)
    assert reader_for(body[:65536], path.name) is reader
    return [one.series for one in reader.read(path) if one.series is not None]


def js(raw: object) -> str:
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("raw", "name", "interval", "first"),
    [
        ([1.0, 2, 3.5], "run", 1, 0),
        ({"values": [1.0, 2, 3.5], "interval": 5}, "run", 5, 0),
        ({"my job": {"interval": 5, "values": [1.0, 2, 3.5]}}, "my job", 5, 0),
        (
            {
                "iteration-time": {
                    "start_step": 3,
                    "step_interval": 4,
                    "values": {"3": 1.0, "7": 2, "11": 3.5},
                }
            },
            "run",
            4,
            3,
        ),
    ],
)
def test_json_forms(tmp_path: Path, raw: object, name: str, interval: int, first: int) -> None:
    (one,) = read(tmp_path / "run.json", js(raw))
    assert (one.name, one.interval, one.first_step, one.values_s) == (name, interval, first, (1.0, 2.0, 3.5))


def test_many_series_in_one_file(tmp_path: Path) -> None:
    raw = {name: {"interval": 1, "values": [1.0, None, "x", 2.0]} for name in "abc"} | {"odd": 3}
    found = read(tmp_path / "all.json", js(raw))
    assert [one.name for one in found] == ["a", "b", "c"]
    assert np.isnan(found[0].values_s[1:3]).all()


@pytest.mark.parametrize(
    ("text", "values", "interval", "first"),
    [
        ("1.5\n1.6\n", (1.5, 1.6), 1, 0),
        ("step,step_time_s\n10,1.5\n15,1.6\n20,1.7\n", (1.5, 1.6, 1.7), 5, 10),
        ("iteration\tloss\titeration_time_ms\n1\t9.0\t1500\n2\t8.0\t1600\n", (1.5, 1.6), 1, 1),
        ("5;1.5\n6;1.6\n", (1.5, 1.6), 1, 5),
        ("# a remark\nseconds\n1.5\n\n1.6\n", (1.5, 1.6), 1, 0),
    ],
)
def test_tables(tmp_path: Path, text: str, values: tuple[float, ...], interval: int, first: int) -> None:
    (one,) = read(tmp_path / "t.csv", text)
    assert one.values_s == pytest.approx(values)
    assert (one.interval, one.first_step) == (interval, first)


@pytest.mark.parametrize(
    ("lines", "values", "unit", "interval"),
    [
        (
            [MEGATRON.format(step=i * 100, unit="ms", value=1500.0 + i) for i in (1, 2, 3)],
            (1.501, 1.502, 1.503),
            "s",
            100,
        ),
        ([MEGATRON.format(step=i, unit="s", value=1.5) for i in (1, 2)], (1.5, 1.5), "s", 1),
        ([TITAN.format(step=i, tps=2000 * i) for i in (1, 2)], (5e-4, 2.5e-4), "s a token", 1),
        ([DEEPSPEED.format(step=10 * i, rate=4.0) for i in (1, 2)], (0.25, 0.25), "s a sample", 10),
        ([TIMERS.format(bwd=1300.0 * i) for i in (1, 2)], (2.0, 3.3), "s", 1),
        ([PIPE.format(step=10 * i, value=0.5 * i) for i in (1, 2)], (0.5, 1.0), "s", 10),
    ],
)
@pytest.mark.parametrize("name", ["train.log", "slurm-1.out", "train.log.gz"])
def test_logs_of_frameworks(
    tmp_path: Path, lines: list[str], values: tuple[float, ...], unit: str, interval: int, name: str
) -> None:
    text = "starting\n" + "some other line: 3\n".join(lines) + "done\n"
    (one,) = read(tmp_path / name, text, reader=training_log)
    assert one.values_s == pytest.approx(values)
    assert (one.unit, one.interval) == (unit, interval)


@pytest.mark.parametrize(
    "line",
    [
        MEGATRON.format(step=7, unit="ms", value=1500.0),
        "[rank0]:[titan] 2026-01-05 10:00:00,000 - root - INFO - " + TITAN.format(step=7, tps=2000),
        (
            "[2026-01-05 10:00:00,1] [INFO] [timer.py:264:stop] epoch=0/micro_step=7/global_step=7, "
            "RunningAvgSamplesPerSec=4.0, CurrSamplesPerSec=4.0, MemAllocated=1GB\n"
        ),
        TIMERS.format(bwd=1300.0),
    ],
)
def test_a_log_may_begin_with_a_step_line_whose_bracket_is_not_json(tmp_path: Path, line: str) -> None:
    (one,) = read(
        tmp_path / "train.log", "".join(line.replace("7", step) for step in "789"), reader=training_log
    )
    assert len(one.values_s) == 3 and all(math.isfinite(value) for value in one.values_s)
    assert one.first_step in (0, 7)


def test_a_list_may_begin_with_what_is_no_number_and_hold_what_is_no_time(tmp_path: Path) -> None:
    (one,) = read(tmp_path / "t.json", "[null, 1.0, NaN, 1e400, 1e300, 2.0]")
    assert one.values_s[1] == 1.0 and one.values_s[5] == 2.0
    assert all(math.isnan(one.values_s[place]) for place in (0, 2, 3, 4))


@pytest.mark.parametrize("body", [b"no numbers,here\nat,all\n", b"\n\n \n x", b"a,b\n"])
def test_a_table_without_times_is_one_sentence(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "t.csv").write_bytes(body)
    with pytest.raises(ReaderError, match=r"t\.csv"):
        list(step_series.read(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b'{"job_meta": {"trial_name": "AR"}}', "result.json"),
        (b'{"traceEvents": []}', "t.json"),
        (b"Fault ranks: [9, 14]\n", "fault_injection.log"),
        (b"trial_name: AR\nworld_size: 64\n", "meta.yaml"),
        (b"[{}]", "x.json"),
        (b"a,b\0", "x.csv"),
        (b"step by step\n", "notes.txt"),
    ],
)
def test_other_files_are_let_be(head: bytes, name: str) -> None:
    assert step_series.sniff(head, name) is False


def test_random_damage_is_one_sentence(tmp_path: Path) -> None:
    bodies = [
        js({"a": {"interval": 1, "values": [1.0] * 30}}).encode(),
        "".join(MEGATRON.format(step=i, unit="ms", value=3.0) for i in range(20)).encode(),
        b"step,step_time\n" + b"1,1.5\n" * 20,
    ]
    rng = np.random.default_rng(3)
    path = tmp_path / "x.csv"
    for turn in range(300):
        bad = bytearray(bodies[turn % 3])
        for place in rng.integers(0, len(bad), 5).tolist():
            bad[place] = int(rng.integers(256))
        path.write_bytes(bytes(bad))
        try:
            found: list[Any] = list(step_series.read(path))
        except ReaderError as error:
            assert "x.csv" in str(error) and "\n" not in str(error)
            continue
        assert all(one.series is not None for one in found)


@pytest.mark.parametrize("head", ["step_s", "step_s,loss", "global_step,step,step_s", "step,step_s"])
def test_a_step_in_seconds_is_a_time_and_no_counter(tmp_path: Path, head: str) -> None:
    column = head.split(",").index("step_s")
    width = head.count(",") + 1
    rows = [",".join(f"1.{n}" if i == column else str(n) for i in range(width)) for n in range(3)]
    (series,) = read(tmp_path / "t.csv", "\n".join([head, *rows]))
    assert series.values_s == (1.0, 1.1, 1.2)


def golden(*names: str) -> dict[str, object]:
    """Golden values of Megatron of these names."""
    values = {str(step): 10.0 - step / 10 for step in range(1, 60)}
    return {name: {"start_step": 1, "end_step": 59, "step_interval": 1, "values": values} for name in names}


def test_golden_values_without_times_are_refused_by_what_they_hold(tmp_path: Path) -> None:
    with pytest.raises(ReaderError, match=r"run\.json holds no step times: .*'lm loss', 'num-zeros'$"):
        read(tmp_path / "run.json", js(golden("lm loss", "num-zeros")))
    (one,) = read(tmp_path / "run.json", js(golden("lm loss", "iteration-time")))
    assert one.name == "run" and len(one.values_s) == 59


@pytest.mark.parametrize("keys", [{}, {"interval": 1}])
def test_a_loss_in_any_form_is_no_step_time(tmp_path: Path, keys: dict[str, int]) -> None:
    one = {**keys, "values": [2.0, 1.9, 1.8]}
    with pytest.raises(ReaderError, match=r"there is no 'iteration-time', only 'lm loss', 'grad-norm'$"):
        read(tmp_path / "run.json", js({"lm loss": one, "grad-norm": one}))
    (tmp_path / "run.json").write_text(js({"lm loss": one, "mem-max-allocated-bytes": one, "low-lr": one}))
    (kept,) = step_series.read(tmp_path / "run.json")
    assert kept.series is not None and kept.series.name == "low-lr"
    assert kept.warnings == ("run.json: 2 entries are no series and are left out",)
