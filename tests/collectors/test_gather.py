"""Reading what lies behind paths: how far it got is told, one bad file costs only itself."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from argus.collectors.gather import gather
from argus.collectors.readers import Reading, kineto
from argus.collectors.readers._fake import fake_trace


def test_progress_is_the_share_of_each_files_bytes(tmp_path: Path) -> None:
    for rank in range(2):
        trace = fake_trace(rank=rank, world_size=2, num_steps=400)
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    told: list[tuple[str, float]] = []
    gather([tmp_path], tmp_path / "s", progress=lambda name, share: told.append((name, share)))
    for rank in range(2):
        shares = [share for name, share in told if name == f"rank{rank}.json"]
        assert shares[0] == 0.0 and shares[-1] == 1.0 and shares == sorted(shares) and len(shares) > 2


def test_a_bad_file_among_good_ones_is_one_warning(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(json.dumps(fake_trace(rank=0, world_size=2)))
    (tmp_path / "broken.json").write_bytes(b'{"traceEvents": [')
    (tmp_path / "report.nsys-rep").write_bytes(b"binary")
    (tmp_path / "notes.txt").write_text("hello")
    found = gather([tmp_path], tmp_path / "s")
    assert [one.source for one in found.readings] == ["rank0.json"]
    assert len(found.warnings) == 2 and all(warning.count("\n") == 0 for warning in found.warnings)


def test_an_error_nobody_foresaw_costs_its_own_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(fake_trace(rank=rank, world_size=2)))
    read = kineto.read

    def fails(path: Path) -> Iterator[Reading]:
        if path.name == "rank0.json":
            raise TypeError("unbound method\nneeds an argument")
        return read(path)

    monkeypatch.setattr(kineto, "read", fails)
    with caplog.at_level("DEBUG", logger="argus.gather"):
        found = gather([tmp_path], tmp_path / "s")
    assert [one.source for one in found.readings] == ["rank1.json"]
    (warning,) = found.warnings
    assert warning.startswith("rank0.json could not be read: TypeError") and "\n" not in warning
    assert "Traceback" in caplog.text


def test_a_series_is_named_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "step\x1b[2J\ntimes.csv").write_text("step,step_time\n0,1.0\n1,1.1\n")
    (one,) = gather([tmp_path], tmp_path / "s").readings
    assert one.series is not None and one.series.name.isprintable() and len(one.series.values_s) == 2


def test_names_in_an_archive_write_nothing_on_a_terminal(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(json.dumps(fake_trace(rank=0, world_size=2)))
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in ("a\x1b[2J.json", "b\nargus triage: all is well.json", "c\x9b2Jrank1\n.json"):
            body = b"\1" if "rank1" not in name else json.dumps(fake_trace(rank=1, world_size=2)).encode()
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    gathered = gather([tmp_path], tmp_path / "s")
    told = [*gathered.warnings, *(one.source for one in gathered.readings)]
    assert len(gathered.readings) == 2 and len(told) == 4 and all(map(str.isprintable, told))


def test_a_host_in_a_trace_can_be_printed(tmp_path: Path) -> None:
    trace = fake_trace(rank=0, world_size=1, host="gpu\x1b[2J-7\n")
    (tmp_path / "rank0.json").write_text(json.dumps(trace))
    (one,) = gather([tmp_path], tmp_path / "s").readings
    assert one.records.layout.host.isprintable() and one.records.layout.host.startswith("gpu")


def test_a_link_to_itself_costs_only_itself(tmp_path: Path) -> None:
    (tmp_path / "rank0.json").write_text(json.dumps(fake_trace(rank=0, world_size=2)))
    (tmp_path / "last.json").symlink_to("last.json")
    found = gather([tmp_path], tmp_path / "s")
    assert [one.source for one in found.readings] == ["rank0.json"]
    assert len(found.warnings) == 1 and found.warnings[0].startswith("last.json cannot be read")


def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rank0.json").write_text(json.dumps(fake_trace(rank=0, world_size=2)))
    (tmp_path / "shut").mkdir()
    look = os.scandir

    def refuses(path: str) -> Iterator[os.DirEntry[str]]:
        if str(path).endswith("shut"):
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", refuses)
    found = gather([tmp_path], tmp_path / "s")
    assert len(found.readings) == 1
    assert found.warnings == (f"{tmp_path / 'shut'} cannot be read (Permission denied)",)


def test_names_in_an_archive_need_not_fit_one_file_system(tmp_path: Path) -> None:
    trace = json.dumps(fake_trace(rank=0, world_size=2)).encode()
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for name in ("old/run/0/rank0.json", "run", f"{'é' * 190}/rank1.json", "rank2.json"):
            member = tarfile.TarInfo(name)
            member.size = len(trace)
            archive.addfile(member, io.BytesIO(trace))
    found = gather([tmp_path], tmp_path / "s")
    assert [one.source for one in found.readings] == ["rank0.json", "run", "rank1.json", "rank2.json"]


@pytest.mark.parametrize(
    ("method", "good", "bad"),
    [
        (zipfile.ZIP_STORED, "é.json".encode(), b"\xff\xa9.json"),
        (zipfile.ZIP_LZMA, b"\x09\x04\x05\x00\x5d", b"\x09\x04\x05\x00\xff"),
    ],
)
def test_a_damaged_zip_costs_only_itself(tmp_path: Path, method: int, good: bytes, bad: bytes) -> None:
    (tmp_path / "rank0.json").write_text(json.dumps(fake_trace(rank=0, world_size=2)))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as archive:
        archive.writestr("é.json", b"[1.0, 1.1]" * 100)
    raw = (tmp_path / "a.zip").read_bytes()
    assert good in raw
    (tmp_path / "a.zip").write_bytes(raw.replace(good, bad))
    found = gather([tmp_path], tmp_path / "s")
    assert [one.source for one in found.readings] == ["rank0.json"]
    assert found.warnings and found.warnings[-1].startswith("a.zip is damaged")


@pytest.mark.parametrize("before", [b"", bytes(4096)])
def test_zeros_around_a_text_are_no_part_of_it(tmp_path: Path, before: bytes) -> None:
    lines = [f"iteration {n}/ 9 | elapsed time per iteration (ms): {1000 + n} |" for n in range(1, 9)]
    rows = ["step,step_time", *(f"{n},1.{n}" for n in range(1, 9))]
    for name, text in (("train.log", "\n".join(lines)), ("times.csv", "\n".join(rows))):
        (tmp_path / name).write_bytes(before + text.encode() + b"\n" + bytes(4096))
    found = gather([tmp_path], tmp_path / "s")
    series = [one.series for one in found.readings if one.series is not None]
    assert not found.warnings and [one.steps for one in series] == [tuple(range(1, 9))] * 2
