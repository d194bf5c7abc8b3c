"""Kernel records as Chrome-trace text, the form their compression is measured against."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from argus.collectors.records.events import KERNEL, Rows


def text_bytes(kernels: Rows, names: Sequence[str]) -> int:
    """Bytes of `kernels` as the profiler writes them, one object an event."""
    return sum(len(line) for line in _lines(kernels, names))


def _lines(kernels: Rows, names: Sequence[str]) -> Iterator[str]:
    for i, row in enumerate(kernels):
        event = {
            "ph": "X",
            "cat": "kernel",
            "name": names[row["name"]],
            "pid": 0,
            "tid": 7,
            "ts": int(row["start_ns"]) / 1e3,
            "dur": int(row["dur_ns"]) / 1e3,
            "args": {
                "External id": i + 1048576,
                "queued": 0,
                "device": 0,
                "context": 1,
                "stream": 7,
                "correlation": i + 2097152,
                "registers per thread": 128,
                "shared memory": 49152,
                "blocks per SM": 9.481481,
                "warps per SM": 37.925926,
                "grid": [1024, 1, 1],
                "block": [128, 1, 1],
                "est. achieved occupancy %": 59,
            },
        }
        yield json.dumps(event) + ",\n"


def read_traces(path: Path) -> dict[str, tuple[Rows, tuple[str, ...], int]]:
    """Kernel events of every profiler trace under `path`: name of the file to (rows, names, text bytes)."""
    return {name: _kernels(json.loads(raw)) for name, raw in _files(path)}


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.rglob("*")):
        if file.name.endswith(".json.gz"):
            yield str(file.relative_to(path)), gzip.decompress(file.read_bytes())
        elif file.name.endswith(".tar.gz"):
            with tarfile.open(fileobj=io.BytesIO(file.read_bytes())) as archive:
                for member in archive.getmembers():
                    opened = archive.extractfile(member) if member.name.endswith(".json") else None
                    if opened is not None:
                        yield member.name, opened.read()


def _kernels(trace: dict[str, object]) -> tuple[Rows, tuple[str, ...], int]:
    events = trace["traceEvents"]
    assert isinstance(events, list)
    found = [event for event in events if str(event.get("cat", "")).lower() == "kernel"]
    names = ("", *dict.fromkeys([event["name"] for event in found] + [_role(event) for event in found]))
    place = {name: i for i, name in enumerate(names)}
    rows = np.zeros(len(found), KERNEL)
    for row, event in zip(rows, found, strict=True):
        row["name"], row["role"] = place[event["name"]], place[_role(event)]
        row["start_ns"], row["dur_ns"] = round(event["ts"] * 1e3), round(event["dur"] * 1e3)
    return rows, names, sum(len(json.dumps(event)) + 2 for event in found)


def _role(event: dict[str, str]) -> str:
    return "comm:world" if "nccl" in event["name"].lower() else "compute"
