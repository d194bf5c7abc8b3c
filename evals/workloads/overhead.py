"""Trains in short blocks, collectors on or off in random order, and writes each block's seconds; under torchrun.

The off arm has every patch taken out and a model of its own whose DDP keeps the reducer's C++ path; the
null arm is the off arm with the on arm's model, so that off against null shows the noise of the method.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from argus.collectors.rank import attach
from argus.evals.workloads.train import VOCABULARY, Transformer

ARMS = ("on", "off", "null")
WARM_STEPS = 2  # the first finds the modules again, the second runs with everything in place
START_STEPS = 8

Step = Callable[[], None]


def transformer_step(model: nn.Module, *, batch: int) -> Step:
    """Forward, backward and optimizer of a small GPT."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, VOCABULARY, (batch, 65))

    def step() -> None:
        model(tokens).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def mlp_step(model: nn.Module, *, batch: int) -> Step:
    """The same of 48 × Linear(512) + GELU: many launches, little work in each."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(batch, 512)

    def step() -> None:
        model(x).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def mlp() -> nn.Module:
    """48 × Linear(512) + GELU."""
    return nn.Sequential(*(layer for _ in range(48) for layer in (nn.Linear(512, 512), nn.GELU())))


def build(workload: str) -> tuple[Step, Step]:
    """The on arm's step and the off arm's: equal models, but the second keeps DDP's own reducer."""
    steps = []
    for is_observed in (True, False):
        torch.manual_seed(0)
        inner = mlp() if workload == "mlp" else Transformer(width=192, layers=6)
        model = DistributedDataParallel(inner)
        if not is_observed:
            model._comm_hooks.append((print, None))  # as if the user had a hook: ours stays away
        steps.append(mlp_step(model, batch=4) if workload == "mlp" else transformer_step(model, batch=6))
    return steps[0], steps[1]


def switch(*, on: bool) -> None:
    """Put every collector in, or take every one out."""
    session = attach.current_session()
    if session is None:
        raise SystemExit("the collectors are not attached: run this under `argus run`")
    session.stop()
    if on:
        for name, hook in attach.find_hooks():
            session.add(name, hook)


def block(step: Step, *, on: bool, num_steps: int) -> float:
    """Seconds a step of one block."""
    switch(on=on)
    for _ in range(WARM_STEPS):
        step()
    dist.barrier()
    start_s = time.perf_counter()
    for _ in range(num_steps):
        step()
    return (time.perf_counter() - start_s) / num_steps


def main() -> None:
    """Run the blocks; rank 0 writes them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", choices=("transformer", "mlp"), required=True)
    parser.add_argument("--triples", type=int, required=True)
    parser.add_argument("--block-steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    observed, pristine = build(args.workload)
    for step in (observed, pristine):
        for _ in range(START_STEPS):
            step()
    steps: Mapping[str, Step] = {"on": observed, "null": observed, "off": pristine}
    order = random.Random(args.seed)  # the same on every rank
    rows = []
    for _ in range(args.triples):
        row = {
            arm: block(steps[arm], on=arm == "on", num_steps=args.block_steps)
            for arm in order.sample(ARMS, 3)
        }
        rows.append(row)
    if dist.get_rank() == 0:
        args.out.write_text(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
