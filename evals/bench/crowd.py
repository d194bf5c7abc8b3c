"""Ten thousand clients that are silent, trickle, do not read or vanish, beside a host whose uploads must be taken."""

from __future__ import annotations

import argparse
import asyncio
import resource
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from argus.analytics.store.documents import dump
from argus.api.cli.errors import CliError
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.upload import CONTENT_TYPE, encode_windows
from argus.evals.bench import Size
from argus.evals.load.cast import Service, wait_until
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import Simulation, simulate

CLIENTS: Mapping[Size, int] = {"smoke": 200, "default": 2_000, "full": 10_000}
SECONDS: Mapping[Size, float] = {"smoke": 1.0, "default": 20.0, "full": 90.0}
"""Longer than the service's patience in the full form."""

PATIENCE_S = 75.0
"""After so long the service must have closed every kind: heads after 10 s, bodies after 30, who does not read after 60."""

SPARE_FILES = 256
NEW_AT_ONCE = 200
"""Connections begun at the same time: more than the kernel's queue would be lost, not slow."""

TRICKLE_S = 1.0
HONEST_EVERY_S = 0.1
JOB = Job(run="crowd", ranks=8, steps=20_000, warmup_steps=0, gc_every=0)

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
BODY = b"POST /v1/ingest/layouts HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n{"
LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
KINDS = ("silent", "slow head", "slow body", "does not read")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many, how long."""
    parser.add_argument("--clients", type=int, default=0, help="slow clients; 0 = as the size says")
    parser.add_argument("--seconds", type=float, default=0.0, help="how long; 0 = as the size says")


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Crowd a service; `ok` if every upload of the host was taken and the service is well afterwards."""
    num_clients, seconds = args.clients or CLIENTS[size], args.seconds or SECONDS[size]
    _make_room(num_clients + SPARE_FILES)
    with tempfile.TemporaryDirectory(prefix="argus-crowd-") as name:
        folder = Path(name)
        service = Service(0, database=str(folder / "a.sqlite"), folder=folder)
        service.start()
        try:
            assert service.process is not None
            watched = psutil.Process(service.process.pid)
            before_mb = watched.memory_info().rss / 1e6
            crowd = asyncio.run(_crowd(service, num_clients=num_clients, seconds=seconds))
            rss_mb = watched.memory_info().rss / 1e6
            wait_until(lambda: service.get("/readyz")[0] == 200, what="a ready service")
            status = service.get("/readyz")[1].get("status")
        finally:
            service.kill()
    refused = crowd.honest.total() - crowd.honest[200]
    return {
        "clients": num_clients,
        "seconds": seconds,
        "held_max": crowd.held_max,
        "begun": crowd.begun,
        "closed_by_service": crowd.closed,
        "honest_requests": crowd.honest.total(),
        "honest_refused": refused,
        "p50_ms": _percentile(crowd.latencies_s, 50),
        "p99_ms": _percentile(crowd.latencies_s, 99),
        "rss_growth_mb": rss_mb - before_mb,
        "readyz": status,
        "ok": crowd.honest[200] > 0
        and not refused
        and crowd.held_max > 0
        and status == "ok"
        and (seconds < PATIENCE_S or crowd.closed >= num_clients),
    }


def table(result: Mapping[str, Any]) -> str:
    """One line of figures."""
    return (
        "| slow clients | seconds | held at once, most | closed by the service | uploads of the host | refused "
        "| p50, ms | p99, ms | memory grown by, MB |\n|---|---|---|---|---|---|---|---|---|\n"
        f"| {result['clients']:,} | {result['seconds']:.0f} | {result['held_max']:,} | {result['closed_by_service']:,} "
        f"| {result['honest_requests']:,} | {result['honest_refused']} | {result['p50_ms']:.0f} | {result['p99_ms']:.0f} "
        f"| {result['rss_growth_mb']:.0f} |"
    )


@dataclass
class _Crowd:
    """What the clients saw."""

    honest: Counter[int] = field(default_factory=Counter)
    latencies_s: list[float] = field(default_factory=list)
    held: int = 0
    held_max: int = 0
    begun: int = 0
    closed: int = 0


async def _crowd(service: Service, *, num_clients: int, seconds: float) -> _Crowd:
    """All of them at once, each again as soon as the service has closed it."""
    seen, door = _Crowd(), asyncio.Semaphore(NEW_AT_ONCE)
    host, port = service.url.removeprefix("http://").split(":")
    slow = [
        asyncio.create_task(_slow(KINDS[number % len(KINDS)], (host, int(port)), seen, door))
        for number in range(num_clients)
    ]
    try:
        await _honest(service, seen, seconds=seconds)
    finally:
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
    return seen


async def _slow(kind: str, address: tuple[str, int], seen: _Crowd, door: asyncio.Semaphore) -> None:
    loop = asyncio.get_running_loop()
    while True:
        one = socket.socket()
        one.setblocking(False)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        try:
            async with door:
                await loop.sock_connect(one, address)
            seen.begun += 1
            seen.held += 1
            seen.held_max = max(seen.held_max, seen.held)
            try:
                await _dawdle(kind, one)
                seen.closed += 1
            finally:
                seen.held -= 1
        except OSError:
            await asyncio.sleep(TRICKLE_S)  # no room: it comes again
        finally:
            one.close()


async def _dawdle(kind: str, one: socket.socket) -> None:
    """Be slow until the service has had enough."""
    loop = asyncio.get_running_loop()
    begin = {"silent": b"", "slow head": HEAD, "slow body": BODY, "does not read": LARGE}[kind]
    with suppress(ConnectionError):
        if begin:
            await loop.sock_sendall(one, begin)
        if kind == "silent":
            await loop.sock_recv(one, 1)
            return
        while True:
            await asyncio.sleep(TRICKLE_S)
            if kind != "does not read":
                await loop.sock_sendall(one, b"x")
            elif one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                return


async def _honest(service: Service, seen: _Crowd, *, seconds: float) -> None:
    """A host that uploads as if nobody else were there."""
    done = simulate(JOB, [], rng=np.random.default_rng(1))
    await asyncio.to_thread(_post, service, seen, "/v1/ingest/layouts", _layouts(done), "application/json")
    end_s = time.monotonic() + seconds
    for closed in done.windows(WindowPlan()):
        body = encode_windows(part.to_bytes() for part in closed.parts)
        await asyncio.to_thread(_post, service, seen, "/v1/ingest/windows", body, CONTENT_TYPE)
        if time.monotonic() > end_s:
            return
        await asyncio.sleep(HONEST_EVERY_S)


def _post(service: Service, seen: _Crowd, path: str, body: bytes, media: str) -> None:
    begun_s = time.monotonic()
    status, _ = service.post(path, body, media=media)
    seen.latencies_s.append(time.monotonic() - begun_s)
    seen.honest[status] += 1


def _layouts(done: Simulation) -> bytes:
    return dump({"layouts": [layout.to_json() for layout in done.layouts]}).encode()


def _make_room(num_files: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < num_files:
        raise CliError(
            f"{num_files} open files are needed and `ulimit -Hn` allows {hard}: try fewer --clients"
        )
    if soft != resource.RLIM_INFINITY and soft < num_files:
        resource.setrlimit(resource.RLIMIT_NOFILE, (num_files, hard))


def _percentile(values_s: list[float], percent: float) -> float:
    return float(np.percentile(values_s, percent)) * 1e3 if values_s else 0.0
