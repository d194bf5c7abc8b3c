"""Folders of Ascend's profiler: the rank beside the trace, and tables that are no step times."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from argus.collectors.gather import gather
from argus.collectors.readers._fake import fake_trace

OUTPUT = "ASCEND_PROFILER_OUTPUT"
KERNELS = (
    "Step Id,Name,Start Time(us),Duration(us),Wait Time(us)\n" + "3,MatMul,1700000000000.1,20.5,1\n" * 30
)


def profiled(folder: Path, worker: str, *, info: str = "") -> None:
    """What the profiler leaves of a process: one list of events, a table of kernels and its settings."""
    below = folder / worker / OUTPUT
    below.mkdir(parents=True)
    events = [
        {**event, "cat": "cpu_op", "ts": f"{event['ts'] + 1.7e15:.3f}"}
        for event in fake_trace(rank=0, world_size=2, num_steps=2)["traceEvents"]
        if event["cat"] in ("cpu_op", "user_annotation")
    ]
    (below / "trace_view.json").write_text(json.dumps(events))
    (below / "kernel_details.csv").write_text(KERNELS)
    if info:
        (below.parent / info).write_text('{"config": {}}')


def ranks(folder: Path) -> list[int]:
    return [one.records.layout.rank for one in gather([folder], folder.parent / "s").readings]


def test_the_rank_stands_in_the_name_of_a_file_beside_the_trace(tmp_path: Path) -> None:
    for rank in range(2):
        worker = f"host_{10 + rank}_20260101_ascend_pt"
        profiled(tmp_path / "job", worker, info=f"profiler_info_{rank}.json")
    found = gather([tmp_path / "job"], tmp_path / "s")
    assert [one.records.layout.rank for one in found.readings] == [0, 1]
    assert not any(one.series for one in found.readings)
    assert not any("the rank is missing" in warning for warning in found.warnings)


def test_the_rank_stands_in_the_name_of_the_process_folder(tmp_path: Path) -> None:
    for rank in range(2):
        profiled(tmp_path / "job", f"rank{rank}_20260101_ascend_pt")
    assert ranks(tmp_path / "job") == [0, 1]
    with tarfile.open(tmp_path / "job.tar", "w") as archive:
        archive.add(tmp_path / "job", "job")
    assert ranks(tmp_path / "job.tar") == [0, 1]


@pytest.mark.parametrize("infos", [(), ("profiler_info_0.json", "profiler_info_1.json")])
def test_without_a_rank_the_place_where_it_stands_is_told(tmp_path: Path, infos: tuple[str, ...]) -> None:
    profiled(tmp_path / "job", "host_10_20260101_ascend_pt")
    for name in infos:
        (tmp_path / "job" / "host_10_20260101_ascend_pt" / name).write_text("{}")
    found = gather([tmp_path / "job"], tmp_path / "s")
    assert not found.readings and any("profiler_info_RANK.json" in warning for warning in found.warnings)


def test_a_table_of_kernels_is_no_step_time(tmp_path: Path) -> None:
    (tmp_path / OUTPUT).mkdir()
    table = tmp_path / OUTPUT / "kernel_details.csv"
    table.write_text(KERNELS)
    for asked in (tmp_path, tmp_path / OUTPUT, table):
        found = gather([asked], tmp_path / "s")
        assert not found.readings and "tells of no step" in found.why_nothing
