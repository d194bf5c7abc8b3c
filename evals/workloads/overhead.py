"""Trains in short blocks, one arm each in random order, and writes each block's seconds; under torchrun.

The off arm has every patch taken out and a model of its own that was made without them; the null arm is the
same with one more such model, so that it shows the noise of the method; the stopped arm is the off arm with the
observed model, so that it shows what collectors leave behind when they stop. The profiler arms are the off arm
under torch.profiler.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
import torch.distributed as dist

from argus.collectors.rank import attach
from argus.evals.workloads.models import BUILD, Step

WARM_STEPS = {"off": 1, "null": 1, "stopped": 1}
"""An observed block needs two: the first finds the modules again, the second runs with everything in place."""

START_STEPS = 8
COLLECTIVES = frozenset({"torch_collectives", "torch_ddp", "torch_functional", "torch_nccl"})
STEPS = frozenset({"torch_optimizer", "torch_forward"})
"""What tells steps and finds models; every arm with a channel needs it."""

MEMORY_EVERY = 5


def hooks_of(arm: str) -> list[str]:
    """Hooks of an arm: all but for the arm of a single channel."""
    names = [name for name, _ in attach.find_hooks()]
    if arm == "collectives":
        return [name for name in names if name in COLLECTIVES | STEPS]
    if arm == "modules":
        return [name for name in names if name in STEPS | {"torch_modules"}]
    if arm == "phases":
        return [name for name in names if name not in COLLECTIVES | {"torch_modules"}]
    return names if arm == "all" else []


class Arms:
    """Puts collectors in and takes them out."""

    def __init__(self) -> None:
        session = attach.current_session()
        if session is None:
            raise SystemExit("the collectors are not attached: run this under `argus run`")
        self._session = session
        self._plan = session.recorder.channels.plan

    def switch(self, arm: str) -> None:
        """The arm's collectors and no others; its modules are timed in every step if they are all it has."""
        self._session.stop()
        self._session.recorder.channels.plan = _every_step if arm == "modules" else self._plan
        wanted = hooks_of(arm)
        for name, hook in attach.find_hooks():
            if name in wanted:
                self._session.add(name, hook)

    def block(self, step: Step, *, arm: str, num_steps: int) -> float:
        """Seconds a step of one block; starting and stopping of the arm are not in it."""
        self.switch(arm)
        with profiler(arm):
            for _ in range(WARM_STEPS.get(arm, 2)):
                step()
            dist.barrier()
            start_s = time.perf_counter()
            for _ in range(num_steps):
                step()
            return (time.perf_counter() - start_s) / num_steps


def memory_of(step: Step, *, num_steps: int) -> list[tuple[int, int]]:
    """Resident bytes every `MEMORY_EVERY` steps."""
    found = []
    for i in range(num_steps):
        step()
        if i % MEMORY_EVERY == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            found.append((i, pages * os.sysconf("SC_PAGE_SIZE")))
    return found


def _every_step(_step: int) -> str:
    return "modules"


def profiler(arm: str) -> AbstractContextManager[object]:
    """torch.profiler always on, as far as the arm wants it."""
    if not arm.startswith("torch.profiler"):
        return nullcontext()
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], with_stack=arm.endswith("stacks")
    )


def rounds(plan: Sequence[tuple[int, Sequence[str]]], *, seed: int) -> list[list[str]]:
    """Per round its arms in random order, the same on every rank; `plan` is (rounds, arms) parts."""
    order = random.Random(seed)
    return [order.sample(list(arms), len(arms)) for num, arms in plan for _ in range(num)]


def started(workload: str) -> Step:
    """The step of a new model, warm: every model starts from the same seed."""
    torch.manual_seed(0)
    step = BUILD[workload]()
    for _ in range(START_STEPS):
        step()
    return step


def main() -> None:
    """Run the blocks; rank 0 writes them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=tuple(BUILD), required=True)
    parser.add_argument("--plan", type=json.loads, required=True, help="[[rounds, [arm, …]], …]")
    parser.add_argument("--block-steps", type=int, required=True)
    parser.add_argument("--memory-steps", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    arms = Arms()
    observed = started(args.workload)
    arms.switch("off")
    pristine, control = started(args.workload), started(args.workload)
    steps = dict.fromkeys(("off", "torch.profiler", "torch.profiler with stacks"), pristine) | {
        "null": control
    }
    rows = [
        {arm: arms.block(steps.get(arm, observed), arm=arm, num_steps=args.block_steps) for arm in order}
        for order in rounds(args.plan, seed=args.seed)
    ]
    arms.switch("all")
    resident = memory_of(observed, num_steps=args.memory_steps)
    if dist.get_rank() == 0:
        args.out.write_text(json.dumps({"rows": rows, "resident": resident}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
