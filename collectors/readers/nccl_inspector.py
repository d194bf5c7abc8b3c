"""Read the lines of NCCL's Inspector plug-in: every collective with its size and time.

Format: NVIDIA/nccl ext-profiler/inspector, versions 4 and 5. A step is what the calls of the largest communicator
repeat after. Only the verbose form tells when a call began; of the other its end is known to the plug-in's interval.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._inspector import OPS_A_SEQ, Calls, Comm, calls_of, period_of
from argus.collectors.readers._intervals import union
from argus.collectors.readers._lines import Lines
from argus.collectors.records.events import COLLECTIVE, PHASE, STEP, RankRecords, Rows
from argus.collectors.records.layout import GroupInfo, Layout

UNOBSERVED_NS = -1
Ints = NDArray[np.int64]


def sniff(head: bytes, name: str) -> bool:
    """Lines of JSON of which the first is a call with its communicator."""
    line = head.lstrip().split(b"\n", 1)[0]
    return line[:1] == b"{" and (b'"coll_perf"' in line or b'"p2p_perf"' in line) and b'"n_ranks"' in line


def read(path: Path) -> Iterator[Reading]:
    """The ranks that the file tells of: one, unless its process drives several GPUs or files were put together.

    Raises ReaderError.
    """
    lines = Lines(path)
    processes = calls_of(line.text for line in lines if line.text.strip())
    if not processes:
        raise ReaderError(f"{path.name} holds no collective call of NCCL Inspector that can be read")
    for number, calls in enumerate(processes):
        world = _world_comm(calls)
        rows = calls.rows()
        steps = _steps(calls, rows, world)
        told = lines.warnings if number == 0 else ()
        yield Reading(
            records=_records(calls, rows, steps, world),
            source=path.name,
            warnings=(*told, *_remarks(path.name, calls, num_steps=len(steps))),
            are_members_known=False,
        )


def _world_comm(calls: Calls) -> Comm:
    """The communicator that numbers the ranks of the job: the largest, the first of equals."""
    return max(calls.comms.values(), key=lambda comm: comm.size)


def _remarks(name: str, calls: Calls, *, num_steps: int) -> Iterator[str]:
    if calls.num_bad:
        yield f"{name}: {calls.num_bad} lines are no calls and are left out"
    if calls.num_p2p:
        yield f"{name}: {calls.num_p2p} sends and receives are left out: their other end is not told"
    if calls.num_mixed:
        yield (
            f"{name}: {calls.num_mixed} calls of smaller communicators are left out: their process drives several GPUs, "
            "and they do not tell whose they are"
        )
    if calls.num_untimed:
        yield (
            f"{name}: {calls.num_untimed} calls do not tell when they began (NCCL_INSPECTOR_DUMP_VERBOSE=1 does); "
            "they are taken to end when they were written"
        )
    if num_steps == 1:
        yield f"{name}: its calls repeat no pattern, all of it counts as one step"


def _steps(calls: Calls, rows: Ints, world: Comm) -> Rows:
    """Steps from the end of one round of calls to the end of the next, numbered alike on all ranks."""
    mine = rows[rows[:, 0] == calls.numbers[world.id]]
    op, period = period_of(mine)
    if not period:
        steps = np.zeros(1, STEP)
        steps["start_ns"], steps["end_ns"] = (
            rows[:, 4].min(),
            max(int(rows[:, 5].max()), int(rows[:, 4].min()) + 1),
        )
    else:
        marks = mine[mine[:, 1] == op]
        number, first = np.unique(marks[:, 2] // period, return_index=True)
        ends = np.maximum.accumulate(np.maximum.reduceat(marks[:, 5], first))
        steps = np.zeros(len(number), STEP)
        steps["step"], steps["end_ns"] = number, ends
        steps["start_ns"] = np.concatenate([[min(int(rows[0, 4]), int(ends[0]))], ends[:-1]])
        steps = steps[steps["end_ns"] > steps["start_ns"]]
    steps["user_step"], steps["cpu_ns"] = -1, UNOBSERVED_NS
    return steps


def _records(calls: Calls, rows: Ints, steps: Rows, world: Comm) -> RankRecords:
    groups = tuple(
        GroupInfo(
            name=comm.id,
            desc="default_pg" if comm.id == world.id else "",
            ranks=tuple(range(comm.size)) if comm.size == world.size else (world.rank,),
        )
        for comm in calls.comms.values()
    )
    layout = Layout(
        run="inspector",
        attempt=0,
        rank=world.rank,
        world_size=world.size,
        host=calls.host,
        pid=calls.pid if 0 <= calls.pid < 1 << 31 else 0,
        groups=groups,
        source="nccl_inspector",
    )
    names: dict[str, int] = {"": 0}
    return RankRecords(
        layout=layout,
        steps=steps,
        phases=_phases(rows, steps, names),
        collectives=_collectives(calls, rows, steps, names),
        names=tuple(names),
        unseen=("phases and kernels: NCCL Inspector sees collectives only", "CPU time of threads"),
    )


def _step_of(rows: Ints, steps: Rows) -> Ints:
    """Index of the step a call ends in, -1 if in none. (call,)"""
    at = np.searchsorted(steps["end_ns"], rows[:, 5], side="left")
    inside = (at < len(steps)) & (rows[:, 5] >= steps["start_ns"][np.minimum(at, len(steps) - 1)])
    return np.where(inside, at, -1)


def _collectives(calls: Calls, rows: Ints, steps: Rows, names: dict[str, int]) -> Rows:
    at = _step_of(rows, steps)
    out = np.zeros(len(rows), COLLECTIVE)
    groups = np.array([names.setdefault(name, len(names)) for name in calls.numbers], np.uint32)
    ops = np.array([names.setdefault(op, len(names)) for op in calls.ops], np.uint32)
    numbers = np.array([_OP_NUMBER.get(op, 0) for op in calls.ops], np.int64)
    out["step"], out["group"], out["op"] = steps["step"][at], groups[rows[:, 0]], ops[rows[:, 1]]
    out["seq"] = rows[:, 2] * OPS_A_SEQ + numbers[rows[:, 1]]
    out["peer"], out["bytes"], out["cpu_ns"] = -1, rows[:, 3], UNOBSERVED_NS
    out["entry_ns"], out["end_ns"] = rows[:, 4], rows[:, 5]
    out["phase"] = names.setdefault("other", len(names))
    return out[at >= 0]


_OP_NUMBER = {
    "all_reduce": 0,
    "all_gather": 1,
    "reduce_scatter": 2,
    "broadcast": 3,
    "reduce": 4,
    "all_to_all": 5,
    "gather": 6,
    "scatter": 7,
}


def _phases(rows: Ints, steps: Rows, names: dict[str, int]) -> Rows:
    """One phase a step: what is not spent in collectives is the rank's own."""
    out = np.zeros(len(steps), PHASE)
    inside = union(rows[:, 4], rows[:, 5])
    out["step"], out["start_ns"] = steps["step"], steps["start_ns"]
    out["dur_ns"] = steps["end_ns"] - steps["start_ns"]
    out["wait_ns"] = inside.within(steps["start_ns"], steps["end_ns"])
    out["name"] = out["native"] = names.setdefault("other", len(names))
    out["cpu_ns"], out["chunk"], out["micro_batch"] = UNOBSERVED_NS, -1, -1
    return out
