"""The record types a rank emits, as numpy rows that go over the wire unchanged.

Times are nanoseconds of the host's own wall clock (monotonic, anchored once at start). A `<u4` column
named in `STRING_COLUMNS` holds an index into the sender's string table, whose entry 0 is the empty string.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.host_look import HostLook
from argus.collectors.records.layout import Layout
from argus.collectors.records.stacks import StackDump

Rows = NDArray[np.void]
"""A one-dimensional structured array of one of the dtypes below."""

PHASES = (
    "data",
    "h2d",
    "forward",
    "backward",
    "optimizer",
    "grad_sync",
    "param_gather",
    "tp_comm",
    "ep_comm",
    "cp_comm",
    "pp_recv",
    "pp_send",
    "checkpoint",
    "eval",
    "other",
    "rollout",
    "reward",
    "ref",
    "weight_sync",
)
"""Canonical phases; a native name is kept beside each record and shown first. The last four are of RL loops."""

COMM_PHASES = frozenset({"grad_sync", "param_gather", "tp_comm", "ep_comm", "cp_comm", "pp_recv", "pp_send"})

OPS = (
    "all_reduce",
    "reduce_scatter",
    "all_gather",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "barrier",
    "send",
    "recv",
)
"""Canonical collective and point-to-point operations."""

SYMMETRIC_OPS = frozenset({"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier"})
"""Operations no member can finish before every member has entered."""

# Step flags. A step with any of `EXCLUDED_FLAGS` stays out of baselines and comparisons.
FLAG_WARMUP = 1
FLAG_SHADOW = 2
FLAG_PROFILED = 4
FLAG_CHECKPOINT = 8
FLAG_EVAL = 16
EXCLUDED_FLAGS = FLAG_WARMUP | FLAG_SHADOW | FLAG_PROFILED | FLAG_CHECKPOINT | FLAG_EVAL

CLOCK_WALL = 0
CLOCK_GPU = 1

STEP = np.dtype(
    [
        ("step", "<i8"),  # the attempt's own count, from 0
        ("user_step", "<i8"),  # what argus.step(i) said, -1 if it never did
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("cpu_ns", "<i8"),  # CPU time of the training thread
        ("flags", "<u4"),
    ]
)
# What no phase covers is one `other` row a step. Deeper rows detail the phase around them: DDP's wait for
# its last bucket is a `grad_sync` row inside `backward` and part of backward's wait_ns, counted once.
PHASE = np.dtype(
    [
        ("step", "<i8"),
        ("name", "<u4"),  # canonical
        ("native", "<u4"),
        ("start_ns", "<i8"),
        ("dur_ns", "<i8"),
        ("wait_ns", "<i8"),  # blocked in communication inside the phase; self time = dur - wait
        ("cpu_ns", "<i8"),  # CPU time of the phase's thread
        ("clock", "u1"),  # CLOCK_WALL or CLOCK_GPU
        ("depth", "u1"),  # 0 = outermost; only those add up to a step
        ("chunk", "<i2"),  # virtual pipeline chunk, -1 if none
        ("micro_batch", "<i4"),  # -1 if none
    ]
)
COLLECTIVE = np.dtype(
    [
        ("step", "<i8"),
        ("op", "<u4"),
        ("group", "<u4"),  # process group name, see Layout.groups
        ("seq", "<i8"),  # per group and rank, from 0; for send/recv per group, peer and direction
        ("peer", "<i4"),  # global rank of the other end or root, -1 if none
        ("bytes", "<i8"),
        ("entry_ns", "<i8"),
        ("end_ns", "<i8"),  # true end of the work, not of its launch
        ("blocked_ns", "<i8"),  # how long the calling thread stood still for it
        ("cpu_ns", "<i8"),  # CPU time of the calling thread inside the call
        ("phase", "<u4"),  # canonical phase it was issued in
    ]
)
KERNEL = np.dtype(
    [
        ("step", "<i8"),
        ("name", "<u4"),
        ("role", "<u4"),  # stream role: compute, comm:<group kind>, copy, cpu
        ("start_ns", "<i8"),
        ("dur_ns", "<i8"),
        ("phase", "<u4"),  # the one it was launched in
        ("group", "<u4"),  # of the collective it is the work of, 0 = none known
        ("seq", "<i8"),  # of that collective
        ("launch_ns", "<i8"),  # when the host began to launch it, 0 = not observed
    ]
)
EVENT = np.dtype(
    [
        ("step", "<i8"),
        ("kind", "<u4"),  # gc, compile, alloc_retry, loader_wait, mark:<name>, launch_latency, host_gap, …
        ("start_ns", "<i8"),
        ("dur_ns", "<i8"),
        ("value", "<f8"),  # gc generation, number of retries, ...
    ]
)

STRING_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "steps": (),
    "phases": ("name", "native"),
    "collectives": ("op", "group", "phase"),
    "kernels": ("name", "role", "phase", "group"),
    "events": ("kind",),
}
DTYPES: Mapping[str, np.dtype[Any]] = {
    "steps": STEP,
    "phases": PHASE,
    "collectives": COLLECTIVE,
    "kernels": KERNEL,
    "events": EVENT,
}


def empty(kind: str) -> Rows:
    """No rows of `kind` (a key of `DTYPES`)."""
    return np.empty(0, DTYPES[kind])


@dataclass(frozen=True, kw_only=True)
class RankRecords:
    """Everything known of one rank over some stretch of steps.

    `names` is the string table the rows' string columns index. `dropped` counts lost records by
    reason; `unseen` says in words what this rank could not observe. `looks` and `stacks` are what its host
    saw of it, in order of time; empty where they went elsewhere, or nobody looked.
    """

    layout: Layout
    names: tuple[str, ...] = ("",)
    steps: Rows = field(default_factory=lambda: empty("steps"))
    phases: Rows = field(default_factory=lambda: empty("phases"))
    collectives: Rows = field(default_factory=lambda: empty("collectives"))
    kernels: Rows = field(default_factory=lambda: empty("kernels"))
    events: Rows = field(default_factory=lambda: empty("events"))
    dropped: Mapping[str, int] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    looks: tuple[HostLook, ...] = ()
    stacks: tuple[StackDump, ...] = ()

    def name(self, index: int) -> str:
        """The string behind a string column's value; "?" if the table never arrived."""
        return self.names[index] if 0 <= index < len(self.names) else "?"
