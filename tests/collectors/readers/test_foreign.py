"""Files of other tools: what they are and what to give instead, in one sentence."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from argus.collectors.gather import gather
from argus.collectors.readers._fake import fake_trace
from tests.collectors.readers.test_kineto import write

RAS = b"NCCL version 2.26.2\n\nJob summary\n===========\n\n  Nodes\n      4\n\nCommunicators... (0.00s)\n"
TWICE = gzip.compress(gzip.compress(b'{"traceEvents": []}', mtime=0), mtime=0)
"""Without the second it was packed in: the name of a test is the same in every process that collects it."""


@pytest.mark.parametrize(
    ("name", "body", "said"),
    [
        (
            "events.out.tfevents.1700000000.host.1.0",
            b"\x18\0\0\0\0\0\0\0brain.Event:2",
            "scalar of the step time as CSV",
        ),
        ("0/a1/metrics/step_time", b"1700000000000 1.25 0\n1700000001000 1.3 1\n", "MLflow"),
        ("ras.txt", RAS, "NCCL's RAS"),
        (
            "dump3.txt",
            b"Process 12: python train.py\nPython v3.10.6 (python)\n\nThread 12",
            "py-spy record -f raw",
        ),
        ("k8s.log", b'{"log":"[rank0]: hello\\n","stream":"stderr","time":"2025"}\n', "jq -rj .log"),
        ("mlperf.log", b':::MLLOG {"namespace": "", "time_ms": 17}\n', "step,step_time in CSV"),
        ("trainer_state.json", b'{"epoch": 1.0, "log_history": [{"step": 1}]}', "holds no times"),
        ("run-abc.wandb", b":W&B\xbe\xe1\0\1\2", "history of the run as CSV"),
        ("rank0.json.gz", TWICE, "compressed twice"),
        ("rank0.json.zst", b"\x28\xb5\x2f\xfd\1\2\3", "zstd: unpack it first"),
        ("times.csv", "step,step_time\n0,1.5\n".encode("utf-16"), "UTF-16"),
        ("rank0.json.gz", b"version https://git-lfs.github.com/spec/v1\noid sha256:4d\n", "git lfs pull"),
        ("rank0.sqlite", b"\0" * 4096, "is empty or damaged"),
        ("train.log", b"hello\n" * 9, "is in no format that is known"),
    ],
)
def test_a_folder_of_what_nobody_reads_says_what_it_is(
    tmp_path: Path, name: str, body: bytes, said: str
) -> None:
    path = tmp_path / "given" / name
    path.parent.mkdir(parents=True)
    path.write_bytes(body)
    for given in (tmp_path / "given", path):
        gathered = gather([given], tmp_path)
        assert not gathered.readings and said in gathered.why_nothing
        assert "\n" not in gathered.why_nothing and path.name in gathered.why_nothing


def test_the_event_files_beside_traces_are_let_be(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", fake_trace(rank=0, world_size=1))
    (tmp_path / "events.out.tfevents.17.host.1.0").write_bytes(b"\x18\0\0\0\0\0\0\0brain.Event:2")
    gathered = gather([tmp_path], tmp_path)
    assert len(gathered.readings) == 1 and gathered.warnings == ()


def test_known_formats_are_told_before_files_of_none(tmp_path: Path) -> None:
    (tmp_path / "meta.yaml").write_text("run_id: abc\n")
    (tmp_path / "step_time").write_text("1700000000000 1.25 0\n")
    assert "MLflow" in (told := gather([tmp_path], tmp_path).why_nothing) and "meta" not in told


def test_an_empty_folder_and_one_of_links_are_told(tmp_path: Path) -> None:
    (tmp_path / "run" / "node0").mkdir(parents=True)
    assert gather([tmp_path / "run"], tmp_path).why_nothing == "there is no file to read"
    write(tmp_path / "other" / "rank0.json", fake_trace(rank=0, world_size=1))
    (tmp_path / "run" / "node1").symlink_to(tmp_path / "other")
    (tmp_path / "run" / "latest").symlink_to("node0")
    (told,) = gather([tmp_path / "run"], tmp_path).warnings
    assert told.startswith("node1 is a link that leads out of")


def test_a_workbook_is_told_as_one(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as book:
        for name in ("[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet1.xml"):
            book.writestr(name, "<x/>")
    assert gather([tmp_path / "t.xlsx"], tmp_path / "s").why_nothing == (
        f"{tmp_path / 't.xlsx'} is a workbook of Excel: save the sheet as CSV"
    )
