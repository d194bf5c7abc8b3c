"""The reader of phase timers: what it takes out of a table, and what it refuses in one sentence."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from argus.collectors.gather import gather
from argus.collectors.host.window import phase_cells
from argus.collectors.job import join
from argus.collectors.readers import ReaderError, Reading, phase_timers
from argus.collectors.readers._fake_timers import FakeJob, fake_rows, write_table

pytest.importorskip("pyarrow")


def read(path: Path) -> list[Reading]:
    return list(phase_timers.read(path))


def test_each_worker_is_a_rank_with_its_micro_batches(tmp_path: Path) -> None:
    job = FakeJob(replicas=2, stages=2, chunks=2, micro_batches=4, steps=2)
    readings = read(write_table(tmp_path / "trace-XY.parquet", fake_rows(job)))
    assert [one.records.layout.rank for one in readings] == [0, 1, 2, 3]
    one = readings[2].records
    assert one.layout.run == "XY"
    assert {group.desc: group.ranks for group in one.layout.groups}["pipeline_model_parallel_group"] == (0, 2)
    assert {group.desc: group.ranks for group in one.layout.groups}["data_parallel_group"] == (2, 3)
    forward = one.phases[[one.name(i) == "forward-compute" for i in one.phases["native"]]]
    assert len(forward) == 2 * 2 * 4
    assert set(forward["chunk"].tolist()) == {0, 1}
    assert {one.name(i) for i in forward["name"]} == {"forward"}
    assert one.steps["user_step"].tolist() == [10, 11] and one.steps["step"].tolist() == [0, 1]


def test_waiting_in_communication_is_no_work(tmp_path: Path) -> None:
    (one, *_) = read(write_table(tmp_path / "t.parquet", fake_rows(FakeJob())))
    cells = phase_cells(one.records.phases)
    total = {one.records.name(c["phase"]): (int(c["sum_ns"]), int(c["wait_ns"])) for c in cells}
    assert total["forward"][1] == 0 and total["backward"][1] == 0
    assert total["grad_sync"][0] == total["grad_sync"][1] > 0


def test_both_ends_of_a_transfer_carry_the_same_number(tmp_path: Path) -> None:
    rows = fake_rows(FakeJob(replicas=1, stages=2, chunks=2, micro_batches=4, steps=2))
    sender, receiver = (one.records for one in read(write_table(tmp_path / "t.parquet", rows)))

    def ends(one: Any, op: str) -> set[tuple[int, int]]:
        mine = one.collectives[[one.name(i) == op for i in one.collectives["op"]]]
        return {(int(row["seq"]), int(row["end_ns"])) for row in mine}

    assert len(ends(sender, "send")) == 2 * (2 * 4 + 4)
    assert ends(sender, "send") == ends(receiver, "recv")
    assert ends(sender, "recv") == ends(receiver, "send")


def test_a_worker_stands_for_its_tensor_parallel_ranks(tmp_path: Path) -> None:
    path = write_table(tmp_path / "t.parquet", fake_rows(FakeJob(replicas=2, stages=2), stride=4))
    job = join(read(path))
    assert job.world_size == 16 and job.ranks == (0, 4, 8, 12) and job.missing == ()


def test_a_timers_table_without_optional_columns_is_enough(tmp_path: Path) -> None:
    rows = fake_rows(FakeJob(steps=1))
    path = write_table(tmp_path / "t.parquet", rows, seq_id=None, mc=None, mb_id=None)
    assert len(read(path)) == 8


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"stage": None}, "without stage"),
        ({"optype": None, "rank": None}, "without rank, optype"),
        ({"duration": ["long"]}, "columns of other types"),
        ({"duration": [-1.0]}, "no operation with"),
        ({"start_ts": [float("nan")]}, "no operation with"),
        ({"rank": [1 << 40]}, "no operation with"),
        ({"rank": [-3]}, "no operation with"),
        ({"optype": ["unheard-of"]}, "no operation with"),
        ({"stage": "numbered"}, "several places"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(
    tmp_path: Path, columns: dict[str, Any], said: str
) -> None:
    rows = fake_rows(FakeJob(steps=1))
    full = {
        key: list(range(len(rows))) if value == "numbered" else value and value * len(rows)
        for key, value in columns.items()
    }
    with pytest.raises(ReaderError, match=said) as caught:
        read(write_table(tmp_path / "odd.parquet", rows, **full))
    assert "odd.parquet" in str(caught.value) and "\n" not in str(caught.value)


def test_single_impossible_rows_are_left_out_with_a_warning(tmp_path: Path) -> None:
    rows = fake_rows(FakeJob(steps=2))
    durations = [row["duration"] for row in rows]
    durations[5] = float("inf")
    first = read(write_table(tmp_path / "t.parquet", rows, duration=durations))[0]
    assert first.warnings == ("t.parquet: 1 rows without a possible worker, step or time are left out",)


@pytest.mark.parametrize("keep", [4, 60, 0.5, 0.9])
def test_a_damaged_file_is_one_sentence(tmp_path: Path, keep: float) -> None:
    body = write_table(tmp_path / "t.parquet", fake_rows(FakeJob(steps=1))).read_bytes()
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(body[: int(keep if keep >= 1 else keep * len(body))])
    with pytest.raises(ReaderError, match=r"cut\.parquet is damaged parquet"):
        read(cut)


def test_random_damage_never_raises_anything_else(tmp_path: Path) -> None:
    body = write_table(tmp_path / "t.parquet", fake_rows(FakeJob(steps=1))).read_bytes()
    rng = np.random.default_rng(7)
    for _ in range(60):
        bad = bytearray(body)
        for place in rng.integers(4, len(body), 8).tolist():
            bad[place] = int(rng.integers(256))
        path = tmp_path / "bad.parquet"
        path.write_bytes(bytes(bad))
        try:
            readings = read(path)
        except ReaderError:
            continue
        assert all(len(one.records.phases) for one in readings)


def test_without_the_package_the_one_line_to_run_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_table(tmp_path / "t.parquet", fake_rows(FakeJob(steps=1)))

    def absent(name: str) -> ModuleType:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(phase_timers, "import_module", absent)
    gathered = gather([path], tmp_path / "scratch")
    assert gathered.readings == ()
    assert "pip install 'argus-triage[readers]'" in gathered.warnings[0]
