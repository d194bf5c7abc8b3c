"""A small transformer trained by DDP or FSDP2 over gloo; plain PyTorch, run it under torchrun.

While `<fault-dir>/slow-data` or `<fault-dir>/gc-pause` exists, the rank whose number it holds has a slow
loader or a heap that is expensive to collect. `<fault-dir>/stop` ends training on all ranks at one step.
"""

from __future__ import annotations

import argparse
import gc
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

VOCABULARY = 256
SEQUENCE = 64
SLOW_SAMPLE_S = 0.03
GC_OBJECTS = 2_000_000
GC_EVERY_STEPS = 2
LOG_EVERY_STEPS = 10


class Tokens(Dataset[torch.Tensor]):
    """Random token sequences, others on every rank; one rank's storage may be slow."""

    def __init__(self, *, length: int, rank: int, world_size: int, fault_dir: Path) -> None:
        self.length = length
        self.rank = rank
        self.world_size = world_size
        self.fault = fault_dir / "slow-data"

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> torch.Tensor:
        if faulty(self.fault, rank=self.rank):
            time.sleep(SLOW_SAMPLE_S)
        generator = torch.Generator().manual_seed(index * self.world_size + self.rank)
        return torch.randint(0, VOCABULARY, (SEQUENCE + 1,), generator=generator)


class Block(nn.Module):
    """Pre-norm attention and MLP."""

    def __init__(self, *, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        out: torch.Tensor = x + self.mlp(self.norm2(x))
        return out


class Transformer(nn.Module):
    """Token embedding, blocks, output head."""

    def __init__(self, *, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width=width, heads=4) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Next-token loss of tokens (batch, sequence + 1)."""
        x = self.embedding(tokens[:, :-1])
        for block in self.blocks:
            x = block(x)
        return nn.functional.cross_entropy(self.head(x).flatten(0, 1), tokens[:, 1:].flatten())


def faulty(path: Path, *, rank: int) -> bool:
    """Whether the fault file names this rank."""
    try:
        return path.read_text().strip() == str(rank)
    except OSError:
        return False


def build_model(parallel: str, *, width: int, layers: int) -> nn.Module:
    """The model on all ranks, equal weights everywhere."""
    torch.manual_seed(0)
    model = Transformer(width=width, layers=layers)
    if parallel == "ddp":
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp_shard",))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def train(args: argparse.Namespace) -> None:
    """The loop: batch, forward, backward, optimizer, averaged loss."""
    rank = dist.get_rank()
    model = build_model(args.parallel, width=args.width, layers=args.layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = Tokens(
        length=args.batch * args.steps,
        rank=rank,
        world_size=dist.get_world_size(),
        fault_dir=args.fault_dir,
    )
    heap: list[list[int]] = []
    for step, tokens in enumerate(DataLoader(data, batch_size=args.batch)):
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        # All ranks must leave the loop at the same step, so the wish to stop travels with the loss.
        report = torch.tensor([loss.item(), float((args.fault_dir / "stop").exists())])
        dist.all_reduce(report)
        if report[1] > 0:
            break
        if rank == 0 and step % LOG_EVERY_STEPS == 0:
            print(
                f"step {step} loss {report[0].item() / dist.get_world_size():.3f} at {time.time():.3f}",
                flush=True,
            )
        heap = churn(heap, wanted=faulty(args.fault_dir / "gc-pause", rank=rank), step=step)


def churn(heap: list[list[int]], *, wanted: bool, step: int) -> list[list[int]]:
    """A growing heap of containers, collected in the middle of training, as long as it is wanted."""
    if not wanted:
        return []
    heap = heap or [[i] for i in range(GC_OBJECTS)]
    if step % GC_EVERY_STEPS == 0:
        gc.collect()
    return heap


def main() -> None:
    """Parse, join the process group, train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parallel", choices=("ddp", "fsdp2"), default="ddp")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
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
