"""A process's threads as its kernel sees them, joined with their Python frames and classified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from argus.collectors.host.pyspy import PyThread
from argus.collectors.records.stacks import MAX_NAME, MAX_STACK, MAX_THREADS, Thread

PROC = Path("/proc")
MAX_CHILDREN = 32
"""Loader workers of one rank worth naming."""

COMM_KINDS = (
    ("pt_autograd", "autograd"),
    ("pt_nccl_watchdg", "watchdog"),
    ("pt_nccl_", "watchdog"),
    ("nccl", "watchdog"),
    ("pt_data_", "loader"),
    ("QueueFeeder", "loader"),
    ("argus", "argus"),
)
"""Beginnings of thread names torch and NCCL give (c10 setThreadName), and our own."""

FRAME_KINDS = (
    ("torch/utils/data", "loader"),
    ("torch/autograd", "autograd"),
    ("argus/collectors", "argus"),
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One kernel thread: its name, state letter and, if it sleeps in the kernel, where."""

    comm: str
    state: str
    wchan: str


def read_tasks(pid: int, *, root: Path = PROC) -> Mapping[int, Task]:
    """Threads of a process by id; what cannot be read is missing."""
    tasks = {}
    for path in _list(root / str(pid) / "task"):
        task = _task(path)
        if task is not None and path.name.isdecimal():
            tasks[int(path.name)] = task
    return tasks


def read_children(pid: int, *, root: Path = PROC) -> Mapping[int, Task]:
    """Child processes' main threads: DataLoader workers are processes, not threads."""
    found: dict[int, Task] = {}
    for path in _list(root / str(pid) / "task"):
        for word in _text(path / "children").split():
            task = _task(root / word) if word.isdecimal() else None
            if task is not None and len(found) < MAX_CHILDREN:
                found[int(word)] = task
    return found


def join_threads(
    pid: int, python: Sequence[PyThread], *, tasks: Mapping[int, Task], children: Mapping[int, Task]
) -> tuple[Thread, ...]:
    """Python threads with their kernel state, then the native ones that have a name worth knowing."""
    unknown = Task(comm="", state="", wchan="")
    threads = [_thread(pid, item, tasks.get(item.tid, unknown)) for item in python]
    seen = {item.tid for item in python}
    for tid, task in tasks.items():
        kind = "main" if tid == pid else _kind_of_name(task.comm)
        if tid not in seen and (kind != "other" or task.state == "D"):
            threads.append(_native(kind, task.comm, task))
    threads += [_native("loader", f"process {tid} {task.comm}", task) for tid, task in children.items()]
    threads.sort(key=lambda thread: thread.kind != "main")
    return tuple(threads[:MAX_THREADS])


def fold(frames: Sequence[str]) -> str:
    """Frames joined by `;`; of a stack too long the outermost are cut away.

    >>> fold(["main (a.py:1)", "step (a.py:9)"])
    'main (a.py:1);step (a.py:9)'
    """
    text = ";".join(frames)
    if len(text) <= MAX_STACK:
        return text
    return "…;" + text[-(MAX_STACK - 2) :].partition(";")[2]


def _thread(pid: int, item: PyThread, task: Task) -> Thread:
    return Thread(
        kind=_kind(pid, item, task),
        name=(item.name or task.comm)[:MAX_NAME],
        state=task.state,
        has_gil=item.has_gil,
        is_active=item.is_active,
        wchan=task.wchan,
        stack=fold(item.frames),
    )


def _native(kind: str, name: str, task: Task) -> Thread:
    return Thread(kind=kind, name=name[:MAX_NAME], state=task.state, wchan=task.wchan)


def _kind(pid: int, item: PyThread, task: Task) -> str:
    if item.tid == pid or item.name == "MainThread":
        return "main"
    kind = _kind_of_name(item.name)
    if kind == "other":
        kind = _kind_of_name(task.comm)
    if kind != "other":
        return kind
    hits = (kind for part, kind in FRAME_KINDS if any(part in frame for frame in item.frames))
    return next(hits, "other")


def _kind_of_name(name: str) -> str:
    return next((kind for start, kind in COMM_KINDS if name.startswith(start)), "other")


def _task(path: Path) -> Task | None:
    """`stat` has the name in brackets, which may hold brackets itself (proc(5))."""
    text = _text(path / "stat")
    start, end = text.find("("), text.rfind(")")
    if start < 0 or end < 0 or len(text) < end + 3:
        return None
    state = text[end + 2]
    wchan = _text(path / "wchan") if state in "DS" else ""
    return Task(comm=text[start + 1 : end], state=state, wchan="" if wchan == "0" else wchan)


def _list(path: Path) -> Sequence[Path]:
    try:
        return sorted(path.iterdir(), key=lambda item: item.name)
    except OSError:
        return ()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""  # gone, or not ours to read
