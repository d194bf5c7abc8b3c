"""A small transformer trained over gloo by DDP, FSDP2, a pipeline or with all-to-all; plain PyTorch, run it under torchrun.

Files in `<fault-dir>` turn faults on (`inside.py`); `<fault-dir>/stop` ends training on all ranks at one step.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from argus.evals.workloads import PARALLELS
from argus.evals.workloads.inside import Inside
from argus.evals.workloads.parallel import build_step
from argus.evals.workloads.transformer import VOCABULARY

SEQUENCE = 64
LOG_EVERY_STEPS = 10


class Tokens(Dataset[torch.Tensor]):
    """Random token sequences, others on every rank; one rank's storage may be slow."""

    def __init__(self, *, length: int, rank: int, world_size: int, inside: Inside) -> None:
        self.length = length
        self.rank = rank
        self.world_size = world_size
        self.inside = inside

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        self.inside.read_sample()
        generator = torch.Generator().manual_seed(index * self.world_size + self.rank)
        return torch.randint(0, VOCABULARY, (SEQUENCE + 1,), generator=generator)


def train(args: argparse.Namespace) -> None:
    """The loop: batch, forward, backward, optimizer, averaged loss."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    inside = Inside(args.fault_dir, rank=rank)
    torch.manual_seed(0)
    model, step_of = build_step(
        args.parallel, width=args.width, layers=args.layers, long_stage=args.long_stage
    )
    scaled = inside.compiled_scale() if args.compile else None
    data = Tokens(length=args.batch * args.steps, rank=rank, world_size=world_size, inside=inside)
    for step, tokens in enumerate(DataLoader(data, batch_size=args.batch)):
        loss = step_of(tokens)
        if scaled is not None:
            loss = float(scaled(loss, step).item())
        inside.wait_elsewhere()
        # All ranks must leave the loop at the same step, so the wish to stop travels with the loss.
        report = torch.tensor([loss, float((args.fault_dir / "stop").exists())])
        dist.all_reduce(report)
        if report[1] > 0:
            break
        if rank == 0 and step % LOG_EVERY_STEPS == 0:
            print(f"step {step} loss {report[0].item() / world_size:.3f} at {time.time():.3f}", flush=True)
        if args.save_every and step % args.save_every == args.save_every - 1:
            inside.save(model)
        inside.churn(step)


def main() -> None:
    """Parse, join the process group, train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parallel", choices=PARALLELS, default="ddp")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--long-stage", type=int, default=-1, help="this pipeline stage has twice the layers")
    parser.add_argument(
        "--compile", action="store_true", help="a part of the step is compiled by torch.compile"
    )
    parser.add_argument("--save-every", type=int, default=0, help="steps between checkpoints; 0 = none")
    parser.add_argument("--fault-dir", type=Path, default=Path(os.devnull))
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        train(args)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
