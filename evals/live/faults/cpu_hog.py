"""A rank shares its only core with processes that compute all the time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from argus.evals.live.machine import Machine
from argus.evals.live.network import bound
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth, one_rank

WORKLOADS = ("ddp", "fsdp2", "moe", "pp")
SETTING = Setting()
HOGS = 4
SPIN = "while True: pass"


def truth(*, rank: int, ranks: int) -> Truth:
    """The rank whose core is taken."""
    return one_rank(rank, "host.cpu_starved")


def can(machine: Machine) -> str | None:
    """With a core for the others."""
    return machine.lacks("setpriv", "two_cores")


@contextmanager
def hit(scene: Scene) -> Iterator[None]:
    """Bind the rank's threads to one core, start the others there; undo both."""
    core = max(os.sched_getaffinity(0))
    with ExitStack() as undo:
        for thread in os.listdir(f"/proc/{scene.pid}/task"):
            _bind(int(thread), core, undo)
        for _ in range(HOGS):
            # The scheduler shares a core between sessions: together in one they would take as much as the rank.
            hog = subprocess.Popen([*bound(), sys.executable, "-c", SPIN], start_new_session=True)
            undo.callback(_end, hog)
            os.sched_setaffinity(hog.pid, {core})
        yield


def _bind(thread: int, core: int, undo: ExitStack) -> None:
    try:
        before = os.sched_getaffinity(thread)
        os.sched_setaffinity(thread, {core})
    except ProcessLookupError:
        return  # a thread that ended meanwhile
    undo.callback(_unbind, thread, before)


def _unbind(thread: int, cores: set[int]) -> None:
    try:
        os.sched_setaffinity(thread, cores)
    except ProcessLookupError:
        return


def _end(hog: subprocess.Popen[bytes]) -> None:
    hog.kill()
    hog.wait()
