"""CPU quotas by control groups, version 1 or 2, whichever the machine has."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PERIOD_US = 100_000
"""The kernel's own default."""

EMPTY_S = 5.0
"""A group can be removed once the last thread has left it."""


@dataclass(frozen=True, kw_only=True)
class Controller:
    """Where CPU time is limited: the mount of version 1's cpu controller, or version 2's tree."""

    version: int
    root: Path


def find_controller(mounts: str | None = None) -> Controller | None:
    """The first CPU controller that is mounted and can be written; `mounts` is the text of /proc/mounts."""
    text = Path("/proc/mounts").read_text(encoding="utf-8") if mounts is None else mounts
    for line in text.splitlines():
        _, point, kind, options, *_ = line.split()
        root = Path(point)
        if kind == "cgroup" and "cpu" in options.split(",") and os.access(root, os.W_OK):
            return Controller(version=1, root=root)
        if kind == "cgroup2" and "cpu" in _words(root / "cgroup.controllers") and os.access(root, os.W_OK):
            return Controller(version=2, root=root)
    return None


def limits(controller: Controller, share: float) -> Mapping[str, str]:
    """Files of a group with what makes its quota `share` of one core.

    >>> limits(Controller(version=2, root=Path("/")), 0.2)
    {'cpu.max': '20000 100000'}
    """
    quota = round(share * PERIOD_US)
    if controller.version == 2:
        return {"cpu.max": f"{quota} {PERIOD_US}"}
    return {"cpu.cfs_period_us": f"{PERIOD_US}", "cpu.cfs_quota_us": f"{quota}"}


def path_in(controller: Controller, cgroups: str) -> str:
    """A process's group of this controller, from the text of its /proc/PID/cgroup.

    >>> path_in(Controller(version=1, root=Path("/")), "3:cpu,cpuacct:/a\\n0::/b\\n")
    '/a'
    """
    for line in cgroups.splitlines():
        number, controllers, path = line.split(":", 2)
        is_v2 = number == "0" and not controllers
        if is_v2 if controller.version == 2 else "cpu" in controllers.split(","):
            return path
    return "/"


@contextmanager
def limited(pid: int, *, controller: Controller, name: str, share: float) -> Iterator[None]:
    """The process, with all its threads, has `share` of one core meanwhile; goes back to its group afterwards."""
    before = path_in(controller, Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8"))
    group = controller.root / name
    with _delegated(controller):
        group.mkdir()
        try:
            for file, text in limits(controller, share).items():
                (group / file).write_text(text)
            (group / "cgroup.procs").write_text(str(pid))
            yield
        finally:
            _move(pid, controller.root / before.strip("/"))
            remove(group)


def remove(group: Path) -> None:
    """Remove an empty group; OSError if something stays in it."""
    end_s = time.monotonic() + EMPTY_S
    while True:
        try:
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > end_s:
                raise
            time.sleep(0.05)


@contextmanager
def _delegated(controller: Controller) -> Iterator[None]:
    """Version 2 limits the children of a group only if the group says so; as it was afterwards."""
    control = controller.root / "cgroup.subtree_control"
    if controller.version == 1 or "cpu" in _words(control):
        yield
        return
    control.write_text("+cpu")
    try:
        yield
    finally:
        control.write_text("-cpu")


def _move(pid: int, group: Path) -> None:
    try:
        (group / "cgroup.procs").write_text(str(pid))
    except ProcessLookupError:
        return  # it ended by itself: in no group any more


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").split()
    except OSError:
        return []
