"""The reader of Nsight Systems exports: kernels, NVTX steps and phases, several processes, hostile files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from argus.collectors.gather import gather
from argus.collectors.job import join
from argus.collectors.readers import ReaderError, Reading, nsight
from argus.collectors.readers._fake_nsight import EPOCH_NS, fake_report


def read(path: Path) -> list[Reading]:
    return list(nsight.read(path))


def sql(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return path


def test_steps_phases_kernels_and_collectives(tmp_path: Path) -> None:
    (reading,) = read(fake_report(tmp_path / "report-rank-3.sqlite", num_steps=4))
    one = reading.records
    assert one.layout.rank == 3 and one.layout.host == "node-1" and one.layout.gpu_model == "Fake GPU"
    assert one.steps["step"].tolist() == [0, 1, 2, 3] and one.steps["start_ns"][0] == EPOCH_NS
    assert {one.name(row["name"]) for row in one.phases} >= {"forward", "backward", "optimizer"}
    assert [one.name(row["op"]) for row in one.collectives] == ["all_reduce"] * 4
    assert {one.name(row["role"]) for row in one.kernels} == {"compute", "comm:world"}
    assert not reading.is_world_known and any("rank 3 is inferred" in warning for warning in reading.warnings)


@pytest.mark.parametrize(
    "name", ["Step #{step}", "training_step {step}", "iter{step}", "iteration", "train_step"]
)
def test_steps_by_whatever_their_range_is_called(tmp_path: Path, name: str) -> None:
    (reading,) = read(fake_report(tmp_path / "rank0.sqlite", num_steps=3, step_name=name))
    assert reading.records.steps["step"].tolist() == [0, 1, 2]


def test_without_steps_all_of_it_is_one(tmp_path: Path) -> None:
    (reading,) = read(fake_report(tmp_path / "rank0.sqlite", step_name="work"))
    assert len(reading.records.steps) == 1
    assert any("step boundaries: no NVTX range" in text for text in reading.records.unseen)


def test_the_processes_of_a_node_are_ranks_in_the_order_of_their_gpus(tmp_path: Path) -> None:
    readings = read(fake_report(tmp_path / "node.sqlite", late_ms={0: 0.0, 1: 2.0, 2: 0.0}))
    assert [one.records.layout.rank for one in readings] == [0, 1, 2]
    assert [one.records.layout.device for one in readings] == ["0", "1", "2"]
    assert not any(one.is_rank_known for one in readings)
    later = read(fake_report(tmp_path / "node-rank-8.sqlite", late_ms={0: 0.0, 1: 0.0}))
    assert [one.records.layout.rank for one in later] == [8, 9]


def test_nodes_are_numbered_in_the_order_of_their_reports(tmp_path: Path) -> None:
    for node in ("a", "b"):
        (tmp_path / f"node-{node}").mkdir()
        path = tmp_path / f"node-{node}" / "report1.sqlite"
        fake_report(path, late_ms={0: 0.0, 1: 0.0}, host=node)
    found = gather([tmp_path], tmp_path / "s")
    assert [(one.records.layout.rank, one.records.layout.host) for one in found.readings] == [
        (0, "a"),
        (1, "a"),
        (2, "b"),
        (3, "b"),
    ]
    assert [text for text in found.warnings if text.startswith("node-b/report1.sqlite: ranks 2 to 3 are")]
    assert join(found.readings).records[0].layout.groups[0].ranks == (0, 1, 2, 3)


def test_one_process_without_a_rank_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ReaderError, match=r"report1\.sqlite: the rank is missing"):
        read(fake_report(tmp_path / "report1.sqlite"))


def test_tables_that_were_not_needed_are_not_there(tmp_path: Path) -> None:
    path = fake_report(tmp_path / "rank0.sqlite")
    missing = (
        "TARGET_INFO_GPU",
        "TARGET_INFO_SYSTEM_ENV",
        "TARGET_INFO_SESSION_START_TIME",
        "CUPTI_ACTIVITY_KIND_RUNTIME",
    )
    (reading,) = read(sql(path, *(f"DROP TABLE {table}" for table in missing)))
    assert len(reading.records.kernels) and not reading.is_time_known and reading.records.layout.host == ""
    (reading,) = read(sql(path, "DROP TABLE NVTX_EVENTS"))
    assert len(reading.records.steps) == 1
    with pytest.raises(ReaderError, match="without kernels and NVTX"):
        read(sql(path, "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL"))


@pytest.mark.parametrize("value", ["NULL", "'soon'", "-5", "9223372036854775807", "1e300"])
def test_hostile_values_are_counted(tmp_path: Path, value: str) -> None:
    path = fake_report(tmp_path / "rank0.sqlite")
    sql(path, "CREATE TABLE k AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL", "DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL",
        f"UPDATE k SET end = {value} WHERE rowid % 5 = 0", "ALTER TABLE k RENAME TO CUPTI_ACTIVITY_KIND_KERNEL")  # fmt: skip
    (reading,) = read(path)
    assert any("no usable time" in warning for warning in reading.warnings)
    assert len(reading.records.kernels)


def test_views_are_not_read(tmp_path: Path) -> None:
    """A view called like a table would run whatever its maker wanted, without end if he liked."""
    path = sql(
        tmp_path / "rank0.sqlite",
        "CREATE TABLE StringIds (id INTEGER, value TEXT)",
        "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start, "
        "i AS end, i AS globalTid FROM n",
    )
    with pytest.raises(ReaderError, match="without kernels and NVTX"):
        read(path)


def test_a_report_that_was_not_exported_says_how(tmp_path: Path) -> None:
    path = tmp_path / "report.nsys-rep"
    path.write_bytes(b"\x00\x01binary")
    assert nsight.sniff(path.read_bytes(), path.name)
    with pytest.raises(ReaderError, match="nsys export --type sqlite report.nsys-rep"):
        read(path)


@pytest.mark.parametrize("version", [2, 3])
def test_tables_with_a_version_in_their_names_are_the_same(tmp_path: Path, version: int) -> None:
    plain = fake_report(tmp_path / "rank0.sqlite", late_ms=[3.0])
    suffixed = fake_report(tmp_path / "rank0_v.sqlite", late_ms=[3.0])
    with closing(sqlite3.connect(suffixed)) as connection, connection:
        for table in ("NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"):
            connection.execute(f"ALTER TABLE {table} RENAME TO {table}_V{version}")
    (ours,), (theirs,) = nsight.read(plain), nsight.read(suffixed)
    assert len(ours.records.steps) > 1 and theirs.records.steps.tolist() == ours.records.steps.tolist()
    assert theirs.records.phases.tolist() == ours.records.phases.tolist()
    assert theirs.records.collectives.tolist() == ours.records.collectives.tolist()
