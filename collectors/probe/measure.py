"""The three measurements of one process: GEMM, memory copy, all-reduce with one partner after another."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from argus.collectors.probe.pairs import rounds_of

if TYPE_CHECKING:
    import torch

GEMM_CPU, GEMM_GPU = 768, 8192
"""Rows of the square matrices: some tens of milliseconds a product on a core, about one on a GPU."""

COPY_CPU, COPY_GPU = 64 << 20, 1 << 30
"""Bytes copied at a time: far beyond any cache."""

REDUCE_CPU, REDUCE_GPU = 4 << 20, 256 << 20
"""Bytes of an all-reduce: large enough that bandwidth, not latency, is measured."""

MIN_REPEATS = 5
"""A median of fewer is one accident away from wrong."""

JOIN_S = 60.0
"""How long members wait for each other: a host that does not start must not hold up the rest for long."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Median seconds of one repeat; `partner` is the other member of an all-reduce, None otherwise."""

    test: str
    p50_s: float
    repeats: int
    partner: int | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON-ready dict."""
        return {
            "test": self.test,
            "p50_s": self.p50_s,
            "repeats": self.repeats,
            "partner": self.partner,
        }


def device_of(wanted: str) -> str:
    """`cpu`, `cuda` or `auto`, which takes a GPU where there is one."""
    import torch

    if wanted != "auto":
        return wanted
    return "cuda" if torch.cuda.is_available() else "cpu"


def alone(device: str, *, seconds: float) -> Iterator[Measured]:
    """GEMM and copy, `seconds` each."""
    import torch

    torch.set_num_threads(1)  # a core against a core: how many there are is not what is asked
    gpu = device != "cpu"
    size = GEMM_GPU if gpu else GEMM_CPU
    kind = torch.bfloat16 if gpu else torch.float32
    left, right = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    yield _measured("gemm", lambda: left @ right, device=device, seconds=seconds)
    source = torch.empty(COPY_GPU if gpu else COPY_CPU, dtype=torch.uint8, device=device).fill_(1)
    target = torch.empty_like(source)
    yield _measured("copy", lambda: target.copy_(source), device=device, seconds=seconds)


def in_pairs(
    device: str, *, rank: int, world: int, master: str, seconds: float, rounds: int
) -> Iterator[Measured]:
    """All-reduces with one partner after another; all members take part in the same order. Raises RuntimeError."""
    import torch
    import torch.distributed as dist

    dist.init_process_group(
        "nccl" if device != "cpu" else "gloo",
        init_method=f"tcp://{master}",
        rank=rank,
        world_size=world,
        timeout=timedelta(seconds=JOIN_S),
    )
    try:
        plan = rounds_of(world, rounds)
        groups = [{pair: dist.new_group(list(pair)) for pair in pairs} for pairs in plan]
        size = (REDUCE_CPU if device == "cpu" else REDUCE_GPU) // 4
        data = torch.ones(size, device=device)
        for pairs in groups:
            mine = next((pair for pair in pairs if rank in pair), None)
            if mine is not None:
                repeats = _agreed(data, pairs[mine], device=device, seconds=seconds / len(plan))
                partner = mine[0] if mine[1] == rank else mine[1]
                yield Measured(test="allreduce", p50_s=repeats[0], repeats=repeats[1], partner=partner)
            dist.barrier()
    finally:
        dist.destroy_process_group()


def _agreed(data: torch.Tensor, group: Any, *, device: str, seconds: float) -> tuple[float, int]:
    """Median and number of all-reduces in a pair, as many on both sides: the first ones tell how many fit."""
    import torch
    import torch.distributed as dist

    def once() -> float:
        data.fill_(1.0)
        return _timed(lambda: dist.all_reduce(data, group=group), device=device)

    once()
    took = statistics.median(once() for _ in range(3))
    number = torch.tensor(
        [max(int(seconds / max(took, 1e-6)), MIN_REPEATS)], dtype=torch.int64, device=device
    )
    dist.all_reduce(number, op=dist.ReduceOp.MIN, group=group)
    times = [once() for _ in range(int(number.item()))]
    return statistics.median(times), len(times)


def _measured(test: str, work: Callable[[], object], *, device: str, seconds: float) -> Measured:
    """Repeat `work` for `seconds`, at least a few times; the first is warm-up."""
    _timed(work, device=device)
    end_s = time.monotonic() + seconds
    times: list[float] = []
    while len(times) < MIN_REPEATS or time.monotonic() < end_s:
        times.append(_timed(work, device=device))
    return Measured(test=test, p50_s=statistics.median(times), repeats=len(times))


def _timed(work: Callable[[], object], *, device: str) -> float:
    import torch

    started = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - started
