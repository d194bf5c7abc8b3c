"""A rank's process may use a tenth of one core, by a control group of version 1 or 2."""

from __future__ import annotations

from contextlib import AbstractContextManager

from argus.evals.live.cgroup import limited
from argus.evals.live.machine import Machine
from argus.evals.live.names import name_of
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth, one_rank

WORKLOADS = ("ddp", "fsdp2", "moe", "pp")
SETTING = Setting()
SHARE = 0.1


def truth(*, rank: int, ranks: int) -> Truth:
    """The rank that is throttled."""
    return one_rank(rank, "host.cpu_starved")


def can(machine: Machine) -> str | None:
    """Where a CPU controller can be written."""
    return machine.lacks("root", "cpu_quota")


def hit(scene: Scene) -> AbstractContextManager[object]:
    """Into a group with a quota, and back."""
    controller = scene.machine.controller
    assert controller is not None
    return limited(scene.pid, controller=controller, name=name_of("quota"), share=SHARE)
