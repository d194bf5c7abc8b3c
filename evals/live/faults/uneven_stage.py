"""One pipeline stage has twice the layers of the others, from the first step on."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from argus.evals.live.machine import Machine
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth

WORKLOADS = ("pp",)
SETTING = Setting(script=("--long-stage", "{rank}"), is_standing=True)


def truth(*, rank: int, ranks: int) -> Truth:
    """The cut of the model, at this stage; no machine is to be accused."""
    return Truth(classes=("pipeline.imbalance",), suspects=((),), scopes=(f"stage:{rank}",))


def can(machine: Machine) -> str | None:
    """Anywhere: it is in the script."""
    return None


def hit(scene: Scene) -> AbstractContextManager[object]:
    """It is there already."""
    return nullcontext()
