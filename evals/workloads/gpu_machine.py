"""What the GPU check's workload asks of the machine: a step, its end, a profiler's view; a real GPU's answers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import torch
from torch.profiler import ProfilerActivity, profile

from argus.collectors.rank.cupti.process import shared_shortener
from argus.evals.workloads.models import Step
from argus.evals.workloads.transformer import VOCABULARY, Transformer

START_STEPS = 8
STEP_S = 0.08  # the batch doubles until a step lasts so long
MAX_BATCH = 1024
GPU_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})


@dataclass(kw_only=True)
class Seen:
    """Name and nanoseconds of what ran on the GPU while a profiler watched; filled when it ends."""

    work: list[tuple[str, int]] = field(default_factory=list)


class Machine(Protocol):
    """A GPU, or something that behaves like one."""

    settle_s: float
    """Flush, parse and send take less than this."""

    def name(self) -> str:
        """What it is called."""

    def build(self) -> Step:
        """A transformer's step that lasts about 0.1 s, warm."""

    def synchronize(self) -> None:
        """Wait for what was launched."""

    def profile(self, *, with_stack: bool = False) -> Any:
        """Context of a profiler, which gives a `Seen`."""


def seconds(step: Step, machine: Machine, *, num_steps: int) -> float:
    """Seconds a step, with the GPU done."""
    machine.synchronize()
    start_s = time.perf_counter()
    for _ in range(num_steps):
        step()
    machine.synchronize()
    return (time.perf_counter() - start_s) / num_steps


class Cuda:
    """The first GPU, through torch."""

    settle_s = 2.0

    def name(self) -> str:
        """What it is called."""
        return torch.cuda.get_device_name()

    def build(self) -> Step:
        """The batch grows until the step is long enough."""
        torch.manual_seed(0)
        model = Transformer(width=768, layers=12).cuda()
        batch = 16
        while True:
            step = transformer_step(model, batch=batch)
            for _ in range(START_STEPS):
                step()
            if seconds(step, self, num_steps=3) >= STEP_S or batch >= MAX_BATCH:
                return step
            batch *= 2

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()

    @contextmanager
    def profile(self, *, with_stack: bool = False) -> Iterator[Seen]:
        """torch.profiler on host and device."""
        seen = Seen()
        activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
        with profile(activities=activities, with_stack=with_stack) as one:
            yield seen
            torch.cuda.synchronize()
        seen.work += work_of(one)


def work_of(one: profile) -> list[tuple[str, int]]:
    """What ran on the GPU, as torch.profiler has it."""
    results = cast(Any, one.profiler).kineto_results
    events = [event for event in results.events() if _is_gpu_work(event)]
    shorten = shared_shortener()  # Kineto leaves the longest names mangled
    return [(shorten(event.name()), int(event.duration_ns())) for event in events]


def _is_gpu_work(event: Any) -> bool:
    """A kernel, a copy or a set; older torch says only on which device something was and whether it is a mark."""
    if hasattr(event, "activity_type"):
        return event.activity_type() in GPU_WORK
    return event.device_type().name == "CUDA" and not event.is_user_annotation()


def transformer_step(model: torch.nn.Module, *, batch: int) -> Step:
    """Forward, backward and optimizer on one fixed batch, where the model's parameters are."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    device = next(model.parameters()).device
    tokens = torch.randint(0, VOCABULARY, (batch, 65), device=device)

    def step() -> None:
        model(tokens).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step
