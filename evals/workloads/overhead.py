"""Trains in short blocks, each arm's turns of them in random order, and writes each block's seconds; under torchrun.

The off arm has every patch taken out and a model of its own that was made without them; the null arm is the
same with one more such model, so that it shows the noise of the method; the stopped arm is the off arm with the
observed model, so that it shows what collectors leave behind when they stop. The stacks arm is the off arm while
another process dumps the ranks. The profiler arms are the off arm under torch.profiler.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import torch
import torch.distributed as dist

from argus.collectors.rank import attach
from argus.collectors.records.channels import BLOCK_STEPS
from argus.evals.arms import BARE, PROFILERS, SHORT, Part
from argus.evals.dumper import ARM_FILE, PID_FILE, say_arm
from argus.evals.workloads.models import BATCH, BUILD, Step

START_STEPS = 8
COLLECTIVES = frozenset({"torch_collectives", "torch_ddp", "torch_functional", "torch_nccl"})
STEPS = frozenset({"torch_optimizer", "torch_forward"})
"""What tells steps and finds models; every arm with a channel needs it."""

FITTED: Mapping[str, float] = {"transformer": 0.09, "moe": 0.06}
"""Seconds a step is to take whatever the machine's hour: what a step costs does not depend on its length, the share does."""

FIT_STEPS, FIT_TRIES, MOST_BATCH = 10, 5, 64
NEAR_ENOUGH = 0.06
"""A batch is taken whose step is as long as wanted but for this part: one sample is about as much."""

LIFE_ROWS = 75
"""Rows of blocks after which models are made anew, in reversed order: where its memory happens to lie makes one of two
equal models up to 1.8 % slower by processor time, for as long as it lives (docs/benchmarks.md)."""

SAMPLED = frozenset({"torch_modules", "cpu_operators"})
MEMORY_EVERY = 5


def hooks_of(arm: str) -> list[str]:
    """Hooks of an arm: all but for the arm of a single channel."""
    names = [name for name, _ in attach.find_hooks()]
    if arm == "phases":
        return [name for name in names if name not in COLLECTIVES | SAMPLED]
    own = {
        "collectives": COLLECTIVES | STEPS,
        "modules": STEPS | {"torch_modules"},
        "kernels": STEPS | {"cpu_operators"},
    }
    return names if arm == "all" else [name for name in names if name in own.get(arm, ())]


@dataclass(kw_only=True)
class Told:
    """What a job's blocks were: seconds a step by arm, a row for each block of a turn, and seconds of processors that
    the hypervisor gave to others in each second of them; each row's turn; rows whose `all` held a sampled step; and
    per arm the steps of its blocks as (first, after the last)."""

    rows: list[dict[str, float]] = field(default_factory=list)
    stolen: list[dict[str, float]] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)
    steps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)


class Arms:
    """Puts collectors in and takes them out. `arm_file` is where blocks are announced to who dumps the ranks."""

    def __init__(self, *, arm_file: int | None = None) -> None:
        session = attach.current_session()
        if session is None:
            raise SystemExit("the collectors are not attached: run this under `argus run`")
        self._session, self._arm_file = session, arm_file
        self._plan = session.recorder.channels.plan
        self._arm = ""
        self._samples = False
        self._num_blocks = 0

    def switch(self, arm: str) -> None:
        """The arm's collectors and no others."""
        self._session.stop()
        self._session.recorder.channels.plan = self._every if arm == "modules" else self._next
        self._arm = arm
        wanted = hooks_of(arm)
        for name, hook in attach.find_hooks():
            if name in wanted:
                self._session.add(name, hook)

    def as_in_use(self) -> None:
        """Everything on, with the samples that the run's name and the steps ask for."""
        self.switch("all")
        self._session.recorder.channels.plan = self._plan

    def sample(self) -> None:
        """The next step that begins is a sampled one: module phases and, without a GPU, operators."""
        self._samples = True

    def _next(self, _step: int) -> str:
        samples, self._samples = self._samples, False
        return "modules" if samples else ""

    def _every(self, _step: int) -> str:
        return "modules"

    def block(
        self, step: Step, *, arm: str, num_steps: int, told: Told, is_sampled: bool, begins_turn: bool
    ) -> tuple[float, float]:
        """Seconds a step of one block, stolen ones in a second; starting and stopping of the arm are not in it."""
        warm = 0
        if arm != self._arm or (arm in PROFILERS and begins_turn):
            self.switch(arm)
            warm = 1 if arm in BARE else 2
        for _ in range(warm):
            step()
        dist.barrier()
        self._announce(arm)
        if is_sampled:
            self.sample()
        first = self._session.recorder.current_step
        start_s, gone_s = time.perf_counter(), stolen_s()
        for _ in range(num_steps):
            step()
        took_s, lost_s = time.perf_counter() - start_s, stolen_s() - gone_s
        self._announce("")
        if arm not in (*BARE, *PROFILERS):  # where nothing records no step counts
            told.steps.setdefault(arm, []).append((first, first + num_steps))
        return took_s / num_steps, lost_s / took_s

    def _announce(self, arm: str) -> None:
        self._num_blocks += 1
        if self._arm_file is not None:
            say_arm(self._arm_file, arm, number=self._num_blocks)


def stolen_s() -> float:
    """Seconds of this machine's processors that a hypervisor has given to others; 0 where there is none."""
    return float(getattr(psutil.cpu_times(), "steal", 0.0))


def memory_of(step: Step, *, num_steps: int) -> list[tuple[int, int]]:
    """Resident bytes every `MEMORY_EVERY` steps."""
    found = []
    for i in range(num_steps):
        step()
        if i % MEMORY_EVERY == 0:
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            found.append((i, pages * os.sysconf("SC_PAGE_SIZE")))
    return found


def profiler(arm: str) -> AbstractContextManager[object]:
    """torch.profiler on for a whole turn, as far as the arm wants it."""
    if arm not in PROFILERS:
        return nullcontext()
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], with_stack=arm.endswith("stacks")
    )


def rounds(plan: Sequence[Part], *, seed: int) -> list[tuple[int, list[str]]]:
    """Per round the blocks of a turn and its arms in random order, the same on every rank.

    Every second round is the one before reversed: a drift falls on all arms alike, and the arm at the turn stays in.

    >>> rounds([Part(2, 1, ["off", "all"])], seed=1)
    [(1, ['off', 'all']), (1, ['all', 'off'])]
    """
    order, made = random.Random(seed), list[tuple[int, list[str]]]()
    for part in plan:
        for number in range(part.rounds):
            arms = made[-1][1][::-1] if number % 2 else order.sample(part.arms, len(part.arms))
            made.append((part.turn, arms))
    return made


def fitted(workload: str) -> int:
    """Samples of a step, the same on every rank: as the workload has them, or as many as take the time it is to take."""
    batch, took_s = BATCH[workload], dict[int, float]()
    for _ in range(FIT_TRIES if workload in FITTED else 0):
        took_s[batch] = _took_s(workload, batch)
        before, batch = batch, _agreed(next_batch(took_s, wanted_s=FITTED[workload]))
        if batch == before:
            break
    return batch


def next_batch(took_s: Mapping[int, float], *, wanted_s: float) -> int:
    """The batch to try after those whose steps took so long, or one of them that is near enough.

    >>> next_batch({8: 0.20}, wanted_s=0.1), next_batch({8: 0.20, 4: 0.12}, wanted_s=0.1), next_batch({3: 0.1}, wanted_s=0.1)
    (4, 3, 3)
    """
    best = min(took_s, key=lambda batch: abs(took_s[batch] - wanted_s))
    if abs(took_s[best] - wanted_s) <= NEAR_ENOUGH * wanted_s:
        return best
    wanted = best * wanted_s / took_s[best]
    if len(took_s) > 1:  # part of a step is the same for any batch
        per_sample_s, fixed_s = np.polyfit(list(took_s), list(took_s.values()), 1).tolist()
        if per_sample_s > 0 and fixed_s > 0:
            wanted = (wanted_s - fixed_s) / per_sample_s
    return min(max(round(wanted), 1), MOST_BATCH)


def _took_s(workload: str, batch: int) -> float:
    step, took_s = started(workload, batch), []
    for _ in range(FIT_STEPS):
        begun_s = time.perf_counter()
        step()
        took_s.append(time.perf_counter() - begun_s)
    return statistics.median(took_s)


def _agreed(batch: int) -> int:
    """What the first rank found, on all."""
    found = torch.tensor(batch)
    dist.broadcast(found, src=0)
    return int(found)


def started(workload: str, batch: int) -> Step:
    """The step of a new model, warm: every model starts from the same seed."""
    torch.manual_seed(0)
    step = BUILD[workload](batch)
    for _ in range(START_STEPS):
        step()
    return step


MADE_UNDER: Mapping[str, str] = {"observed": "all", "pristine": "off", "control": "off"}
"""Models, and the arm each of them is made under."""


def model_of(arm: str) -> str:
    """Which model an arm runs.

    >>> model_of("null"), model_of("stacks"), model_of("stopped")
    ('control', 'pristine', 'observed')
    """
    is_bare = arm in ("off", "stacks", *PROFILERS)
    return "control" if arm == "null" else "pristine" if is_bare else "observed"


class Models:
    """The steps of the models that live now."""

    def __init__(self, arms: Arms, *, workload: str, batch: int) -> None:
        self._arms, self._workload, self._batch = arms, workload, batch
        self._steps: dict[str, Step] = {}
        self._lives = self._age = 0

    def see_to(self, arms: Sequence[str], *, rows: int) -> None:
        """Have the models of these arms for so many rows more, new ones if one is missing or they have lived."""
        wanted = [name for name in MADE_UNDER if name in map(model_of, arms)]
        self._age += rows
        if self._age <= LIFE_ROWS and self._steps.keys() >= set(wanted):
            return
        self._arms.switch("off")
        self._steps.clear()
        gc.collect()
        for name in reversed(wanted) if self._lives % 2 else wanted:
            self._arms.switch(MADE_UNDER[name])
            self._steps[name] = started(self._workload, self._batch)
        self._lives, self._age = self._lives + 1, rows

    def of(self, arm: str) -> Step:
        """The step of the model that this arm runs."""
        return self._steps[model_of(arm)]


def play(arms: Arms, models: Models, *, plan: Sequence[tuple[int, Sequence[str]]], block_steps: int) -> Told:
    """All blocks of these rounds; one `all` block of so many that one step in `BLOCK_STEPS` is sampled."""
    told, period = Told(), max(BLOCK_STEPS // block_steps, 1)
    for number_of_turn, (turn, order) in enumerate(plan):
        models.see_to(order, rows=turn)
        first = len(told.rows)
        told.rows += [{} for _ in range(turn)]
        told.stolen += [{} for _ in range(turn)]
        told.turns += [number_of_turn] * turn
        for arm in order:
            with profiler(arm):
                for number in range(first, first + turn):
                    is_sampled = arm == "all" and len(told.steps.get(arm, ())) % period == 1
                    told.rows[number][arm], told.stolen[number][arm] = arms.block(
                        models.of(arm),
                        arm=arm,
                        num_steps=1 if arm in SHORT else block_steps,
                        told=told,
                        is_sampled=is_sampled or arm == "kernels",
                        begins_turn=number == first,
                    )
                    told.sampled += [number] if is_sampled else []
    return told


def main() -> None:
    """Run the blocks; rank 0 writes them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=tuple(BUILD), required=True)
    parser.add_argument("--plan", type=json.loads, required=True, help="[[rounds, turn, [arm, …]], …]")
    parser.add_argument("--block-steps", type=int, required=True)
    parser.add_argument("--memory-steps", type=int, default=0)
    parser.add_argument("--warm-steps", type=int, default=0, help="of a narrow model, before these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    (args.out.parent / PID_FILE.format(rank=rank)).write_text(str(os.getpid()))
    arm_file = None if rank else os.open(args.out.parent / ARM_FILE, os.O_RDWR | os.O_CREAT)
    arms = Arms(arm_file=arm_file)
    arms.switch("off")
    batch = fitted(args.workload) if args.plan else 1  # memory does not depend on it, the minutes do
    models = Models(arms, workload=args.workload, batch=batch)
    plan = rounds([Part(*part) for part in args.plan], seed=args.seed)
    told = play(arms, models, plan=plan, block_steps=args.block_steps)
    models.see_to(["all"], rows=0)
    arms.as_in_use()
    step = started("narrow mlp", batch)
    for _ in range(args.warm_steps):
        step()
    resident = memory_of(models.of("all"), num_steps=args.memory_steps)
    if rank == 0:
        args.out.write_text(json.dumps({**vars(told), "batch": batch, "resident": resident}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
