"""The models whose steps the overhead benchmark times: each as one step function over its own parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.nn.parallel import DistributedDataParallel

from argus.evals.workloads.moe import WIDTH, MoeModel
from argus.evals.workloads.transformer import VOCABULARY, Transformer

Step = Callable[[], None]

SEQUENCE = 64


def mlp(width: int = 512) -> nn.Module:
    """48 × Linear(512) + GELU: many launches, little work in each."""
    return nn.Sequential(*(layer for _ in range(48) for layer in (nn.Linear(width, width), nn.GELU())))


def ddp_step(inner: nn.Module, *inputs: torch.Tensor) -> Step:
    """Forward, backward and optimizer of a DDP model."""
    model = DistributedDataParallel(inner)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def step() -> None:
        model(*inputs).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def pipeline_step(batch: int) -> Step:
    """1F1B of 4 micro-batches of a quarter of the samples, one stage a rank."""
    rank, world = dist.get_rank(), dist.get_world_size()
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(12)))
    stage = PipelineStage(layers, rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.SGD(layers.parameters(), lr=1e-4)
    x = torch.randn(batch, 512)

    def step() -> None:
        schedule.step(*([x] if rank == 0 else []), target=x if rank == world - 1 else None)
        optimizer.step()
        optimizer.zero_grad()

    return step


def _tokens(batch: int, length: int) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (batch, length))


BUILD: Mapping[str, Callable[[int], Step]] = {
    "transformer": lambda batch: ddp_step(Transformer(width=WIDTH, layers=6), _tokens(batch, SEQUENCE + 1)),
    "mlp": lambda batch: ddp_step(mlp(), torch.randn(batch, 512)),
    "narrow mlp": lambda batch: ddp_step(mlp(32), torch.randn(batch, 32)),
    "moe": lambda batch: ddp_step(MoeModel(), _tokens(batch, SEQUENCE)),
    "pipeline": pipeline_step,
}
"""The step of a model of its own for so many samples, the same at each call."""

BATCH: Mapping[str, int] = {"transformer": 8, "mlp": 16, "moe": 8, "pipeline": 128}
