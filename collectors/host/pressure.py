"""How much a host's tasks stood still for want of CPU, memory or disk, from the kernel's own accounts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

PROC = Path("/proc")
_STEAL = 8
"""Field of the `cpu` line of /proc/stat: time the hypervisor gave to others (proc(5))."""


def read_pressure(*, root: Path = PROC) -> dict[str, float]:
    """Seconds stalled since boot, by resource (PSI, Documentation/accounting/psi.rst); empty if off."""
    numbers = {}
    for resource in ("cpu", "memory", "io"):
        for line in _lines(root / "pressure" / resource):
            kind, *fields = line.split()
            total = dict(field.partition("=")[::2] for field in fields).get("total", "")
            if total.isdecimal():
                numbers[f"{resource}_{kind}_s"] = int(total) * 1e-6
    return numbers


def read_steal(*, root: Path = PROC) -> dict[str, float]:
    """CPU seconds stolen by the hypervisor since boot."""
    words = next(iter(_lines(root / "stat")), "").split()
    if len(words) <= _STEAL or not words[_STEAL].isdecimal():
        return {}
    return {"cpu_steal_s": int(words[_STEAL]) / os.sysconf("SC_CLK_TCK")}


def read_load(*, root: Path = PROC) -> dict[str, float]:
    """Tasks that run or want to run now, and how many CPUs there are for them."""
    words = next(iter(_lines(root / "loadavg")), "").split()
    runnable = words[3].partition("/")[0] if len(words) > 3 else ""
    return {"runnable": float(runnable), "cpus": float(os.cpu_count() or 1)} if runnable.isdecimal() else {}


def difference(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """What the counters grew by; one that fell began anew and counts from zero.

    >>> difference({"cpu_some_s": 5.0, "io_some_s": 1.0}, {"cpu_some_s": 3.0, "io_some_s": 4.0})
    {'cpu_some_s': 2.0, 'io_some_s': 1.0}
    """
    grown = ((name, value - before[name], value) for name, value in now.items() if name in before)
    return {name: by if by >= 0 else value for name, by, value in grown}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []
