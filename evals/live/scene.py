"""What a fault needs to know to strike: the job, the rank, the machine, the rank's network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from argus.evals.live.machine import Machine
from argus.evals.live.network import Network
from argus.evals.stack import Stack


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What a fault needs of its job from the start.

    `script` are options of the training script, `{rank}` in them is the rank to hit. `relay_unless`: the rank's
    link goes through a relay unless the machine has one of these. `is_standing`: the fault is there from the
    start; `stops_steps`: no window comes any more while it lasts.
    """

    script: tuple[str, ...] = ()
    has_network: bool = False
    relay_unless: tuple[str, ...] = ()
    is_standing: bool = False
    stops_steps: bool = False


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A job in which a rank is about to be hit."""

    stack: Stack
    rank: int
    machine: Machine
    network: Network | None = None

    @property
    def pid(self) -> int:
        """The rank's process."""
        return self.stack.rank_pid(self.rank)

    @property
    def wire(self) -> Network:
        """The network of a fault that asked for one."""
        assert self.network is not None
        return self.network

    @contextmanager
    def told_inside(self, name: str) -> Iterator[None]:
        """The training script does this to itself, on the rank."""
        path = self.stack.directory / "faults" / name
        path.write_text(str(self.rank))
        try:
            yield
        finally:
            path.unlink()
