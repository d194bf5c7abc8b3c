"""What the kernel did to one rank's process: CPU given, time in the run queue, faults, throttling."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from argus.collectors.host.pressure import difference

PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")

_MAJOR_FAULTS, _USER, _SYSTEM = 9, 11, 12
"""Fields of /proc/PID/stat behind the name, counted from the state letter as 0 (proc(5))."""


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Counters of a process now; `run_delay_s` by thread, for threads come and go."""

    whole: dict[str, float] = field(default_factory=dict)
    run_delay_s: dict[int, float] = field(default_factory=dict)


def read_counts(pid: int, *, proc: Path = PROC, cgroup: Path = CGROUP) -> Counts:
    """Everything readable of a process; empty if it is gone."""
    whole = {**_stat(proc / str(pid) / "stat"), **read_throttling(pid, proc=proc, cgroup=cgroup)}
    return Counts(whole=whole, run_delay_s=_run_delays(proc / str(pid) / "task"))


def use_between(now: Counts, before: Counts) -> dict[str, float]:
    """What happened between two reads; a thread born between them counts from its birth.

    `run_delay_s` adds the threads up, `thread_run_delay_s` is that of the thread that waited most: a step
    waits for one thread, and a pool of a hundred may wait without harm.
    """
    numbers = difference(now.whole, before.whole)
    if now.run_delay_s:
        delays = [
            max(0.0, delay_s - before.run_delay_s.get(tid, 0.0)) for tid, delay_s in now.run_delay_s.items()
        ]
        numbers["run_delay_s"], numbers["thread_run_delay_s"] = sum(delays), max(delays)
    return numbers


def read_throttling(pid: int, *, proc: Path = PROC, cgroup: Path = CGROUP) -> dict[str, float]:
    """Periods in which the process's cgroup had used up its CPU quota, and for how long (v2, else v1)."""
    for line in _text(proc / str(pid) / "cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        names = controllers.split(",")
        if controllers and "cpu" not in names:
            continue
        mounts = [cgroup] if not controllers else [cgroup / controllers, cgroup / "cpu"]
        for mount in mounts:
            # Inside a container the path is the host's, while the mount begins at the container.
            for place in (mount / path.lstrip("/"), mount):
                numbers = _cpu_stat(place / "cpu.stat")
                if numbers:
                    return numbers
    return {}


def _cpu_stat(path: Path) -> dict[str, float]:
    pairs = (line.split() for line in _text(path).splitlines())
    raw = {words[0]: float(words[1]) for words in pairs if len(words) == 2 and words[1].isdecimal()}
    if "nr_throttled" not in raw:
        return {}
    seconds = (
        raw["throttled_usec"] * 1e-6 if "throttled_usec" in raw else raw.get("throttled_time", 0.0) * 1e-9
    )
    return {"throttled_periods": raw["nr_throttled"], "throttled_s": seconds}


def _stat(path: Path) -> dict[str, float]:
    text = _text(path)
    words = text[text.rfind(")") + 2 :].split()
    if len(words) <= _SYSTEM:
        return {}
    tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
    cpu_s = (int(words[_USER]) + int(words[_SYSTEM])) * tick_s
    return {"cpu_s": cpu_s, "major_faults": float(words[_MAJOR_FAULTS])}


def _run_delays(path: Path) -> dict[int, float]:
    """Second number of schedstat: nanoseconds a thread was ready and waited for a CPU (sched-stats.rst)."""
    try:
        tids = [entry.name for entry in path.iterdir() if entry.name.isdecimal()]
    except OSError:
        return {}
    rows = {int(tid): _text(path / tid / "schedstat").split() for tid in tids}
    return {tid: int(words[1]) * 1e-9 for tid, words in rows.items() if len(words) == 3}


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""  # gone, or the kernel has no such account
