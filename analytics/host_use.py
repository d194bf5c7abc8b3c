"""What hosts measured of themselves: which stand out from the others, and what their devices stated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from argus.analytics.finding import Evidence
from argus.analytics.window import Floats, Window
from argus.collectors.records.outside_event import OutsideEvent

FLOORS: Mapping[str, float] = {
    "thread_run_delay_ratio": 0.05,
    "throttled_ratio": 0.05,
    "major_faults_per_s": 20.0,
    "host_cpu_some_ratio": 0.2,
    "host_memory_full_ratio": 0.05,
    "host_io_full_ratio": 0.1,
    "host_steal_ratio": 0.1,
}
"""What a host must exceed the others by before it is odd: shares of the time that can cost a step 5 %.

Pressure on the CPU of some task is everyday on a host that runs loaders; hence its larger floor.
"""

WIDTH = 6.0
"""Robust standard deviations beyond the median of the hosts."""

GPU_KINDS: Mapping[str, str] = {
    "hw_thermal": "thermal",
    "sw_thermal": "thermal",
    "hw_power_brake": "power",
    "hw_slowdown": "clock",
}
"""Throttle reasons worth an event, and what rules call them."""

WAITED_FOR_CPU = ("thread_run_delay_ratio", "throttled_ratio")
"""A thread that was ready and got no CPU: in the run queue, or with its cgroup's quota used up."""

COMMON_SHARE = 0.5
"""A mark on more ranks than this share is the room's, not a rank's."""

MIN_HOSTS = 3
"""Of two hosts neither is the odd one."""

CONTINUED = 3
"""Windows in a row in which a host must be odd: a cron job or a log rotation is over in one or two."""


def by_host(window: Window, name: str) -> dict[str, float]:
    """A number of each host, that of its worst rank; hosts that did not measure it are missing."""
    values = window.use.get(name)
    if values is None:
        return {}
    hosts, code = window.host_code
    known = np.isfinite(values) & (code >= 0)
    most = np.full(len(hosts), -np.inf)
    np.maximum.at(most, code[known], np.maximum(values[known], 0.0))
    return {hosts[at]: float(most[at]) for at in np.flatnonzero(np.isfinite(most))}


def excess(window: Window, name: str) -> dict[str, float]:
    """How far each host lies above what is usual among all of them; empty with too few."""
    values = by_host(window, name)
    if len(values) < MIN_HOSTS:
        return {}
    numbers = np.array(list(values.values()))
    middle = float(np.median(numbers))
    spread = 1.4826 * float(np.median(np.abs(numbers - middle)))
    return {
        host: value - middle
        for host, value in values.items()
        if value - middle > max(FLOORS[name], WIDTH * spread)
    }


def odd_hosts(window: Window) -> tuple[str, ...]:
    """Hosts that stand out in some number."""
    return tuple(sorted({host for name in FLOORS for host in excess(window, name)}))


def rank_and_others(values: Floats, rows: list[int]) -> tuple[float, float]:
    """Largest value of the rows, median of all others; NaN where nobody measured."""
    others = np.delete(values, rows)
    mine, others = values[rows], others[np.isfinite(others)]
    mine = mine[np.isfinite(mine)]
    return (
        float(mine.max()) if mine.size else float("nan"),
        float(np.median(others)) if others.size else float("nan"),
    )


def waited_for_cpu(window: Window, ranks: tuple[int, ...]) -> Evidence | None:
    """The largest share of its time one of the ranks waited for a CPU, beside the other ranks' median."""
    rows = np.flatnonzero(np.isin(window.ranks, ranks)).tolist()
    found = []
    for name in WAITED_FOR_CPU:
        if rows and name in window.use:
            mine, others = rank_and_others(window.use[name], rows)
            if np.isfinite(mine):
                baseline = others if np.isfinite(others) else None
                found.append(Evidence(name=name, value=mine, unit="ratio", baseline=baseline))
    return max(found, key=lambda item: item.value - (item.baseline or 0.0)) if found else None


def marked_events(window: Window, *, now_s: float) -> tuple[OutsideEvent, ...]:
    """What ranks' GPUs and ports stated in the window, as events; what most ranks share tells nobody apart.

    The kernel log's lines come as events of their own, and a software power cap is the rule under load.
    """
    few = len(window.ranks) * COMMON_SHARE
    counts = Counter(mark for marks in window.marks.values() for mark in marks)
    events: dict[str, OutsideEvent] = {}
    for rank, marks in sorted(window.marks.items()):
        for mark in (mark for mark in marks if counts[mark] <= few):
            event = _event(window, rank, mark, now_s)
            if event is not None:
                events.setdefault(event.id, event)
    return tuple(events.values())


def _event(window: Window, rank: int, mark: str, now_s: float) -> OutsideEvent | None:
    part, _, rest = mark.partition(" ")
    host = window.topology.host_of(rank)
    if part == "gpu" and rest in GPU_KINDS:
        return OutsideEvent(time_s=now_s, node=f"rank:{rank}", source="NVML", text=mark, kind=GPU_KINDS[rest])
    port, _, what = rest.partition(" ")
    if part != "port" or not host or not what:
        return None
    kind = "port_errors" if "_" in what else "port_down"
    node = f"nic:{host}/{port.partition('/')[0]}"
    return OutsideEvent(time_s=now_s, node=node, source="port counters", text=mark, kind=kind)
