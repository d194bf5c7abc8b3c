"""The columns of one rank's profile as records, whatever tool wrote the file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from argus.collectors.readers._ascend import folder_of
from argus.collectors.readers._columns import Columns
from argus.collectors.readers._comms import Call, Calls, find_calls
from argus.collectors.readers._intervals import union
from argus.collectors.readers._phases import PhaseTimes, find_work, phase_times
from argus.collectors.readers._timeline import (
    Segments,
    Steps,
    find_segments,
    find_steps,
    training_thread,
)
from argus.collectors.records.events import (
    COLLECTIVE,
    KERNEL,
    PHASE,
    STEP,
    RankRecords,
    Rows,
    empty,
)
from argus.collectors.records.kernel_names import group_kind, short_name
from argus.collectors.records.launch_series import step_events
from argus.collectors.records.layout import GroupInfo, Layout

Ints = NDArray[np.int64]

UNOBSERVED_NS = 0
"""CPU time of a thread, which no trace carries: 0 on all ranks reads as not recorded."""

_GROUP_DESC = "Process Group Description"
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|worker|trainer)[-_.= ]?(\d{1,7})(?!\d)", re.IGNORECASE)


def named_rank(path: Path) -> tuple[int | None, str]:
    """The rank in a file's name, else in its folder's, and which of the two said it; None if neither does."""
    for name, origin in ((path.name, "file"), (folder_of(path).name, "folder")):
        match = _RANK_IN_NAME.search(name)
        if match:
            return int(match.group(1)), origin
    return None, ""


def without_rank(name: str) -> str:
    """A name without its rank, the same for the files of all ranks.

    >>> without_rank("metrics_rank3"), without_rank("rank12")
    ('metrics', '')
    """
    return _RANK_IN_NAME.sub("", name)


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A profile's records; `warnings` are sentences."""

    records: RankRecords
    warnings: tuple[str, ...]
    is_seq_known: bool


def profile_of(
    columns: Columns,
    layout: Layout,
    *,
    declared: Mapping[str, GroupInfo],
    base_ns: int,
    name: str,
    step_mark: str = "ProfilerStep",
) -> Profile:
    """The records of one rank; `layout` lacks its groups, `base_ns` is the origin of the columns' times.

    `step_mark` is what marks a step in files of this format, as their reader calls it.
    """
    launched = _launch_times(columns)
    calls = find_calls(columns, launched=launched, groups=declared, world=layout.world_size)
    steps = find_steps(columns)
    comm = union([c.start_ns for c in calls.calls], [c.end_ns for c in calls.calls])
    segments = find_segments(columns, steps, thread=training_thread(columns), comm=comm)
    work = find_work(columns, launched=launched, comm=comm, steps=steps)
    rows = _Rows(base=base_ns)
    step_rows = rows.steps(steps)
    kernels = rows.kernels(columns, launched, steps, segments)
    records = RankRecords(
        layout=replace(layout, groups=tuple(calls.groups.values())),
        steps=step_rows,
        phases=rows.phases(phase_times(segments, steps, work)),
        collectives=rows.collectives(calls.calls, steps, segments),
        kernels=kernels,
        events=rows.launches(kernels),
        names=rows.names,
        unseen=_unseen(columns, steps, calls, step_mark=step_mark),
    )
    return Profile(records=records, warnings=_remarks(name, columns, calls), is_seq_known=calls.is_seq_known)


def _launch_times(columns: Columns) -> Ints:
    """When each kernel was launched; its own start where the launch is not in the trace. (kernel,)"""
    kernels, launches = columns.kernels.rows(), columns.launches.rows()
    out = kernels[:, 0].copy()
    if not len(launches) or not len(out):
        return out
    launches = launches[np.argsort(launches[:, 0], kind="stable")]
    at = np.minimum(np.searchsorted(launches[:, 0], kernels[:, 3]), len(launches) - 1)
    found = launches[at, 0] == kernels[:, 3]
    out[found] = np.minimum(out[found], launches[at[found], 1])
    return out


class _Rows:
    """Writes record rows against one string table, in absolute time."""

    def __init__(self, *, base: int) -> None:
        self._base = base
        self._names: dict[str, int] = {"": 0}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._names)

    def _name(self, text: str) -> int:
        return self._names.setdefault(text, len(self._names))

    def steps(self, steps: Steps) -> Rows:
        rows = np.zeros(len(steps.number), STEP)
        rows["step"] = steps.number
        rows["user_step"] = steps.number if steps.is_marked else -1
        rows["start_ns"], rows["end_ns"] = steps.start + self._base, steps.end + self._base
        rows["cpu_ns"] = UNOBSERVED_NS
        return rows

    def phases(self, times: PhaseTimes) -> Rows:
        rows = np.zeros(len(times.step), PHASE)
        for column in ("step", "start_ns", "dur_ns", "wait_ns", "clock"):
            rows[column] = getattr(times, column)
        rows["name"] = [self._name(phase) for phase in times.phase]
        rows["native"] = [self._name(native) for native in times.native]
        rows["start_ns"] += self._base
        rows["cpu_ns"], rows["chunk"], rows["micro_batch"] = UNOBSERVED_NS, -1, -1
        return rows

    def collectives(self, calls: Sequence[Call], steps: Steps, segments: Segments) -> Rows:
        issued = np.array([call.issued_ns for call in calls], np.int64)
        at, held = steps.at(issued), segments.at(issued)
        rows = np.zeros(len(calls), COLLECTIVE)
        rows["step"] = steps.number[at]
        for column in ("seq", "peer", "bytes"):
            rows[column] = [getattr(call, column) for call in calls]
        rows["op"] = [self._name(call.op) for call in calls]
        rows["group"] = [self._name(call.group) for call in calls]
        rows["entry_ns"] = np.array([call.start_ns for call in calls], np.int64) + self._base
        rows["end_ns"] = np.array([call.end_ns for call in calls], np.int64) + self._base
        rows["cpu_ns"] = UNOBSERVED_NS
        rows["phase"] = [self._name(segments.phase[i]) if i >= 0 else 0 for i in held]
        return rows[at >= 0]

    def kernels(self, columns: Columns, launched: Ints, steps: Steps, segments: Segments) -> Rows:
        table = columns.kernels.rows()
        if not len(table):
            return empty("kernels")
        at, held = steps.at(launched), segments.at(launched)
        rows = np.zeros(len(table), KERNEL)
        rows["step"] = steps.number[at]
        shorts = np.array([self._name(short_name(name)) for name in columns.names], np.uint32)
        roles = np.array([self._name(role) for role in ("compute", "comm:world", "copy")], np.uint32)
        comm = {
            index: self._name(f"comm:{group_kind(str(args.get(_GROUP_DESC, '')))}")
            for index, args in columns.comm_args.items()
        }
        phases = np.array([*(self._name(phase) for phase in segments.phase), 0], np.uint32)
        rows["name"], rows["role"], rows["phase"] = shorts[table[:, 4]], roles[table[:, 5]], phases[held]
        rows["role"][list(comm)] = list(comm.values())
        rows["start_ns"], rows["dur_ns"] = table[:, 0] + self._base, table[:, 1]
        rows["launch_ns"] = np.where(launched < table[:, 0], launched + self._base, 0)
        return rows[at >= 0]

    def launches(self, kernels: Rows) -> Rows:
        return step_events(kernels, intern=self._name)


def _unseen(columns: Columns, steps: Steps, calls: Calls, *, step_mark: str) -> tuple[str, ...]:
    unseen = [
        "CPU time of threads: a trace carries none",
        "gc: pauses of the garbage collector are not in a trace",
    ]
    if not columns.kernels:
        unseen.append("GPU activity: the trace has none")
    if not steps.is_marked:
        unseen.append(f"step boundaries: no {step_mark}, the whole trace counts as one step")
    if calls.num_unnamed:
        unseen.append(f"group or kind of {calls.num_unnamed} transfers")
    return tuple(unseen)


def _remarks(name: str, columns: Columns, calls: Calls) -> tuple[str, ...]:
    remarks = []
    if columns.num_lost:
        remarks.append(
            f"{name}: {columns.num_lost} events are left out, it holds more than is kept of one file"
        )
    if calls.num_unseen:
        remarks.append(
            f"{name}: {calls.num_unseen} collectives are launched but their GPU kernels are not in the trace, "
            "so their times are unknown"
        )
    if calls.num_unnamed:
        remarks.append(
            f"{name}: {calls.num_unnamed} transfers do not say their group or kind and are not compared"
        )
    return tuple(remarks)
