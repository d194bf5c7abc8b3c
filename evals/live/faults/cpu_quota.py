"""A rank's process may use a third of the CPU time it used before, by a control group of version 1 or 2."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

from argus.evals.live.cgroup import limited
from argus.evals.live.machine import Machine
from argus.evals.live.names import name_of
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth, one_rank

WORKLOADS = ("ddp", "fsdp2", "moe", "pp")
SETTING = Setting()
PART = 1 / 3
LOOK_S = 2.0
LEAST = 0.01
"""Of a core: what the kernel takes as a quota at least."""


def truth(*, rank: int, ranks: int) -> Truth:
    """The rank that is throttled."""
    return one_rank(rank, "host.cpu_starved")


def can(machine: Machine) -> str | None:
    """Where a CPU controller can be written."""
    return machine.lacks("root", "cpu_quota")


@contextmanager
def hit(scene: Scene) -> Iterator[None]:
    """Into a group with a quota, and back."""
    controller, pid = scene.machine.controller, scene.pid
    assert controller is not None
    share = max(PART * _used(pid), LEAST)
    with limited(pid, controller=controller, name=name_of("quota"), share=share):
        yield


def _used(pid: int) -> float:
    """Cores the process uses, over some steps."""
    process = psutil.Process(pid)
    before = process.cpu_times()
    time.sleep(LOOK_S)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / LOOK_S
