"""Read torch.profiler (Kineto) traces, one rank a file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._chrome import TraceStream
from argus.collectors.readers._columns import Columns, collect
from argus.collectors.readers._comms import Call, Calls, find_calls
from argus.collectors.readers._files import Inflated
from argus.collectors.readers._groups import count, declared, literal
from argus.collectors.readers._intervals import union
from argus.collectors.readers._phases import PhaseTime, find_work, phase_times
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
from argus.collectors.records.layout import MAX_WORLD, GroupInfo, Layout

Ints = NDArray[np.int64]

UNOBSERVED_NS = 0
"""CPU time of a thread, which no trace carries: 0 on all ranks reads as not recorded."""

_GROUP_DESC = "Process Group Description"
_KEYS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"distributedInfo"')
_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?:rank|worker|trainer)[-_.= ]?(\d{1,7})(?!\d)", re.IGNORECASE)
_HOST_IN_NAME = re.compile(r"^(.+)_(\d+)\.(?:\d+\.)?pt\.trace\.json")


def sniff(head: bytes, name: str) -> bool:
    """A JSON object with one of kineto's keys, or a list of trace events."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"{":
        return any(key in head for key in _KEYS)
    return start == b"[" and b'"ph"' in head


def read(path: Path) -> Iterator[Reading]:
    """The one rank of a trace. Raises ReaderError."""
    name = path.name
    with Inflated(path) as source:
        stream = TraceStream(source)
        try:
            columns = collect(stream.events())
        except ReaderError as error:
            raise ReaderError(f"{name}: {error}") from None
    meta = stream.meta
    if not columns.num_events:
        why = stream.damage or "it holds no trace events"
        raise ReaderError(f"{name}: nothing can be read, {why}")
    identity = _identity(meta, path)
    reading = _reading(columns, meta, identity=identity, name=name)
    warnings = [*identity.warnings, *reading.warnings]
    if stream.damage:
        warnings.append(f"{name}: {stream.damage}; the {columns.num_events} events before that are used")
    if columns.num_bad:
        warnings.append(f"{name}: {columns.num_bad} events have no usable time and are left out")
    is_relative = bool(stream.damage) and "baseTimeNanoseconds" not in meta and _is_relative(columns)
    yield Reading(
        records=reading.records,
        source=name,
        warnings=tuple(warnings),
        is_world_known=identity.is_world_known,
        is_seq_known=reading.is_seq_known,
        is_time_known=not is_relative,
    )


@dataclass(frozen=True, kw_only=True)
class _Identity:
    rank: int
    world: int
    is_world_known: bool
    info: Mapping[str, Any]
    warnings: tuple[str, ...]


def _identity(meta: Mapping[str, Any], path: Path) -> _Identity:
    """Rank and world size from `distributedInfo`, else from the file's name. Raises ReaderError."""
    raw = literal(meta.get("distributedInfo"))
    info: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    rank, world = count(info.get("rank")), count(info.get("world_size"))
    warnings = []
    if rank is None:
        rank, origin = _named_rank(path)
        if rank is None:
            missing = "distributedInfo has no rank" if info else "there is no distributedInfo"
            raise ReaderError(
                f"{path.name}: the rank is missing: {missing} and the file name does not say it (like rank-3)"
            )
        warnings.append(f"{path.name}: rank {rank} is inferred from the {origin} name")
    is_known = world is not None and 0 < world <= MAX_WORLD
    world = world if world is not None and is_known else min(rank + 1, MAX_WORLD)
    if not 0 <= rank < world:
        raise ReaderError(f"{path.name}: rank {rank} does not fit into a world of {world}")
    return _Identity(rank=rank, world=world, is_world_known=is_known, info=info, warnings=tuple(warnings))


def _named_rank(path: Path) -> tuple[int | None, str]:
    for name, origin in ((path.name, "file"), (path.parent.name, "folder")):
        match = _RANK_IN_NAME.search(name)
        if match:
            return int(match.group(1)), origin
    return None, ""


@dataclass(frozen=True, kw_only=True)
class _Read:
    records: RankRecords
    warnings: tuple[str, ...]
    is_seq_known: bool


def _reading(columns: Columns, meta: Mapping[str, Any], *, identity: _Identity, name: str) -> _Read:
    launched = _launch_times(columns)
    calls = find_calls(
        columns,
        launched=launched,
        groups=declared(identity.info, identity.world),
        world=identity.world,
    )
    steps = find_steps(columns)
    comm = union([c.start_ns for c in calls.calls], [c.end_ns for c in calls.calls])
    segments = find_segments(columns, steps, thread=training_thread(columns), comm=comm)
    work = find_work(columns, launched=launched, comm=comm, steps=steps)
    rows = _Rows(base=count(meta.get("baseTimeNanoseconds")) or 0)
    step_rows = rows.steps(steps)
    kernels = rows.kernels(columns, launched, steps, segments)
    records = RankRecords(
        layout=_layout(columns, meta, identity=identity, groups=calls.groups, name=name),
        steps=step_rows,
        phases=rows.phases(list(phase_times(segments, steps, work))),
        collectives=rows.collectives(calls.calls, steps, segments),
        kernels=kernels,
        events=rows.launches(kernels),
        names=rows.names,
        unseen=_unseen(columns, steps, calls),
    )
    return _Read(records=records, warnings=_remarks(name, columns, calls), is_seq_known=calls.is_seq_known)


def _launch_times(columns: Columns) -> Ints:
    """When each kernel was launched; its own start where the launch is not in the trace. (kernel,)"""
    kernels, launches = columns.table("kernels", 6), columns.table("launches", 3)
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
        self._base = base if abs(base) < 1 << 62 else 0
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

    def phases(self, times: Sequence[PhaseTime]) -> Rows:
        rows = np.zeros(len(times), PHASE)
        for column in ("step", "start_ns", "dur_ns", "wait_ns", "clock"):
            rows[column] = [getattr(time, column) for time in times]
        rows["name"] = [self._name(time.phase) for time in times]
        rows["native"] = [self._name(time.native) for time in times]
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
        table = columns.table("kernels", 6)
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


def _layout(
    columns: Columns,
    meta: Mapping[str, Any],
    *,
    identity: _Identity,
    groups: Mapping[str, GroupInfo],
    name: str,
) -> Layout:
    device, model = _device(columns, meta)
    version = meta.get("pytorch_version", meta.get("torch_version"))
    return Layout(
        run="trace",
        attempt=0,
        rank=identity.rank,
        world_size=identity.world,
        host=_host(columns, meta, name),
        device=device,
        gpu_model=model,
        groups=tuple(groups.values()),
        versions={"torch": version[:100]} if isinstance(version, str) else {},
        source="kineto",
    )


def _host(columns: Columns, meta: Mapping[str, Any], name: str) -> str:
    """The host the trace states, or that of a file name whose process id is one of the trace's."""
    stated = meta.get("host_name", meta.get("hostname"))
    if isinstance(stated, str):
        return stated[:256]
    match = _HOST_IN_NAME.match(Path(name).name)
    return match.group(1)[:256] if match and match.group(2) in map(str, columns.threads) else ""


def _device(columns: Columns, meta: Mapping[str, Any]) -> tuple[str, str]:
    """Index and model of the GPU whose kernels are in the trace."""
    devices = literal(meta.get("deviceProperties"))
    index = columns.device if columns.device >= 0 else None
    for item in devices if isinstance(devices, list) else []:
        if isinstance(item, dict) and index is not None and count(item.get("id")) == index:
            return str(index), str(item.get("name", ""))[:100]
    return ("" if index is None else str(index)), ""


def _unseen(columns: Columns, steps: Steps, calls: Calls) -> tuple[str, ...]:
    unseen = [
        "CPU time of threads: a trace carries none",
        "gc: pauses of the garbage collector are not in a trace",
    ]
    if not columns.kernels:
        unseen.append("GPU activity: the trace has none")
    if not steps.is_marked:
        unseen.append("step boundaries: no ProfilerStep, the whole trace counts as one step")
    if calls.num_unnamed:
        unseen.append(f"group or kind of {calls.num_unnamed} transfers")
    return tuple(unseen)


def _remarks(name: str, columns: Columns, calls: Calls) -> tuple[str, ...]:
    remarks = []
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


def _is_relative(columns: Columns) -> bool:
    """Whether times are not Unix time by themselves: before the year 2000 in µs."""
    first = min((op[0] for op in columns.ops), default=min((k[0] for k in columns.kernels), default=0))
    return first < 946_684_800 * 10**9
