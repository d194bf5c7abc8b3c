"""Trains on one GPU under `argus run` and measures the kernel channel against torch.profiler."""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
from torch.profiler import ProfilerActivity, profile

from argus.collectors.rank import attach
from argus.collectors.rank.cupti import process
from argus.collectors.rank.cupti.channel import Channel
from argus.collectors.rank.session import Session
from argus.collectors.records.kernel_names import short_name
from argus.evals.workloads.models import Step
from argus.evals.workloads.overhead import START_STEPS, Arms
from argus.evals.workloads.train import VOCABULARY, Transformer

ARMS = ("off", "all", "torch.profiler", "torch.profiler with stacks")
BLOCK_STEPS = 2
WARM_STEPS = 2  # the first finds the modules again, the second runs with everything in place
BLOCKS_S = 220.0  # of the eight minutes; fewer blocks are said, not hidden
STEP_S = 0.08  # the batch doubles until a step lasts so long
MAX_BATCH = 1024
PAIRS = 20  # alternating steps under CUPTI and under torch.profiler
PATH_STEPS = 40
MIDDLE_STEPS = 6
SETTLE_S = 2.0  # flush, parse and send
CHANNEL_S = 20.0  # the writer thread starts the channel at its next look
GPU_WORK = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})


def seconds(step: Step, *, num_steps: int) -> float:
    """Seconds a step, with the GPU done."""
    torch.cuda.synchronize()
    start_s = time.perf_counter()
    for _ in range(num_steps):
        step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start_s) / num_steps


def transformer_step(model: torch.nn.Module, *, batch: int) -> Step:
    """Forward, backward and optimizer on one fixed batch."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, VOCABULARY, (batch, 65))

    def step() -> None:
        model(tokens).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def build() -> tuple[Step, int]:
    """A transformer's step that lasts about 0.1 s, and its batch."""
    torch.manual_seed(0)
    model = Transformer(width=768, layers=12).cuda()
    batch = 16
    while True:
        with torch.device("cuda"):  # where it makes its batch
            step = transformer_step(model, batch=batch)
        for _ in range(START_STEPS):
            step()
        if seconds(step, num_steps=3) >= STEP_S or batch >= MAX_BATCH:
            return step, batch
        batch *= 2


def session_and_channel() -> tuple[Session, Channel]:
    """What records here, once the kernel channel is on."""
    end_s = time.monotonic() + CHANNEL_S
    while time.monotonic() < end_s:
        session = attach.current_session()
        if session is not None and session.kernels is not None and session.kernels.is_on:
            return session, session.kernels
        time.sleep(0.05)
    session = attach.current_session()
    notes = "not attached: run this under `argus run`" if session is None else "; ".join(session.notes)
    raise SystemExit(f"the kernel channel did not start: {notes}")


@contextmanager
def arm(name: str) -> Iterator[None]:
    """Everything that belongs to one arm, around its block."""
    Arms().switch("all" if name == "all" else "off")
    if name == "all":
        session_and_channel()
    if not name.startswith("torch"):
        yield
        return
    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], with_stack=name.endswith("stacks")
    ):
        yield


def blocks(step: Step, *, num_blocks: int) -> list[dict[str, float]]:
    """Seconds a step by arm, in random order within each block."""
    order, rows = random.Random(0), list[dict[str, float]]()
    end_s = time.monotonic() + BLOCKS_S
    while len(rows) < num_blocks and time.monotonic() < end_s:
        row = {}
        for name in order.sample(ARMS, len(ARMS)):
            with arm(name):
                for _ in range(WARM_STEPS):
                    step()
                row[name] = seconds(step, num_steps=BLOCK_STEPS)
        rows.append(row)
    Arms().switch("all")
    return rows


def alternate(step: Step) -> dict[str, Any]:
    """The same step under CUPTI and under torch.profiler in turn: whose numbers and the profiler's times."""
    session, channel = session_and_channel()
    cupti_steps, theirs = [], dict[str, list[int]]()
    for _ in range(PAIRS):
        channel.tick()
        step()
        torch.cuda.synchronize()
        cupti_steps.append(session.recorder.step)
        for name, dur_ns in profiled(step):
            theirs.setdefault(name, []).append(dur_ns)
    channel.tick()
    return {"steps": cupti_steps, "profiler": theirs, "was_on": channel.is_on}


def profiled(step: Step) -> list[tuple[str, int]]:
    """Name and nanoseconds of what ran on the GPU during one step, as torch.profiler has it."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as one:
        step()
        torch.cuda.synchronize()
    results = cast(Any, one.profiler).kineto_results
    events = [event for event in results.events() if event.activity_type() in GPU_WORK]
    return [(short_name(event.name()), int(event.duration_ns())) for event in events]


def path_figures(step: Step, *, how: str) -> dict[str, Any]:
    """Records and the cost of decoding them by one of the two ways."""
    session, channel = session_and_channel()
    channel.use(process.shared_objects() if how == "objects" else process.shared_raw())
    before = vars(channel.counts).copy()
    steps, start_s = [], time.perf_counter()
    for _ in range(PATH_STEPS):
        step()
        steps.append(session.recorder.step)
    torch.cuda.synchronize()
    took_s = time.perf_counter() - start_s
    settle(channel)
    gone = {name: value - before[name] for name, value in vars(channel.counts).items()}
    return {"steps": steps, "seconds": took_s, **gone}


def settle(channel: Channel) -> None:
    """Let everything that was launched be flushed, parsed and sent."""
    time.sleep(SETTLE_S)
    channel.tick()
    time.sleep(SETTLE_S)


def middle(step: Step) -> dict[str, Any]:
    """torch.profiler starts while we collect: it sees kernels, we stand aside and come back."""
    session, channel = session_and_channel()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as one:
        stood_aside = not channel.is_on
        during = [number(session, step) for _ in range(MIDDLE_STEPS)]
        torch.cuda.synchronize()
    results = cast(Any, one.profiler).kineto_results
    seen = sum(event.activity_type() in GPU_WORK for event in results.events())
    session_and_channel()
    after = [number(session, step) for _ in range(MIDDLE_STEPS)]
    torch.cuda.synchronize()
    return {"stood_aside": stood_aside, "profiler_events": seen, "during": during, "after": after}


def number(session: Session, step: Step) -> int:
    """Run a step; its number."""
    step()
    return session.recorder.step


def measure(*, num_blocks: int) -> dict[str, Any]:
    """Everything that runs in the training process."""
    step, batch = build()
    session_and_channel()
    parts: dict[str, Callable[[], Any]] = {
        "pairs": lambda: alternate(step),
        "raw": lambda: path_figures(step, how="raw"),
        "objects": lambda: path_figures(step, how="objects"),
        "middle": lambda: middle(step),
        "blocks": lambda: blocks(step, num_blocks=num_blocks),
    }
    result = {name: part() for name, part in parts.items()}
    session, channel = session_and_channel()
    settle(channel)
    return {
        **result,
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "batch": batch,
        "notes": list(session.notes),
        "dropped": session.ring.dropped(),
    }


def main() -> None:
    """Measure, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.write_text(json.dumps(measure(num_blocks=args.blocks)))


if __name__ == "__main__":
    main()
