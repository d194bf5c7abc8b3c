"""Two figures a step from its kernels: how long launches waited, how long the GPU had nothing to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.events import EVENT, Rows

LATENCY = "launch_latency"
"""EVENT kind: dur_ns is the step's median time from launch to start, value its 90th percentile in ns."""

HOST_GAP = "host_gap"
"""EVENT kind: dur_ns is the time between the step's first and last kernel without any, value its share."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class StepLaunches:
    """One step; latencies are -1 where no launch was observed."""

    step: int
    start_ns: int
    latency_p50_ns: int
    latency_p90_ns: int
    gap_ns: int
    gap_ratio: float


def step_launches(kernels: Rows) -> Iterator[StepLaunches]:
    """By step, of KERNEL rows of GPU streams. A launch counts once, also where it started a whole graph."""
    order = np.argsort(kernels["start_ns"], kind="stable")
    rows = kernels[order]
    for step in np.unique(rows["step"]):
        yield _of_step(int(step), rows[rows["step"] == step])


def step_events(kernels: Rows, *, intern: Callable[[str], int]) -> Rows:
    """EVENT rows of every step; kernels of the role `cpu` must not be among them."""
    gap, latency = intern(HOST_GAP), intern(LATENCY)
    rows: list[tuple[int, int, int, int, float]] = []
    for one in step_launches(kernels):
        rows.append((one.step, gap, one.start_ns, one.gap_ns, one.gap_ratio))
        if one.latency_p50_ns >= 0:
            rows.append((one.step, latency, one.start_ns, one.latency_p50_ns, float(one.latency_p90_ns)))
    return np.array(rows, EVENT)


def _of_step(step: int, rows: Rows) -> StepLaunches:
    start, end = rows["start_ns"], rows["start_ns"] + rows["dur_ns"]
    launched, first = np.unique(rows["launch_ns"], return_index=True)
    first = first[launched > 0]
    latency = np.maximum(start[first] - rows["launch_ns"][first], 0)
    span = int(end.max() - start[0])
    gap = span - busy_ns(start, end)
    p50, p90 = np.percentile(latency, (50, 90)) if len(latency) else (-1, -1)
    return StepLaunches(
        step=step,
        start_ns=int(start[0]),
        latency_p50_ns=int(p50),
        latency_p90_ns=int(p90),
        gap_ns=gap,
        gap_ratio=gap / span if span else 0.0,
    )


def busy_ns(start: Ints, end: Ints) -> int:
    """Time covered by at least one of the intervals, which are in order of their start.

    >>> busy_ns(np.array([0, 5, 20]), np.array([10, 12, 30]))
    22
    """
    reach = np.maximum.accumulate(end)
    fresh = np.maximum(start[1:], reach[:-1])
    return int(end[0] - start[0] + np.maximum(reach[1:] - fresh, 0).sum())
