"""A Kineto trace of two gigabytes through `argus triage`: memory, time, and whether it is read whole."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from argus.evals.bench import Size

TARGET: Mapping[Size, int] = {"smoke": 24 << 20, "default": 2 << 30, "full": 4 << 30}
MAX_PEAK = 1 << 30
"""Bytes the reading may take, whatever the file's size, up to the default one."""

OPS, KERNELS = 1200, 400
"""CPU operations and kernels of a step: that of a small transformer."""

STEP_US = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Write the file, read it in a process of its own, look at what that took."""
    with tempfile.TemporaryDirectory(prefix="argus-trace-") as name:
        path = Path(name) / "rank0.pt.trace.json"
        steps, events = write_trace(path, num_bytes=TARGET[size])
        begun = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "argus", "triage", str(path), "--json"], stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        out = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        child.stdout.close()
        wall_s = time.perf_counter() - begun
        report = json.loads(out) if out else {}
        num_bytes = path.stat().st_size
    peak = usage.ru_maxrss << 10
    is_whole = child.returncode in (0, 1) and report.get("ranks_seen") == [0] and not _is_cut(report)
    return {
        "bytes": num_bytes,
        "events": events,
        "steps": steps,
        "wall_s": wall_s,
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": peak,
        "is_whole": is_whole,
        "ok": is_whole and peak <= MAX_PEAK * max(TARGET[size] / TARGET["default"], 1),
    }


def table(result: Mapping[str, Any]) -> str:
    """One line."""
    return "\n".join(
        [
            "| file, MiB | events | steps | wall, s | CPU, s | peak memory, MiB | read whole |",
            "|---|---|---|---|---|---|---|",
            (
                f"| {result['bytes'] / 2**20:,.0f} | {result['events']:,} | {result['steps']:,} | {result['wall_s']:.1f} "
                f"| {result['cpu_s']:.1f} | {result['peak_bytes'] / 2**20:,.0f} | {'yes' if result['is_whole'] else 'NO'} |"
            ),
        ]
    )


def _is_cut(report: Mapping[str, Any]) -> bool:
    return any("cut short" in text or "malformed" in text for text in report.get("warnings", ()))


def write_trace(path: Path, *, num_bytes: int) -> tuple[int, int]:
    """A trace of one rank of at least `num_bytes`; its steps and events."""
    step = events = 0
    with path.open("w", encoding="utf-8") as out:
        out.write('{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Fake GPU"}], ')
        out.write('"distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1}, "traceEvents": [\n')
        while out.tell() < num_bytes:
            lines = list(_step(step))
            out.write(",\n".join(lines) + ",\n")
            step, events = step + 1, events + len(lines)
        out.write('{"ph": "M", "name": "process_name", "pid": 1, "ts": 0, "args": {"name": "python"}}\n')
        out.write('], "baseTimeNanoseconds": 1700000000000000000}\n')
    return step, events


def _step(step: int) -> Iterator[str]:
    """The events of a step, as wordy as Kineto's."""
    at = step * STEP_US
    for name, start, dur in (
        (f"ProfilerStep#{step}", 0, STEP_US - 10),
        ("## forward ##", 100, 40_000),
        ("Optimizer.step#AdamW.step", 90_000, 9_000),
    ):
        yield _span("user_annotation", name, at + start, dur)
    for n in range(OPS):
        kind = (
            "autograd::engine::evaluate_function: AddmmBackward0"
            if n % 3 == 0 and n > OPS // 2
            else "aten::addmm"
        )
        yield _span("cpu_op", kind, at + 200 + n * 70, 60, tid=101 if kind[1] == "u" else 100)
    for n in range(KERNELS):
        correlation, start = step * KERNELS + n, at + 200 + n * 210
        yield (
            f'{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 100, "ts": {start}.125, '
            f'"dur": 4.5, "args": {{"External id": {n}, "cbid": 211, "correlation": {correlation}}}}}'
        )
        yield (
            f'{{"ph": "X", "cat": "kernel", "name": "void cutlass::Kernel<cutlass_80_tensorop_gemm_{n % 40}>(Params)", '
            f'"pid": 0, "tid": 7, "ts": {start + 20}.5, "dur": {100 + n % 90}.25, "args": {{"External id": {n}, "queued": 0, '
            f'"device": 0, "context": 1, "stream": 7, "correlation": {correlation}, "registers per thread": 128, '
            '"shared memory": 49152, "blocks per SM": 1.33, "warps per SM": 5.33, "grid": [12, 12, 1], "block": [128, 1, 1], '
            '"est. achieved occupancy %": 8}}'
        )


def _span(cat: str, name: str, start: int, dur: int, *, tid: int = 100) -> str:
    return (
        f'{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": 1, "tid": {tid}, "ts": {start}.25, "dur": {dur}.5, "args": '
        '{"External id": 5, "Sequence number": 11, "Fwd thread id": 1, "Input Dims": [[4096], [2048, 1024], [1024, 4096]], '
        '"Input type": ["float", "c10::BFloat16", "c10::BFloat16"], "Record function id": 0}}'
    )
