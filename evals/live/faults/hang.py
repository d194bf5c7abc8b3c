"""One rank takes another branch, skips a collective and never comes back to it."""

from __future__ import annotations

from contextlib import AbstractContextManager

from argus.evals.live.machine import Machine
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth, one_rank

WORKLOADS = (
    "ddp",
    "fsdp2",
    "moe",
    "pp",
)
SETTING = Setting(stops_steps=True)


def truth(*, rank: int, ranks: int) -> Truth:
    """The rank that is behind the others in its collectives."""
    return one_rank(rank, "stop.hang")


def can(machine: Machine) -> str | None:
    """Anywhere: the script does it to itself."""
    return None


def hit(scene: Scene) -> AbstractContextManager[object]:
    """Tell the script."""
    return scene.told_inside("hang")
