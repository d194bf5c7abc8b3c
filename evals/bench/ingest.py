"""A service under the uploads and heartbeats of 10,240 ranks, analysis on: throughput, latency, memory, losses."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import psutil
from sqlalchemy import select

from argus.analytics.store.engine import open_store
from argus.analytics.store.tables import ATTEMPTS, INCIDENTS, WINDOWS
from argus.api.cli.errors import CliError
from argus.evals.bench import Size
from argus.evals.load.bodies import PP, STEP_S, TP
from argus.evals.load.play import FLUSH_S
from argus.evals.stack import clean_env

BYTES_PER_RANK_STEP = 18_700
"""The paper's figure for what a rank uploads per step, before compression on the way."""

RANKS: Mapping[Size, int] = {"smoke": 10_240, "default": 10_240, "full": 10_240}
SECONDS: Mapping[Size, float] = {"smoke": 30.0, "default": 120.0, "full": 600.0}
WINDOW_STEPS: Mapping[Size, int] = {"smoke": 3, "default": 5, "full": 10}
"""10 is the product's first plan; shorter windows so that several close in a short run."""

KEEP_S = 60.0
"""How long raw rank windows are kept: long enough for the analysis, far shorter than the long run."""

READY = re.compile(r"ready on (http://\S+:\d+)")
START_S, DRAIN_S, STOP_S = 300.0, 120.0, 60.0
SAMPLE_S = 0.5
MAX_GROWTH = 1.25
"""The last third's memory over that of the second: what grows for ever grows by more in ten minutes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The size of the load."""
    parser.add_argument("--ranks", type=int, default=10_240, help=f"a multiple of {2 * TP * PP}")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long; 0 = as the size says")
    parser.add_argument("--window-steps", type=int, default=0, help="steps a window; 0 = as the size says")


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Play the cluster in real time; `ok` if nothing was lost, it was kept up with and (full) memory stayed flat.

    Kept up with: every window was stored before the next one was due and analysed with all its ranks in it.
    """
    if args.ranks < 2 * TP * PP or args.ranks % (2 * TP * PP):
        raise CliError(f"--ranks must be a multiple of {2 * TP * PP}, got {args.ranks}")
    seconds, window_steps = args.seconds or SECONDS[size], args.window_steps or WINDOW_STEPS[size]
    first_s = window_steps * STEP_S + FLUSH_S
    if seconds < first_s:
        raise CliError(
            f"the first window of {window_steps} steps is sent after {first_s:.0f} s, and --seconds is {seconds:.0f}: "
            "more --seconds or fewer --window-steps"
        )
    with tempfile.TemporaryDirectory(prefix="argus-ingest-") as name:
        folder = Path(name)
        with _service(folder, window_steps=window_steps) as (service, url):
            generator = _load(url, ranks=args.ranks, window_steps=window_steps, seconds=seconds)
            with generator as load, _Watch(service.pid) as watch:
                assert load.stdin is not None and load.stdout is not None
                load.stdin.write("go\n")
                load.stdin.flush()
                told = json.loads(load.stdout.readline() or "null")
                watch.stop()
            if told is None:
                raise CliError(
                    f"the generator ended early, see above; the service said: {_tail(folder)}", code=1
                )
            _wait_for_analysis(folder, windows=len(told["acknowledged"]))
        kept = _kept(folder)
    scale = {"ranks": args.ranks, "seconds": seconds, "window_steps": window_steps}
    return _result(told, watch, kept, size=size, scale=scale)


def table(result: Mapping[str, Any]) -> str:
    """One line of figures."""
    cells = (
        f"{result['num_ranks']:,}",
        f"{result['seconds']:.0f}",
        f"{result['rank_steps_per_s']:,.0f}",
        f"{result['mb_per_s']:.1f}",
        f"{result['wire_mb_per_s']:.1f}",
        f"{result['requests_per_s']:.0f}",
        f"{result['p50_ms']:.0f}",
        f"{result['p99_ms']:.0f}",
        f"{result['late_p99_s']:.1f}",
        f"{result['peak_rss_mb']:,.0f}",
        f"{result['growth_ratio']:.2f}",
        f"{result['service_cores']:.2f}",
        f"{result['generator_cores']:.2f}",
        f"{result['windows_analysed']} of {result['windows_sent']}",
        f"{result['windows_whole']}",
        f"{result['lost']}",
    )
    head = (
        "ranks",
        "seconds",
        "rank-steps/s",
        "MB/s",
        "MB/s on the wire",
        "requests/s",
        "p50, ms",
        "p99, ms",
        "due to stored, p99 s",
        "peak RSS, MB",
        "memory, last third ÷ second",
        "service, cores",
        "generator, cores",
        "windows analysed",
        "with all ranks",
        "lost",
    )
    return f"| {' | '.join(head)} |\n|{'---|' * len(head)}\n| {' | '.join(cells)} |"


@dataclass
class _Watch:
    """Memory and CPU of a process and its children, sampled on a thread."""

    pid: int
    rss_mb: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    _stopping: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._before_s = _cpu_s(self.pid)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Sample no more."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._thread.join()
            self.cpu_s = _cpu_s(self.pid) - self._before_s

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_S):
            self.rss_mb.append(sum(_rss_mb(process) for process in _family(self.pid)))

    @property
    def growth(self) -> float:
        """Peak of the last third over that of the second."""
        third = max(len(self.rss_mb) // 3, 1)
        return max(self.rss_mb[-third:]) / max(self.rss_mb[third : 2 * third] or self.rss_mb)


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _rss_mb(process: psutil.Process) -> float:
    try:
        return float(process.memory_info().rss) / 1e6
    except psutil.NoSuchProcess:
        return 0.0


def _cpu_s(pid: int) -> float:
    total = 0.0
    for process in _family(pid):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


@contextmanager
def _service(folder: Path, *, window_steps: int) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "argus", "serve", "--port", "0", "--db", str(folder / "a.sqlite")]
    env = clean_env(
        {
            "ARGUS_KEEP_WINDOWS_S": str(KEEP_S),
            "ARGUS_KERNEL_KEEP_S": str(KEEP_S),
            "ARGUS_WINDOW_STEPS": str(window_steps),
        }
    )
    with (folder / "serve.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=env, text=True)
        assert process.stdout is not None
        try:
            found = READY.search(process.stdout.readline())
            if found is None:
                raise CliError(f"the service did not start: {_tail(folder)}", code=1)
            yield process, found[1]
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()


def _tail(folder: Path) -> str:
    return (folder / "serve.log").read_text(errors="replace")[-2000:] or "nothing"


@contextmanager
def _load(url: str, *, ranks: int, window_steps: int, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """The generator, ready to begin; whoever stops before its end ends it."""
    command = [sys.executable, "-m", "argus.evals.load.play", "--url", url, "--ranks", str(ranks)]
    command += ["--window-steps", str(window_steps), "--seconds", str(seconds)]
    command += ["--bytes-per-rank-step", str(BYTES_PER_RANK_STEP)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_env(), text=True
    )
    with process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                process.wait(START_S)
                raise CliError("the generator did not start, see above", code=1)
            yield process
        except BaseException:
            process.kill()
            raise


def _wait_for_analysis(folder: Path, *, windows: int) -> None:
    deadline = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline:
        if sum(one["status"] == "analysed" for one in _kept(folder)["windows"]) >= windows:
            return
        time.sleep(1.0)


def _kept(folder: Path) -> dict[str, Any]:
    """Each window's status and how many ranks' parts were stored; incidents."""
    store = open_store(str(folder / "a.sqlite"))
    columns = (
        WINDOWS.c.window,
        WINDOWS.c.status,
        WINDOWS.c.ranks_in,
        WINDOWS.c.coverage,
    )
    try:
        with store.read() as connection:
            windows = [dict(row._mapping) for row in connection.execute(select(*columns))]
            attempts = len(connection.execute(select(ATTEMPTS.c.id)).all())
            incidents = list(connection.execute(select(INCIDENTS.c.fault_class)).scalars())
    finally:
        store.close()
    return {"windows": windows, "attempts": attempts, "incidents": incidents}


def _result(
    told: Mapping[str, Any],
    watch: _Watch,
    kept: Mapping[str, Any],
    *,
    size: Size,
    scale: Mapping[str, Any],
) -> dict[str, Any]:
    ranks = scale["ranks"]
    acknowledged = {int(window): num for window, num in told["acknowledged"].items()}
    analysed = [row for row in kept["windows"] if row["status"] == "analysed"]
    # Uploads that are not stored when those of the next window are due: the backlog would grow for ever.
    behind_s = max(_percentile(told["late_s"], 100) - scale["window_steps"] * STEP_S, 0.0)
    whole = sum(json.loads(row["coverage"])["ratio"] == 1.0 for row in analysed)
    lost = _lost(acknowledged, kept)
    growth = watch.growth if watch.rss_mb else float("inf")
    return {
        "num_ranks": ranks,
        "seconds": scale["seconds"],
        "window_steps": scale["window_steps"],
        **_rates(told, acknowledged, window_steps=scale["window_steps"], behind_s=behind_s),
        "peak_rss_mb": max(watch.rss_mb, default=0.0),
        "growth_ratio": growth,
        "service_cores": watch.cpu_s / told["took_s"],
        "generator_cores": told["cpu_s"] / told["took_s"],
        "cores": os.cpu_count(),
        "windows_sent": len(acknowledged),
        "windows_analysed": len(analysed),
        "windows_whole": whole,
        "incidents": kept["incidents"],
        "lost": lost,
        "behind_s": behind_s,
        "ok": lost == 0
        and len(analysed) == len(acknowledged) > 0
        and all(row["ranks_in"] == ranks for row in analysed)
        and (size == "smoke" or whole == len(analysed))
        and (size == "smoke" or behind_s == 0.0)
        and (size != "full" or growth <= MAX_GROWTH),
    }


def _rates(
    told: Mapping[str, Any], acknowledged: Mapping[int, int], *, window_steps: int, behind_s: float
) -> dict[str, Any]:
    """What came through a second; a backlog at the end stretches the time it took."""
    rank_steps = sum(acknowledged.values()) * window_steps
    took_s = len(acknowledged) * window_steps * STEP_S + behind_s
    return {
        "bytes_per_rank_step": told["raw_bytes"] / max(rank_steps, 1),
        "rank_steps_per_s": rank_steps / took_s,
        "mb_per_s": told["raw_bytes"] / took_s / 1e6,
        "wire_mb_per_s": told["sent_bytes"] / took_s / 1e6,
        "requests_per_s": sum(told["statuses"].values()) / told["took_s"],
        "statuses": told["statuses"],
        "missed_beats": told["missed_beats"],
        "p50_ms": _percentile(told["latencies_ms"], 50),
        "p99_ms": _percentile(told["latencies_ms"], 99),
        "late_p99_s": _percentile(told["late_s"], 99),
    }


def _lost(acknowledged: Mapping[int, int], kept: Mapping[str, Any]) -> int:
    """Rank windows that were acknowledged and never stored."""
    stored = {row["window"]: row["ranks_in"] for row in kept["windows"]}
    return sum(max(num - stored.get(window, 0), 0) for window, num in acknowledged.items())


def _percentile(values: Sequence[float], percent: float) -> float:
    return float(np.percentile(values, percent)) if values else 0.0
