"""The kineto reader: what it takes out of a trace, and what it does with broken ones."""

from __future__ import annotations

import gzip
import json
import os
import random
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from argus.collectors.gather import gather
from argus.collectors.host.window import phase_cells
from argus.collectors.readers import ReaderError, Reading, _files, kineto
from argus.collectors.readers._fake import fake_trace
from argus.collectors.records.events import CLOCK_GPU

SHARED = Path(__file__).resolve().parents[3].parent / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the public traces are not here")


def write(path: Path, trace: Any) -> Path:
    """A trace file, compressed if its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = trace if isinstance(trace, bytes) else json.dumps(trace).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def read(path: Path) -> Reading:
    """The one reading of a file."""
    (reading,) = kineto.read(path)
    return reading


def calls(reading: Reading) -> list[tuple[str, str, int, int]]:
    """(op, group, seq, bytes) of every collective."""
    one = reading.records
    return [
        (one.name(row["op"]), one.name(row["group"]), int(row["seq"]), int(row["bytes"]))
        for row in one.collectives
    ]


def phases(reading: Reading) -> dict[str, tuple[int, float, float]]:
    """Clock, duration and wait in µs by phase, over all steps."""
    one = reading.records
    out: dict[str, tuple[int, float, float]] = {}
    for cell in phase_cells(one.phases):
        name = one.name(cell["phase"])
        _, dur, wait = out.get(name, (0, 0.0, 0.0))
        out[name] = (int(cell["clock"]), dur + cell["sum_ns"] / 1e3, wait + cell["wait_ns"] / 1e3)
    return out


@pytest.mark.parametrize("is_modern", [True, False])
def test_each_transfer_is_counted_once_and_named_by_its_launch(tmp_path: Path, is_modern: bool) -> None:
    trace = fake_trace(rank=1, world_size=4, num_steps=2, is_modern=is_modern)
    reading = read(write(tmp_path / "t.json", trace))
    group = "0" if is_modern else "world"
    size = 4000 if is_modern else 0
    assert calls(reading) == [
        ("all_to_all", group, 0, size),
        ("all_reduce", group, 1, size),
        ("all_to_all", group, 2, size),
        ("all_reduce", group, 3, size),
    ]
    assert reading.records.layout.groups[0].ranks == (0, 1, 2, 3)
    assert not reading.warnings


def test_steps_phases_and_kernels(tmp_path: Path) -> None:
    reading = read(write(tmp_path / "t.json.gz", fake_trace(rank=0, world_size=2, late_us=500)))
    one = reading.records
    assert one.steps["step"].tolist() == [3] and one.steps["user_step"].tolist() == [3]
    assert one.steps["start_ns"][0] == 1_700_000_000 * 10**9
    found = phases(reading)
    assert found["data"] == (0, 900.0, 0.0)
    assert found["forward"] == (CLOCK_GPU, 3000.0, 0.0)
    assert found["backward"][0] == found["optimizer"][0] == CLOCK_GPU
    roles = {one.name(row["role"]) for row in one.kernels}
    assert roles == {"compute", "comm:world"}
    assert {one.name(row["name"]) for row in one.kernels if one.name(row["role"]) == "compute"} == {"gemm"}


def test_waiting_for_a_late_peer_is_not_self_time(tmp_path: Path) -> None:
    """The all-to-all holds the compute stream: its gap inside the forward is wait."""
    trace = fake_trace(rank=0, world_size=2, latest_us=5_000)
    trace["traceEvents"] = events = [e for e in trace["traceEvents"] if e["ts"] != 4_050]
    forward = next(e for e in events if e["name"] == "## forward ##")
    forward["dur"] += 6_000
    launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 100, "ts": 3_970, "dur": 5}
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "tid": 7, "ts": 9_000, "dur": 100}
    events += [
        {**launch, "args": {"correlation": 9}},
        {**kernel, "args": {"stream": 7, "correlation": 9, "device": 0}},
    ]
    clock, dur, wait = phases(read(write(tmp_path / "t.json", trace)))["forward"]
    assert clock == CLOCK_GPU and dur == 8_050
    assert 4_500 <= wait <= 5_050


def test_cpu_only_gloo_spans_are_the_transfer(tmp_path: Path) -> None:
    def span(name: str, ts: float, dur: float, tid: int = 1, cat: str = "cpu_op") -> dict[str, Any]:
        return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "tid": tid, "args": {}}

    events = [
        span("ProfilerStep#5", 0, 1000, cat="user_annotation"),
        span("aten::linear", 10, 90),
        span("autograd::engine::evaluate_function: Add", 200, 100),
        span("c10d::allreduce_", 290, 5),
        span("gloo:all_reduce", 300, 500, tid=2, cat="user_annotation"),
        span("Optimizer.step#SGD.step", 850, 50, cat="user_annotation"),
    ]
    info = {"rank": 1, "world_size": 2}
    reading = read(write(tmp_path / "t.json", {"distributedInfo": info, "traceEvents": events}))
    assert calls(reading) == [("all_reduce", "world", 0, 0)]
    found = phases(reading)
    assert found["backward"] == (0, 600.0, 500.0), "the wait at the end of backward belongs to it"
    assert found["optimizer"][1] == 50.0


def test_launches_without_kernels_are_said_not_timed(tmp_path: Path) -> None:
    trace = fake_trace(rank=0, world_size=2)
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e["cat"] not in ("kernel", "cuda_runtime")]
    reading = read(write(tmp_path / "t.json", trace))
    assert calls(reading) == []
    assert any("2 collectives are launched but" in warning for warning in reading.warnings)


def test_groups_in_every_form(tmp_path: Path) -> None:
    config = [
        {"pg_name": "0", "pg_desc": "default_pg", "pg_size": "4", "ranks": []},
        {"pg_name": "5", "pg_desc": "mesh_tp", "pg_size": 2, "ranks": "[0, 1]"},
        "{'pg_name': '6', 'pg_desc': 'mesh_dp', 'ranks': {'0': 0, '2': 1}}",
        {"pg_name": "bad", "pg_desc": "x", "ranks": [0, 99]},
    ]
    info = str({"rank": "0", "world_size": "4", "pg_config": config})
    reading = read(
        write(tmp_path / "t.json", fake_trace(rank=0, world_size=4, info={}) | {"distributedInfo": info})
    )
    assert {g.name: g.ranks for g in reading.records.layout.groups} == {
        "0": (0, 1, 2, 3),
        "5": (0, 1),
        "6": (0, 2),
    }


def test_a_list_of_ranks_cut_short_is_rebuilt_from_its_stride(tmp_path: Path) -> None:
    trace = fake_trace(rank=0, world_size=8)
    for event in trace["traceEvents"]:
        if "Process Group Ranks" in event["args"]:
            event["args"] |= {"Process Group Name": "7", "Process Group Ranks": "[0, 2, ...]"}
            event["args"] |= {"Global rank start": 0, "Global rank stride": 2, "Group size": 4}
    reading = read(write(tmp_path / "t.json", trace))
    assert [g.ranks for g in reading.records.layout.groups if g.name == "7"] == [(0, 2, 4, 6)]
    assert {call[1] for call in calls(reading)} == {"7"}


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("worker7_step_12.169.pt.trace.json", 7),
        ("rank-34.Jul_15.json", 34),
        ("x_rank_3.json", 3),
        ("RANK2.json", 2),
    ],
)
def test_rank_from_the_file_name_is_said(tmp_path: Path, name: str, rank: int) -> None:
    reading = read(write(tmp_path / name, fake_trace(rank=0, world_size=64, info={})))
    assert reading.records.layout.rank == rank
    assert any(f"rank {rank} is inferred from the file name" in warning for warning in reading.warnings)
    assert not reading.is_world_known


@pytest.mark.parametrize("name", ["mi250_train_ROCm6_2.json", "trace_12.json", "frank3.json"])
def test_no_rank_is_one_sentence(tmp_path: Path, name: str) -> None:
    with pytest.raises(ReaderError, match="the rank is missing") as caught:
        read(write(tmp_path / name, fake_trace(rank=0, world_size=2, info={})))
    assert name in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_what_is_readable_of_a_cut_file_is_kept(tmp_path: Path, share: float, suffix: str) -> None:
    whole = write(tmp_path / f"rank0{suffix}", fake_trace(rank=0, world_size=2, num_steps=20)).read_bytes()
    cut = tmp_path / f"cut-rank0{suffix}"
    cut.write_bytes(whole[: int(len(whole) * share)])
    reading = read(cut)
    assert 0 < len(reading.records.steps) <= 20
    assert any("cut short" in warning for warning in reading.warnings)
    assert not reading.is_time_known, "its time base stood at the end"


def test_damaged_gzip_data_is_said(tmp_path: Path) -> None:
    trace = fake_trace(rank=0, world_size=2, num_steps=400)
    path = write(tmp_path / "rank0.json.gz", trace)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 64] = bytes(64)
    path.write_bytes(raw)
    try:
        assert any("damaged" in w or "malformed" in w for w in read(path).warnings)
    except ReaderError as error:
        assert "rank0.json.gz" in str(error)


def test_random_damage_never_raises_anything_else(tmp_path: Path) -> None:
    whole = json.dumps(fake_trace(rank=0, world_size=2, num_steps=2)).encode()
    draw = random.Random(7)
    for _ in range(60):
        raw = bytearray(whole)
        for _ in range(draw.randint(1, 20)):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        path = write(tmp_path / "rank0.json", bytes(raw[: draw.randint(1, len(raw))]))
        try:
            assert all(isinstance(r, Reading) for r in kineto.read(path))
        except ReaderError as error:
            assert "rank0.json" in str(error)


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -1e300, "soon", None, [], 10**30, True], ids=lambda v: repr(v)[:8]
)
def test_hostile_values_are_counted(tmp_path: Path, value: object) -> None:
    trace = fake_trace(rank=0, world_size=2)
    events = trace["traceEvents"]
    events += [{**event, "ts": value, "args": {"correlation": value, "stream": value}} for event in events]
    reading = read(write(tmp_path / "t.json", trace))
    assert len(reading.records.collectives) >= 2
    if value is not True:
        assert any("no usable time" in warning for warning in reading.warnings)


def test_times_in_nanoseconds_are_those_in_microseconds(tmp_path: Path) -> None:
    plain = read(write(tmp_path / "a.json", fake_trace(rank=0, world_size=2, num_steps=2)))
    trace = fake_trace(rank=0, world_size=2, num_steps=2)
    base_ns = trace.pop("baseTimeNanoseconds")
    for event in trace["traceEvents"]:
        event["ts"], event["dur"] = base_ns + round(event["ts"] * 1000), round(event["dur"] * 1000)
    scaled = read(write(tmp_path / "b.json", trace))
    for kind in ("steps", "phases", "collectives", "kernels"):
        assert getattr(scaled.records, kind).tobytes() == getattr(plain.records, kind).tobytes()


@pytest.mark.parametrize("form", ["list", "trailing comma", "bom", "no steps", "crlf"])
def test_forms_of_chrome_json(tmp_path: Path, form: str) -> None:
    trace = fake_trace(rank=0, world_size=2)
    text = json.dumps(trace["traceEvents"] if form == "list" else trace)
    text = text.replace('}], "base', '},], "base') if form == "trailing comma" else text
    text = text.replace("ProfilerStep#", "Something#") if form == "no steps" else text
    text = text.replace(", ", ",\r\n") if form == "crlf" else text
    reading = read(
        write(tmp_path / "rank0.json", ("\ufeff" if form == "bom" else "").encode() + text.encode())
    )
    assert len(reading.records.steps) == 1 and len(reading.records.collectives) == 2


def test_amd_and_intel_kernels_communicate_too(tmp_path: Path) -> None:
    trace = fake_trace(rank=0, world_size=2)
    for event in trace["traceEvents"]:
        if event["cat"] == "cuda_runtime":
            event |= {"cat": "xpu_runtime", "name": "urEnqueueKernelLaunch"}
        if "AllReduce" in event["name"]:
            event["name"] = "oneccl_allreduce_pcie<float>"
        if "SendRecv" in event["name"]:
            event["name"] = "ncclDevKernel_Generic(ncclDevKernelArgs)"
    assert [call[0] for call in calls(read(write(tmp_path / "t.json", trace)))] == [
        "all_to_all",
        "all_reduce",
    ]


def test_deep_nesting_ends_the_reading(tmp_path: Path) -> None:
    body = json.dumps(fake_trace(rank=0, world_size=2))
    deep = body.replace('"baseTime', '"x": ' + "[" * 200_000 + "]" * 200_000 + ', "baseTime')
    reading = read(write(tmp_path / "t.json", deep.encode()))
    assert any("malformed" in warning for warning in reading.warnings)


def test_sniff_looks_at_the_content() -> None:
    assert kineto.sniff(b' \n{"schemaVersion": 1', "anything.bin")
    assert kineto.sniff(b'[{"ph": "X"', "x")
    assert not kineto.sniff(b'{"learning_rate": 1}', "rank0.pt.trace.json")
    assert not kineto.sniff(b"", "rank0.json")


# Folders and archives


def job(folder: Path, *, world: int = 3) -> Path:
    """A folder with one trace a rank."""
    for rank in range(world):
        write(folder / f"rank{rank}.json", fake_trace(rank=rank, world_size=world))
    return folder


def gathered(tmp_path: Path, *paths: Path) -> tuple[list[int], tuple[str, ...]]:
    """Ranks and warnings of what lies behind the paths."""
    scratch = tmp_path / "scratch"
    scratch.mkdir(exist_ok=True)
    out = gather(paths, scratch)
    assert not [path for path in scratch.rglob("*") if path.is_file()]
    return [reading.records.layout.rank for reading in out.readings], out.warnings


def test_folder_tar_zip_and_single_files_read_alike(tmp_path: Path) -> None:
    folder = job(tmp_path / "job")
    write(folder / "config.json", {"lr": 1})
    (folder / "notes.txt").write_text("hello")
    with tarfile.open(tmp_path / "job.tar.gz", "w:gz") as archive:
        archive.add(folder, "job")
    with zipfile.ZipFile(tmp_path / "job.zip", "w") as zipped:
        for path in sorted(folder.iterdir()):
            zipped.write(path, f"job/{path.name}")
    for paths in ([folder], [tmp_path / "job.tar.gz"], [tmp_path / "job.zip"], sorted(folder.glob("rank*"))):
        assert gathered(tmp_path, *paths) == ([0, 1, 2], ())


def test_links_devices_and_names_that_lead_out_are_refused(tmp_path: Path) -> None:
    folder = job(tmp_path / "job")
    outside = write(tmp_path / "outside" / "rank9.json", fake_trace(rank=9, world_size=10))
    (folder / "rank8.json").symlink_to(outside)
    os.mkfifo(folder / "rank7.json")
    ranks, warnings = gathered(tmp_path, folder)
    assert ranks == [0, 1, 2]
    assert any("rank8.json is a link that leads out" in w for w in warnings)
    assert any("rank7.json is not a regular file" in w for w in warnings)


def test_hostile_members_of_archives_are_refused(tmp_path: Path) -> None:
    good = write(tmp_path / "rank0.json", fake_trace(rank=0, world_size=2))
    with tarfile.open(tmp_path / "bad.tar", "w") as archive:
        for name in ("../../rank1.json", "/etc/rank1.json"):
            info = tarfile.TarInfo(name)
            info.size = good.stat().st_size
            with good.open("rb") as body:
                archive.addfile(info, body)
        for kind, name in ((tarfile.SYMTYPE, "rank2.json"), (tarfile.CHRTYPE, "rank3.json")):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            archive.addfile(info)
        archive.add(good, "rank0.json")
    ranks, warnings = gathered(tmp_path, tmp_path / "bad.tar")
    assert ranks == [0] and len(warnings) == 4
    assert sum("leads out of the archive" in w for w in warnings) == 2
    assert sum("link or a device" in w for w in warnings) == 2


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_files, "MAX_UNPACKED", 1 << 20)
    monkeypatch.setattr(_files.Inflated.__init__, "__kwdefaults__", {"max_bytes": 1 << 20})
    spaces = b'{"traceEvents": [' + b" " * (8 << 20)
    write(tmp_path / "rank0.json.gz", spaces)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("rank1.json", spaces)
    ranks, warnings = gathered(tmp_path, tmp_path / "rank0.json.gz", tmp_path / "bomb.zip")
    assert ranks == [] and all("more than 1 MiB" in w for w in warnings) and len(warnings) == 2


def test_archive_in_archive_and_cut_archive(tmp_path: Path) -> None:
    folder = job(tmp_path / "job")
    with zipfile.ZipFile(tmp_path / "inner.zip", "w") as zipped:
        zipped.write(folder / "rank0.json")
    with tarfile.open(tmp_path / "outer.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "inner.zip", "inner.zip")
        archive.add(folder, "job")
    ranks, warnings = gathered(tmp_path, tmp_path / "outer.tar.gz")
    assert ranks == [0, 1, 2] and warnings == ("inner.zip is an archive inside an archive",)
    raw = (tmp_path / "outer.tar.gz").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(raw[: len(raw) - 40])
    ranks, warnings = gathered(tmp_path, tmp_path / "cut.tar.gz")
    assert 0 in ranks and any("what follows is lost" in w for w in warnings)


def test_a_named_file_nobody_can_read_is_said(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_text("{}")
    assert gathered(tmp_path, path)[1] == (f"{path} is in no format that is known",)
    with pytest.raises(ReaderError, match="No such file"):
        gathered(tmp_path, tmp_path / "nowhere")


@needs_shared
def test_public_traces_load_or_say_in_one_sentence_what_is_missing(tmp_path: Path) -> None:
    ranks, warnings = gathered(tmp_path, SHARED / "kineto-odd")
    assert sorted(ranks) == [0, 34]
    sentences = [w for w in warnings if "the rank is missing" in w]
    assert len(sentences) == 3 and len({w.split(":")[0] for w in sentences}) == 3
