"""Engines give the same effects, also when a worker or a node dies."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from argus.analytics.kernels.effects import Effects, effects_of_all
from argus.analytics.kernels.engine_local import LocalEngine
from argus.analytics.kernels.engine_ray import RayEngine
from argus.analytics.kernels.table import open_table
from argus.evals.simulator.kernel_blobs import blobs
from tests.analytics.kernels.kit import peers_of

RANKS, KERNELS = 64, 24


def packed() -> list[bytes]:
    return blobs(np.random.default_rng(0), num_ranks=RANKS, num_kernels=KERNELS, fault={(3, 1): 1.2})


def same(one: Effects, other: Effects) -> bool:
    return all(
        np.array_equal(getattr(one, item.name), getattr(other, item.name), equal_nan=True)
        for item in fields(Effects)
    )


@pytest.mark.slow
def test_worker_processes_give_what_one_process_gives_also_after_one_was_killed() -> None:
    given = packed()
    table, peers = open_table(given), peers_of(RANKS)
    want = effects_of_all(table, peers)
    engine = LocalEngine(workers=2, small=0)
    try:
        assert same(engine(table, peers, given), want)
        workers = engine.pool()._processes  # type: ignore[attr-defined]
        for pid in list(workers):
            os.kill(pid, signal.SIGKILL)
        assert same(engine(table, peers, given), want)
        assert same(engine(table, peers, given), want)
    finally:
        engine.close()


def test_two_threads_at_once_share_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Barrier(2, timeout=0.2)

    class Slow(ThreadPoolExecutor):
        def __init__(self, workers: int, *, mp_context: object) -> None:
            super().__init__(workers)
            with suppress(threading.BrokenBarrierError):
                begun.wait()  # until another thread begins workers too

    monkeypatch.setattr("argus.analytics.kernels.engine_local.ProcessPoolExecutor", Slow)
    engine = LocalEngine(workers=2)
    with ThreadPoolExecutor(2) as users:
        one, other = (found.result() for found in [users.submit(engine.pool) for _ in range(2)])
    assert one is other
    engine.close()


def test_small_tables_start_no_process() -> None:
    given = packed()
    engine = LocalEngine(workers=2)
    table, peers = open_table(given), peers_of(RANKS)
    assert same(engine(table, peers, given), effects_of_all(table, peers))
    assert engine._pool is None


HAS_RAY = importlib.util.find_spec("ray") is not None


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def ray_node(*args: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A node in a process group of its own, so that all of it can be killed."""
    env = {
        **os.environ,
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.getcwd(),
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    ray = str(Path(sys.executable).with_name("ray"))
    common = [
        "--block",
        "--disable-usage-stats",
        "--num-cpus=1",
        "--object-store-memory=80000000",
        "--node-ip-address=127.0.0.1",
    ]
    with (folder / "node.log").open("ab") as log:
        node = subprocess.Popen(
            [ray, "start", *args, *common], env=env, stdout=log, stderr=log, start_new_session=True
        )
    try:
        yield node
    finally:
        if node.poll() is None:
            os.killpg(node.pid, signal.SIGKILL)
            node.wait(20)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(not HAS_RAY, reason="ray is not installed: pip install 'argus-triage[ray]'")
@pytest.mark.filterwarnings("ignore")
def test_two_ray_nodes_one_killed_in_mid_pass_give_the_same(tmp_path: Path) -> None:
    ray = importlib.import_module("ray")
    given = packed()
    table, peers = open_table(given), peers_of(RANKS)
    want = effects_of_all(table, peers)
    port = free_port()
    head = ("--head", f"--port={port}", "--include-dashboard=false")
    with ray_node(*head, folder=tmp_path), ray_node(f"--address=127.0.0.1:{port}", folder=tmp_path) as second:
        engine = joined(f"127.0.0.1:{port}")
        try:
            deadline_s = time.monotonic() + 90
            while sum(node["Alive"] for node in ray.nodes()) < 2 and time.monotonic() < deadline_s:
                time.sleep(0.5)
            assert sum(node["Alive"] for node in ray.nodes()) == 2
            assert same(engine(table, peers, given), want)
            killer = subprocess.Popen(["/bin/sh", "-c", f"sleep 0.3; kill -9 -- -{second.pid}"])
            assert same(engine(table, peers, given), want)
            killer.wait(10)
            assert same(engine(table, peers, given), want)
        finally:
            engine.close()


def joined(address: str) -> RayEngine:
    """The engine once the head answers."""
    deadline_s = time.monotonic() + 90
    while True:
        try:
            return RayEngine(address=address, num_shards=8)
        except (ConnectionError, RuntimeError):
            if time.monotonic() > deadline_s:
                raise
            time.sleep(1.0)
