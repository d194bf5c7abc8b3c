"""The storage one rank saves its checkpoints to stands still in the middle of each."""

from __future__ import annotations

from contextlib import AbstractContextManager

from argus.evals.live.machine import Machine
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth, one_rank

WORKLOADS = (
    "ddp",
    "fsdp2",
    "moe",
)
SETTING = Setting(script=("--save-every", "10"))


def truth(*, rank: int, ranks: int) -> Truth:
    """The rank whose storage it is; the others wait for it at their next collective."""
    return one_rank(rank, "host.filesystem")


def can(machine: Machine) -> str | None:
    """Anywhere: the script does it to itself."""
    return None


def hit(scene: Scene) -> AbstractContextManager[object]:
    """Tell the script."""
    return scene.told_inside("stalled-save")
