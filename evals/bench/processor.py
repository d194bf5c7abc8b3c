"""One host processor under the kernel records of eight ranks: CPU, memory, what it loses."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from argus.collectors.host.fake_rank import FakeRank, frames, steps
from argus.collectors.host.fake_service import FakeService, serve
from argus.collectors.records.frames import Kind, encode_rows
from argus.collectors.records.kernel_read import open_blob
from argus.collectors.records.layout import Layout
from argus.evals.bench import Size
from argus.evals.simulator.kernel_work import dense, launches
from argus.evals.stack import clean_env

RANKS = 8
PARTS = 10
"""Frames a step's kernels come in."""

START_S, DRAIN_S = 15.0, 30.0
MUST_CORES, MUST_RSS_MB = 1.0, 1024.0


@dataclass(frozen=True, kw_only=True)
class _Load:
    """How much is sent: kernels a step and rank, steps, seconds a step."""

    kernels: int
    steps: int
    step_s: float


LOADS: Mapping[Size, _Load] = {
    "smoke": _Load(kernels=5_000, steps=22, step_s=0.2),
    "default": _Load(kernels=100_000, steps=32, step_s=4.0),
    "full": _Load(kernels=100_000, steps=102, step_s=4.0),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Play the load in real time; `ok` if it stays within a core and a gibibyte and loses nothing."""
    load = LOADS[size]
    with tempfile.TemporaryDirectory(prefix="argus-bench-") as name, serve(FakeService()) as service:
        socket = Path(name) / "p.sock"
        os.chmod(name, 0o700)
        command = [
            sys.executable,
            "-m",
            "argus",
            "processor",
            "--socket",
            str(socket),
            "--server",
            service.url,
        ]
        process = subprocess.Popen([*command, "--spool", str(Path(name) / "spool")], env=clean_env())
        try:
            _wait_for(socket)
            before_s, start_s = _cpu_s(process.pid), time.monotonic()
            _play(socket, load)
            sent_s = time.monotonic() - start_s
            expected = RANKS * (load.steps // 10)
            service.wait_for(lambda it: len(it.windows) >= expected, timeout_s=DRAIN_S)
            cpu_s, rss_mb = _cpu_s(process.pid) - before_s, _peak_rss_mb(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(DRAIN_S)
    return _result(service, load, sent_s=sent_s, cpu_s=cpu_s, rss_mb=rss_mb, size=size)


def table(result: Mapping[str, Any]) -> str:
    """One line."""
    return (
        "| events/s in | CPU cores | peak RSS, MB | windows | events summarised | dropped |\n|---|---|---|---|---|---|\n"
        f"| {result['events_per_s']:,.0f} | {result['cpu_cores']:.2f} | {result['peak_rss_mb']:.0f} "
        f"| {result['windows']} | {result['events_summarised']:,} | {result['dropped']} |"
    )


def _result(
    service: FakeService, load: _Load, *, sent_s: float, cpu_s: float, rss_mb: float, size: Size
) -> dict[str, Any]:
    windows = list(service.windows.values())
    blobs = [open_blob(window.kernels) for window in windows if window.kernels]
    summarised = sum(int(blob.ranks["events"].sum()) for blob in blobs)
    dropped = sum(sum(window.dropped.values()) for window in windows)
    expected = len(windows) * load.kernels * 10
    # What is in the last, open windows is neither summarised nor lost.
    lost = dropped + max(0, sum(len(window.steps) for window in windows) * load.kernels - summarised)
    cores = cpu_s / sent_s
    return {
        "events_per_s": RANKS * load.kernels * load.steps / sent_s,
        "cpu_cores": cores,
        "peak_rss_mb": rss_mb,
        "dropped": lost,
        "windows": len(windows),
        "events_summarised": summarised,
        "events_expected": expected,
        "upload_bytes_per_rank_step": sum(len(w.kernels) for w in windows) / max(len(windows) * 10, 1),
        "ok": lost == 0
        and bool(windows)
        and (size == "smoke" or (cores <= MUST_CORES and rss_mb <= MUST_RSS_MB)),
    }


def _play(socket: Path, load: _Load) -> None:
    threads = [threading.Thread(target=_rank, args=(socket, rank, load)) for rank in range(RANKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _rank(socket: Path, rank: int, load: _Load) -> None:
    """One rank's steps in real time, its kernels in parts as a sink would send them."""
    layout = Layout(run="bench", attempt=0, rank=rank, world_size=RANKS, host="bench", pid=os.getpid())
    one, names = launches(dense(), np.random.default_rng(rank), num_steps=1)
    rows = np.resize(one, load.kernels)
    start_s = time.monotonic()
    with FakeRank(socket, layout) as fake:
        first = 1000  # behind the fake's own names
        fake.send(Kind.STRINGS, {"first": 0, "names": [*fake_names(first), *names]})
        for column in ("name", "role"):
            rows[column] += first
        for step in range(load.steps):
            rows["step"] = step
            for part in range(PARTS):
                at = slice(part * load.kernels // PARTS, (part + 1) * load.kernels // PARTS)
                fake.sock.sendall(encode_rows("kernels", rows[at]))
                due_s = start_s + (step + (part + 1) / PARTS) * load.step_s
                time.sleep(max(0.0, due_s - time.monotonic()))
            fake.sock.sendall(frames(steps(layout, step, step + 1)))


def fake_names(count: int) -> list[str]:
    """The fake rank's own string table, filled up to `count` entries."""
    from argus.collectors.host.fake_rank import NAMES

    return [*NAMES, *(f"unused {i}" for i in range(count - len(NAMES)))]


def _wait_for(socket: Path) -> None:
    deadline_s = time.monotonic() + START_S
    while not socket.exists():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"the processor did not open {socket} within {START_S:.0f} s")
        time.sleep(0.05)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _peak_rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) / 1024.0
