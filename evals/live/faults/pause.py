"""A rank's process is stopped four fifths of the time, as by a debugger or a scheduler."""

from __future__ import annotations

from contextlib import AbstractContextManager

from argus.evals.live.machine import Machine
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth, one_rank
from argus.evals.pause import Pauser

WORKLOADS = ("ddp", "fsdp2", "moe", "pp")
SETTING = Setting()
STOPPED_S, RUNNING_S = 0.12, 0.03


def truth(*, rank: int, ranks: int) -> Truth:
    """The rank that does not run."""
    return one_rank(rank, "host.cpu_starved")


def can(machine: Machine) -> str | None:
    """Anywhere: signals to a process of one's own."""
    return None


def hit(scene: Scene) -> AbstractContextManager[object]:
    """Stop and continue in turn."""
    return Pauser(scene.pid, stopped_s=STOPPED_S, running_s=RUNNING_S)
