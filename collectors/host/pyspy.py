"""One py-spy dump of a process, as frames of its Python threads or the reason there are none."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

TIMEOUT_S = 2.0
"""A dump takes 10 ms; a process that cannot be read in two seconds does not answer."""

NATIVE_TIMEOUT_S = 10.0
"""Symbols of large libraries are read once per dump: a second the first time."""

TRIES = 2
"""Without stopping the process one dump in ten meets it between two states."""

DENIED = ("Permission denied", "Permission Denied", "Operation not permitted", "os error 13", "os error 1)")
GONE = ("No such file or directory", "No such process", "os error 2)", "os error 3)")

Run = Callable[[Sequence[str], float], "Finished"]


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What a run of py-spy left; `code` None = it took too long."""

    code: int | None
    out: str = ""
    err: str = ""


@dataclass(frozen=True, kw_only=True)
class PyThread:
    """A Python thread as py-spy sees it; frames from the outermost to the innermost."""

    tid: int
    name: str
    has_gil: bool
    is_active: bool
    frames: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Dump:
    """Threads, or one of `records.stacks.ERRORS` with what py-spy said."""

    threads: tuple[PyThread, ...] = ()
    error: str = ""
    detail: str = ""


def find_pyspy() -> str | None:
    """The program on the PATH, else the one beside this interpreter."""
    beside = Path(sys.executable).parent / "py-spy"
    return shutil.which("py-spy") or (str(beside) if beside.exists() else None)


def run_program(command: Sequence[str], timeout_s: float) -> Finished:
    """Run it, kill it when the time is up."""
    try:
        done = subprocess.run(
            command,
            check=False,
            capture_output=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return Finished(code=None)
    except OSError as error:
        return Finished(code=127, err=str(error))
    return Finished(code=done.returncode, out=done.stdout, err=done.stderr)


def take_dump(pid: int, *, program: str | None, is_native: bool = False, run: Run = run_program) -> Dump:
    """Dump `pid`. Native frames need the process stopped for it; without them it is only read."""
    if program is None:
        return Dump(error="not_installed", detail="no py-spy: pip install 'argus-triage[host]'")
    how = "--native" if is_native else "--nonblocking"
    command = (program, "dump", "--json", how, "--pid", str(pid))
    dump = Dump(error="no_answer")
    for _ in range(TRIES):
        dump = _read(run(command, NATIVE_TIMEOUT_S if is_native else TIMEOUT_S))
        if dump.error != "no_answer":
            return dump
    return dump


def _read(done: Finished) -> Dump:
    if done.code is None:
        return Dump(error="timeout")
    if done.code:
        return Dump(
            error=_reason(done.err), detail=" ".join(done.err.split("Stack backtrace")[0].split())[:200]
        )
    try:
        threads = (_thread(item) for item in json.loads(done.out))
        return Dump(threads=tuple(thread for thread in threads if thread.frames))  # else it runs no Python
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Dump(error="no_answer", detail=f"not py-spy's JSON: {error!r:.100}")


def _reason(text: str) -> str:
    if any(word in text for word in DENIED):
        return "denied"
    return "gone" if any(word in text for word in GONE) else "no_answer"


def _thread(raw: dict[str, object]) -> PyThread:
    frames = raw["frames"]
    if not isinstance(frames, list):
        raise TypeError("frames must be a list")
    return PyThread(
        tid=int(str(raw.get("os_thread_id") or 0)),
        name=str(raw.get("thread_name") or ""),
        has_gil=bool(raw.get("owns_gil")),
        is_active=bool(raw.get("active")),
        frames=tuple(_frame(frame) for frame in reversed(frames)),
    )


def _frame(raw: dict[str, object]) -> str:
    """`name (file:line)`; `;` separates frames and may not be in one."""
    file = raw.get("short_filename") or raw.get("filename") or "?"
    where = f"{file}:{raw['line']}" if raw.get("line") else str(file)
    return f"{raw['name']} ({where})".replace(";", ",")
