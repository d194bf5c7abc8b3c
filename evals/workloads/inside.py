"""Faults from inside a training script: each is on while a file of its name in the fault directory holds this rank."""

from __future__ import annotations

import gc
import io
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

SLOW_SAMPLE_S = 0.03
GC_OBJECTS = 2_000_000
GC_EVERY_STEPS = 2
STALL_S = 0.6
"""Of one write of a checkpoint, on storage that is busy with something else."""

LOOK_S = 0.05
RECOMPILES = 1_000_000
"""More than any run has steps: Dynamo gives up after eight by default, and the fault would end by itself."""

COMPILED_LAYERS = 40
"""What makes a compilation last some tens of milliseconds."""


class Inside:
    """What this rank does wrong, if its number is in a fault's file."""

    def __init__(self, fault_dir: Path, *, rank: int) -> None:
        self._dir = fault_dir
        self._rank = rank
        self._heap: list[list[int]] = []

    def is_on(self, name: str) -> bool:
        """Whether the fault's file names this rank."""
        try:
            return (self._dir / name).read_text().strip() == str(self._rank)
        except OSError:
            return False

    def read_sample(self) -> None:
        """`slow-data`: this rank's storage takes its time."""
        if self.is_on("slow-data"):
            time.sleep(SLOW_SAMPLE_S)

    def churn(self, step: int) -> None:
        """`gc-pause`: a large heap of containers, collected in the middle of training."""
        if not self.is_on("gc-pause"):
            self._heap = []
            return
        self._heap = self._heap or [[i] for i in range(GC_OBJECTS)]
        if step % GC_EVERY_STEPS == 0:
            gc.collect()

    def wait_elsewhere(self) -> None:
        """`hang`: another branch than the peers' is taken, which skips the collective they are in."""
        while self.is_on("hang"):
            time.sleep(LOOK_S)

    def save(self, model: nn.Module) -> None:
        """A checkpoint of this rank's part; `stalled-save`: its storage stands still in the middle."""
        torch.save(model.state_dict(), _Storage(self))

    def compiled_scale(self) -> Callable[[float, int], torch.Tensor]:
        """A compiled function of the loss; `recompile`: a plain number in it is another one at every step."""
        torch._dynamo.config.recompile_limit = RECOMPILES
        torch._dynamo.config.accumulated_recompile_limit = RECOMPILES

        def scale(loss: torch.Tensor, warmup: int) -> torch.Tensor:
            for _ in range(COMPILED_LAYERS):
                loss = torch.tanh(loss * warmup) + 1.0
            return loss * 0.0

        compiled = torch.compile(scale, backend="eager", dynamic=False)

        def scaled(loss: float, step: int) -> torch.Tensor:
            seen: torch.Tensor = compiled(torch.tensor(loss), step if self.is_on("recompile") else 0)
            return seen + loss

        return scaled


class _Storage(io.BytesIO):
    """Where a checkpoint goes; forgets what it got."""

    def __init__(self, inside: Inside) -> None:
        super().__init__()
        self._inside = inside
        self._has_stalled = False

    def write(self, data: object, /) -> int:
        """Take it, later if storage is stalled."""
        if not self._has_stalled and self._inside.is_on("stalled-save"):
            self._has_stalled = True
            time.sleep(STALL_S)
        return super().write(data)  # type: ignore[arg-type]
