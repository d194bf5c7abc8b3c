"""What a run of live faults left behind: processes, namespaces, control groups, folders; found by its mark, removed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from argus.evals.live.cgroup import find_controller, remove
from argus.evals.live.names import PREFIX, VARIABLE, owner_of
from argus.evals.live.network import command

NAMESPACES = Path("/run/netns")
GONE_S = 5.0


@dataclass(frozen=True, kw_only=True)
class LeftOver:
    """One thing: `kind` is process, namespace, cgroup or folder, `name` what it is called there."""

    kind: str
    name: str


def left_by_me() -> Iterator[LeftOver]:
    """What this run made and is still there, in the order in which it can be removed."""
    return (item for owner, item in _things() if owner == os.getpid())


def left_by_dead() -> Iterator[LeftOver]:
    """What runs made that are no more."""
    return (item for owner, item in _things() if not is_running(owner))


def is_running(pid: int) -> bool:
    """Whether this process id is a run of live faults, or a test of them."""
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
    return any(word == "live" or "pytest" in word for word in words)


def clean(items: Iterator[LeftOver]) -> list[LeftOver]:
    """Remove them; what was removed. OSError, StackError: something could not be."""
    found = list(items)
    for item in found:
        if item.kind == "process":
            _kill(int(item.name))
        elif item.kind == "namespace":
            command("ip", "netns", "del", item.name)
        elif item.kind == "cgroup":
            remove(Path(item.name))
        else:
            shutil.rmtree(item.name)
    return found


def _things() -> Iterator[tuple[int, LeftOver]]:
    for process in psutil.process_iter():
        owner = _mark_of(process)
        if owner is not None and process.pid not in (owner, os.getpid()):
            yield owner, LeftOver(kind="process", name=str(process.pid))
    controller = find_controller()
    places = [("namespace", NAMESPACES), ("folder", Path(tempfile.gettempdir()))]
    places += [("cgroup", controller.root)] if controller else []
    for kind, place in places:
        for path in sorted(place.glob(f"{PREFIX}-*")) if place.is_dir() else ():
            owner = owner_of(path.name)
            if owner is not None:
                yield owner, LeftOver(kind=kind, name=path.name if kind == "namespace" else str(path))


def _mark_of(process: psutil.Process) -> int | None:
    """The run whose mark is in the process's environment, None without one or where we may not look."""
    try:
        mark = process.environ().get(VARIABLE, "")
    except (psutil.Error, OSError):
        return None
    return int(mark) if mark.isdigit() else None


def _kill(pid: int) -> None:
    try:
        process = psutil.Process(pid)
        process.kill()
        process.wait(GONE_S)
    except psutil.NoSuchProcess:
        return
