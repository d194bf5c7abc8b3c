"""Small real training jobs, run as forked ranks over gloo."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import torch
import torch._dynamo  # every optimizer imports it: once here instead of once in each forked rank
import torch.distributed as dist
from torch import nn

from argus.collectors.rank import attach, writer

Job = Callable[[int, int], None]

CLOSE_S = 30.0  # a loaded machine must not cut the last frames short
JOIN_S = 60.0


def free_port() -> int:
    """A port nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def run(job: Job, *, world: int, path: Path) -> list[int]:
    """Run `job(rank, world)` in forked ranks that report to the socket `path`; their exit codes."""
    context = get_context("fork")
    port = free_port()
    ranks = [context.Process(target=_rank, args=(job, r, world, port, path)) for r in range(world)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join(JOIN_S)
        if process.is_alive():
            process.kill()
    return [process.exitcode if process.exitcode is not None else -1 for process in ranks]


def start(job: Job, path: Path) -> int:
    """Run `job(0, 1)` in a process of its own that is no multiprocessing child, without a process group."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _prepare(path)
            job(0, 1)
            attach.detach()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _prepare(path: Path) -> None:
    gc.freeze()  # what the tests' own process holds is no part of the job: looked through, it would be copied
    torch.set_num_threads(1)
    torch.manual_seed(7)
    os.environ.update(ARGUS_SOCKET=str(path), ARGUS_RUN="job")
    writer.CLOSE_S = CLOSE_S
    attach.prepare()


def _rank(job: Job, rank: int, world: int, port: int, path: Path) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    _prepare(path)
    dist.init_process_group("gloo", rank=rank, world_size=world)
    job(rank, world)
    attach.detach()
    dist.destroy_process_group()


def model(width: int = 16) -> nn.Module:
    """Two layers."""
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))


def batch(rank: int, width: int = 16) -> torch.Tensor:
    """The same input in each step, another one on each rank."""
    return torch.randn(8, width, generator=torch.Generator().manual_seed(rank))
