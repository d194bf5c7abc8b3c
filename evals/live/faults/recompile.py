"""One rank hands another plain number to a compiled function at every step, which compiles it anew."""

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
SETTING = Setting(script=("--compile",))


def truth(*, rank: int, ranks: int) -> Truth:
    """The rank that compiles."""
    return one_rank(rank, "host.jit")


def can(machine: Machine) -> str | None:
    """Anywhere: the script does it to itself."""
    return None


def hit(scene: Scene) -> AbstractContextManager[object]:
    """Tell the script."""
    return scene.told_inside("recompile")
