"""Trains on one GPU under `argus run` and measures the kernel channel against torch.profiler.

Each part writes its figures as soon as it has them: one that fails, or the time running out, costs only itself.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from argus.collectors.rank import attach
from argus.collectors.rank.cupti import process
from argus.collectors.rank.cupti.channel import Channel
from argus.collectors.rank.session import Session
from argus.collectors.records.channels import BLOCK_STEPS as SAMPLE_EVERY
from argus.evals.arms import PROFILERS
from argus.evals.workloads.gpu_dry import Dry
from argus.evals.workloads.gpu_machine import Cuda, Machine, seconds
from argus.evals.workloads.models import Step
from argus.evals.workloads.overhead import Arms

ARMS = ("off", "all", *PROFILERS)
BLOCK_STEPS = 2
WARM_STEPS = 2  # the first finds the modules again, the second runs with everything in place
BLOCKS_S = 220.0  # of the eight minutes; fewer blocks are said, not hidden
PAIRS = 20  # alternating steps under CUPTI and under torch.profiler
PATH_STEPS = 40
MIDDLE_STEPS = 6
CHANNEL_S = 20.0  # the writer thread starts the channel at its next look


class NotStarted(RuntimeError):
    """The kernel channel does not collect; the message holds the rank's notes."""


def session_and_channel() -> tuple[Session, Channel]:
    """What records here, once the kernel channel is on. Raises NotStarted."""
    end_s = time.monotonic() + CHANNEL_S
    while time.monotonic() < end_s:
        session = attach.current_session()
        if session is not None and session.kernels is not None and session.kernels.is_on:
            return session, session.kernels
        time.sleep(0.05)
    session = attach.current_session()
    notes = "not attached: run this under `argus run`" if session is None else "; ".join(session.notes)
    raise NotStarted(f"the kernel channel did not start: {notes}")


@contextmanager
def arm(name: str, *, arms: Arms, machine: Machine) -> Iterator[None]:
    """Everything that belongs to one arm, around its block."""
    arms.switch("all" if name == "all" else "off")
    if name == "all":
        session_and_channel()
    if name not in PROFILERS:
        yield
        return
    with machine.profile(with_stack=name.endswith("stacks")):
        yield


def blocks(step: Step, machine: Machine, *, num_blocks: int) -> list[dict[str, float]]:
    """Seconds a step by arm, in random order within each block; one step in 50 of `all` is a sampled one."""
    order, rows, arms = random.Random(0), list[dict[str, float]](), Arms()
    end_s = time.monotonic() + BLOCKS_S
    while len(rows) < num_blocks and time.monotonic() < end_s:
        row = {}
        for name in order.sample(ARMS, len(ARMS)):
            with arm(name, arms=arms, machine=machine):
                for _ in range(WARM_STEPS):
                    step()
                if name == "all" and len(rows) % (SAMPLE_EVERY // BLOCK_STEPS) == 1:
                    arms.sample()
                row[name] = seconds(step, machine, num_steps=BLOCK_STEPS)
        rows.append(row)
    arms.as_in_use()
    return rows


def alternate(step: Step, machine: Machine) -> dict[str, Any]:
    """The same step under CUPTI and under torch.profiler in turn: whose numbers and the profiler's times."""
    session, channel = session_and_channel()
    cupti_steps, theirs = [], dict[str, list[int]]()
    for _ in range(PAIRS):
        channel.tick()
        if not channel.is_on:
            raise NotStarted(f"the kernel channel did not come back: {'; '.join(session.notes)}")
        cupti_steps.append(number(session, step))
        machine.synchronize()
        with machine.profile() as seen:
            step()
            machine.synchronize()
        for name, dur_ns in seen.work:
            theirs.setdefault(name, []).append(dur_ns)
    channel.tick()
    settle(channel, machine)
    return {"steps": cupti_steps, "profiler": theirs}


def path_figures(step: Step, machine: Machine, *, how: str) -> dict[str, Any]:
    """Records and the cost of decoding them by one of the two ways."""
    session, channel = session_and_channel()
    channel.use(process.shared_objects() if how == "objects" else process.shared_raw())
    before = vars(channel.counts).copy()
    steps, start_s = [], time.perf_counter()
    for _ in range(PATH_STEPS):
        steps.append(number(session, step))
    machine.synchronize()
    took_s = time.perf_counter() - start_s
    settle(channel, machine)
    gone = {name: value - before[name] for name, value in vars(channel.counts).items()}
    return {"steps": steps, "seconds": took_s, "how": channel.path.name, **gone}


def settle(channel: Channel, machine: Machine) -> None:
    """Let everything that was launched be flushed, parsed and sent."""
    time.sleep(machine.settle_s)
    channel.tick()
    time.sleep(machine.settle_s)


def middle(step: Step, machine: Machine) -> dict[str, Any]:
    """torch.profiler starts while we collect: it sees kernels, we stand aside and come back."""
    session, channel = session_and_channel()
    with machine.profile() as seen:
        stood_aside = not channel.is_on
        during = [number(session, step) for _ in range(MIDDLE_STEPS)]
        machine.synchronize()
    session_and_channel()
    after = [number(session, step) for _ in range(MIDDLE_STEPS)]
    machine.synchronize()
    settle(channel, machine)
    return {
        "stood_aside": stood_aside,
        "profiler_events": len(seen.work),
        "during": during,
        "after": after,
    }


def number(session: Session, step: Step) -> int:
    """Run a step; its number."""
    step()
    return session.recorder.step


def measure(machine: Machine, *, num_blocks: int, out: Path) -> None:
    """Everything that runs in the training process."""
    step = machine.build()
    parts: dict[str, Callable[[], Any]] = {
        "pairs": lambda: alternate(step, machine),
        "raw": lambda: path_figures(step, machine, how="raw"),
        "objects": lambda: path_figures(step, machine, how="objects"),
        "middle": lambda: middle(step, machine),
        "blocks": lambda: blocks(step, machine, num_blocks=num_blocks),
    }
    told: dict[str, Any] = {"gpu": machine.name(), "torch": torch.__version__, "failed": {}}
    for name, part in parts.items():
        started_s = time.monotonic()
        try:
            told[name] = part()
        except Exception as error:  # noqa: BLE001  what a driver or a profiler raises is not known: the others go on
            told["failed"][name] = f"{type(error).__name__}: {error}"
        told[f"{name}_s"] = time.monotonic() - started_s
        session = attach.current_session()
        told["notes"] = [] if session is None else list(session.notes)
        told["dropped"] = {} if session is None else session.ring.dropped()
        out.write_text(json.dumps(told))


def main() -> None:
    """Measure, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--dry-run", action="store_true", help="on a CPU, with a stand-in for CUPTI")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    measure(Dry() if args.dry_run else Cuda(), num_blocks=args.blocks, out=args.out)


if __name__ == "__main__":
    main()
