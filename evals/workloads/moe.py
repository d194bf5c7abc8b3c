"""A mixture of experts whose tokens travel by all-to-all."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed._functional_collectives import all_to_all_single_autograd

from argus.evals.workloads.transformer import VOCABULARY

WIDTH = 192


class Moe(nn.Module):
    """Half of the tokens go to the experts of each rank and come back, as with expert parallelism."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.router = nn.Linear(WIDTH, 2)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
            for _ in range(2)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tokens (token, width)."""
        y = self.norm(x)
        gates = self.router(y).softmax(-1)
        world = dist.group.WORLD
        assert world is not None
        sent: torch.Tensor = all_to_all_single_autograd(y, None, None, world)
        done = torch.cat([expert(part) for expert, part in zip(self.experts, sent.chunk(2), strict=True)])
        back: torch.Tensor = all_to_all_single_autograd(done, None, None, world)
        out: torch.Tensor = x + back * gates.amax(-1, keepdim=True)
        return out


class MoeModel(nn.Module):
    """Embedding, four mixtures, head."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.moe = nn.ModuleList(Moe() for _ in range(4))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Loss of tokens (batch, sequence)."""
        x = self.embedding(tokens).flatten(0, 1)
        for layer in self.moe:
            x = layer(x)
        return nn.functional.cross_entropy(self.head(x), tokens.flatten())
