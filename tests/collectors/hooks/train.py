"""A tiny language model and its data for the trainers."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import Dataset

VOCABULARY, LENGTH, WIDTH = 16, 8, 8


class Block(nn.Module):
    """Attention and MLP by the names everybody gives them."""

    def __init__(self) -> None:
        super().__init__()
        self.self_attn = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = x + self.mlp(self.self_attn(x))
        return out


class Model(nn.Module):
    """Loss of the next token, as Hugging Face's models return it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(3))
        self.lm_head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        x = self.embed(input_ids)
        for layer in self.layers:
            x = layer(x)
        logits = self.lm_head(x)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), input_ids.flatten())
        return {"loss": loss, "logits": logits}


class Texts(Dataset[dict[str, torch.Tensor]]):
    """Random tokens."""

    def __init__(self, num: int) -> None:
        self._rows = torch.randint(0, VOCABULARY, (num, LENGTH), generator=torch.Generator().manual_seed(5))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self._rows[index], "labels": self._rows[index]}
