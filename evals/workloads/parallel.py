"""The ways a transformer is spread over ranks here: each as a step function over its own parameters."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

from argus.evals.workloads.moe import MoeModel
from argus.evals.workloads.transformer import VOCABULARY, Block, Transformer

MICRO_BATCHES = 4

StepOf = Callable[[torch.Tensor], float]
"""One whole step on tokens (batch, sequence + 1); the loss, 0 where this rank does not know it."""


def build_step(parallel: str, *, width: int, layers: int, long_stage: int) -> tuple[nn.Module, StepOf]:
    """This rank's part of the model, equal weights where ranks hold the same, and its step."""
    if parallel == "pp":
        return _pipeline(width=width, layers=layers, long_stage=long_stage)
    model = _replica(parallel, width=width, layers=layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step_of(tokens: torch.Tensor) -> float:
        loss = model(tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return float(loss.item())

    return model, step_of


def _replica(parallel: str, *, width: int, layers: int) -> nn.Module:
    if parallel == "moe":
        return DistributedDataParallel(MoeModel())
    model = Transformer(width=width, layers=layers)
    if parallel == "ddp":
        return DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp_shard",))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


class Stage(nn.Module):
    """A part of the transformer: the first embeds, the last predicts."""

    def __init__(self, *, width: int, layers: int, is_first: bool, is_last: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width) if is_first else None
        self.blocks = nn.ModuleList(Block(width=width, heads=4) for _ in range(layers))
        self.head = nn.Linear(width, VOCABULARY) if is_last else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens or activations to activations or logits."""
        if self.embedding is not None:
            x = self.embedding(x)
        for block in self.blocks:
            x = block(x)
        return x if self.head is None else self.head(x)


def _pipeline(*, width: int, layers: int, long_stage: int) -> tuple[nn.Module, StepOf]:
    """1F1B, one stage of `layers` layers a rank."""
    rank, world = dist.get_rank(), dist.get_world_size()
    is_last = rank == world - 1
    depth = layers * (2 if rank == long_stage else 1)
    model = Stage(width=width, layers=depth, is_first=rank == 0, is_last=is_last)
    stage = PipelineStage(model, rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=MICRO_BATCHES, loss_fn=_loss)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step_of(tokens: torch.Tensor) -> float:
        losses: list[torch.Tensor] = []
        inputs = [tokens[:, :-1]] if rank == 0 else []
        schedule.step(*inputs, target=tokens[:, 1:] if is_last else None, losses=losses if is_last else None)
        optimizer.step()
        optimizer.zero_grad()
        return float(torch.stack(losses).mean().item()) if losses else 0.0

    return model, step_of


def _loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
