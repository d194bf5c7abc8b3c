"""One window's kernel summaries of a large cluster through the store: written, read back, one kernel alone."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from argus.analytics.store import intake, kernels
from argus.analytics.store.engine import Store, open_store
from argus.analytics.store.intake import Arrival
from argus.api.migrate import upgrade
from argus.collectors.records.kernel_read import open_blob
from argus.collectors.records.plan import WindowPlan
from argus.evals.bench import Size
from argus.evals.simulator.kernel_blobs import RANKS_PER_HOST, blobs

RANKS: Mapping[Size, int] = {"smoke": 256, "default": 10_240, "full": 10_240}
KERNELS: Mapping[Size, int] = {"smoke": 40, "default": 300, "full": 300}
REPEATS = 3
MUST_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Median over some windows; `ok` if writing and reading back stay within two seconds."""
    packed = blobs(np.random.default_rng(0), num_ranks=RANKS[size], num_kernels=KERNELS[size])
    entry = open_blob(packed[0]).index[KERNELS[size] // 2]
    key = (int(entry["name"]), int(entry["role"]))
    with tempfile.TemporaryDirectory(prefix="argus-store-") as name:
        store = open_store(str(Path(name) / "a.sqlite"))
        upgrade(store)
        runs = [_window(store, packed, window=window, key=key) for window in range(REPEATS)]
        store.close()
    median = {name: float(np.median([run[name] for run in runs])) for name in runs[0]}
    return {
        **median,
        "num_ranks": RANKS[size],
        "num_kernels": KERNELS[size],
        "stored_bytes": sum(map(len, packed)),
        "ok": size == "smoke" or median["write_s"] + median["read_s"] <= MUST_S,
    }


def table(result: Mapping[str, Any]) -> str:
    """One line."""
    return (
        "| ranks | kernels | MB stored | write, s | read back, s | one kernel of all hosts, s |\n|---|---|---|---|---|---|\n"
        f"| {result['num_ranks']:,} | {result['num_kernels']} | {result['stored_bytes'] / 1e6:.1f} "
        f"| {result['write_s']:.2f} | {result['read_s']:.2f} | {result['one_kernel_s']:.2f} |"
    )


def _window(store: Store, packed: Sequence[bytes], *, window: int, key: tuple[int, int]) -> dict[str, float]:
    arrivals = [
        Arrival(
            index=i,
            run="bench",
            attempt=0,
            rank=i * RANKS_PER_HOST,
            window=window,
            first_step=window * 10,
            num_steps=10,
            host=f"h-{i:05d}",
            body=b"",
            kernels=body,
        )
        for i, body in enumerate(packed)
    ]
    start_s = time.perf_counter()
    with store.write() as connection:
        attempts = intake.ensure_attempts(connection, [("bench", 0)], plan=WindowPlan(), now_s=0.0)
        kernels.add_kernels(connection, [arrivals], attempts=attempts, now_s=0.0)
    written_s = time.perf_counter()
    with store.read() as connection:
        back = kernels.blobs_of(connection, attempts["bench", 0].id, window)
    read_s = time.perf_counter()
    assert back == list(packed)
    with store.read() as connection:
        ranks = sum(
            len(set(rows.member.tolist()))
            for _, _, rows in kernels.read_kernel(connection, attempts["bench", 0].id, window, key=key)
        )
    assert ranks == len(packed) * RANKS_PER_HOST
    return {
        "write_s": written_s - start_s,
        "read_s": read_s - written_s,
        "one_kernel_s": time.perf_counter() - read_s,
    }
