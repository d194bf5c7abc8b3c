"""Read torch.profiler (Kineto) traces: one rank a file, or several merged into one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._ascend import OUTPUT, rank_beside
from argus.collectors.readers._chrome import TraceStream
from argus.collectors.readers._columns import Columns, collect, keep
from argus.collectors.readers._files import Inflated
from argus.collectors.readers._groups import count, declared, literal, world_of_calls
from argus.collectors.readers._pairs import Event, Pairs
from argus.collectors.readers._processes import Processes
from argus.collectors.readers._profile import named_rank, profile_of
from argus.collectors.records.layout import MAX_WORLD, Layout

_KEYS = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"', b'"distributedInfo"')
_HOST_IN_NAME = re.compile(r"^(.+)_(\d+)\.(?:\d+\.)?pt\.trace\.json")


def sniff(head: bytes, name: str) -> bool:
    """A JSON object with one of kineto's keys, or a list of trace events, complete or in pairs."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"{":
        return any(key in head for key in _KEYS)
    return start == b"[" and b'"ph"' in head


def read(path: Path) -> Iterator[Reading]:
    """The rank of a trace, or the ranks that were merged into it and say so. Raises ReaderError."""
    name = path.name
    processes = Processes()
    one = _streamed(path, lambda events: {None: collect(processes.seen(events))})
    if processes.is_merged:
        yield from _merged(path, processes)
        return
    columns = one.columns[None]
    if not columns.num_events:
        raise ReaderError(f"{name}: nothing can be read, {one.damage or 'it holds no trace events'}")
    if not columns.holds_any:
        raise ReaderError(
            f"{name}: none of its {columns.num_events} events is an operator, a kernel or a step of torch.profiler"
            + (f"; {one.damage}" if one.damage else "")
        )
    identity = _identity(one.meta, path, least_world=_least_world(columns))
    told = [*identity.warnings]
    if len(processes.workers) > 1:
        told.append(
            f"{name}: it holds {len(processes.workers)} processes that do not say which rank each is, and all count "
            f"as rank {identity.rank}: give each rank a file, or name the processes like rank 3"
        )
    yield _reading(columns, one, identity=identity, name=name, told=told)


def _merged(path: Path, processes: Processes) -> Iterator[Reading]:
    """The ranks of a merged trace, which is read once more for it."""
    name = path.name
    num_stray = 0

    def parted(events: Iterator[Event]) -> dict[int | None, Columns]:
        nonlocal num_stray
        columns: dict[int | None, Columns] = {
            rank: Columns() for rank in sorted(set(processes.ranks.values()))
        }
        for event in events:
            rank = processes.rank_of(event)
            if rank in columns:
                keep(columns[rank], event)
            elif event.get("ph") == "X":
                num_stray += 1
        return columns

    one = _streamed(path, parted)
    told = (
        [f"{name}: {num_stray} events of processes that do not say their rank are left out"]
        if num_stray
        else []
    )
    named = max(processes.ranks.values()) + 1
    least = max(named, *(_least_world(columns) for columns in one.columns.values()))
    held = {rank: columns for rank, columns in one.columns.items() if rank is not None and columns.num_events}
    if not held:
        raise ReaderError(f"{name}: none of its events is of a process that says its rank")
    for rank, columns in held.items():
        identity = _identity(one.meta, path, least_world=least, rank=rank)
        yield _reading(columns, one, identity=identity, name=name, told=told)


@dataclass(frozen=True, kw_only=True)
class _Streamed:
    """A file's events as columns, by rank where it holds several; `num_lone` events had no counterpart, and
    `num_malformed` are no JSON."""

    columns: Mapping[int | None, Columns]
    meta: Mapping[str, Any]
    damage: str
    num_lone: int
    num_malformed: int


def _streamed(path: Path, parted: Callable[[Iterator[Event]], Mapping[int | None, Columns]]) -> _Streamed:
    with Inflated(path) as source:
        stream, pairs = TraceStream(source), Pairs()
        try:
            columns = parted(pairs.completed(stream.events()))
        except ReaderError as error:
            raise ReaderError(f"{path.name}: {error}") from None
    return _Streamed(
        columns=columns,
        meta=stream.meta,
        damage=stream.damage,
        num_lone=pairs.num_lone,
        num_malformed=stream.num_malformed,
    )


def _reading(
    columns: Columns, one: _Streamed, *, identity: _Identity, name: str, told: Sequence[str]
) -> Reading:
    base = count(one.meta.get("baseTimeNanoseconds")) or 0
    reading = profile_of(
        columns,
        _layout(columns, one.meta, identity=identity, name=name),
        declared=declared(identity.info, identity.world),
        base_ns=base if abs(base) < 1 << 62 else 0,
        name=name,
    )
    steps = reading.records.steps
    if not (steps["end_ns"] > steps["start_ns"]).any():
        bad = f", {columns.num_bad} have no usable time" if columns.num_bad else ""
        raise ReaderError(f"{name}: its {columns.num_events} events span no time that can be read{bad}")
    warnings = [*told, *reading.warnings]
    if one.damage:
        warnings.append(f"{name}: {one.damage}; the {columns.num_events} events before that are used")
    if one.num_malformed:
        warnings.append(
            f"{name}: {one.num_malformed} events are no JSON (a quote in a name that is not escaped?) and are left out"
        )
    if columns.num_bad:
        warnings.append(f"{name}: {columns.num_bad} events have no usable time and are left out")
    if one.num_lone:
        warnings.append(f"{name}: {one.num_lone} events begin or end without a counterpart and are left out")
    is_relative = bool(one.damage) and "baseTimeNanoseconds" not in one.meta and _is_relative(columns)
    return Reading(
        records=reading.records,
        source=name,
        warnings=tuple(warnings),
        is_world_known=identity.is_world_known,
        is_seq_known=reading.is_seq_known,
        is_time_known=not is_relative,
        is_rank_named=identity.is_named,
    )


@dataclass(frozen=True, kw_only=True)
class _Identity:
    rank: int
    world: int
    is_world_known: bool
    info: Mapping[str, Any]
    warnings: tuple[str, ...]
    is_named: bool = False


def _least_world(columns: Columns) -> int:
    """What its communication says of the world where nothing else does."""
    return world_of_calls((*columns.comm_args.values(), *(span.args for span in columns.comms)))


def _identity(meta: Mapping[str, Any], path: Path, *, least_world: int, rank: int | None = None) -> _Identity:
    """Rank and world size from `distributedInfo`, else from what lies beside the file or its name. Raises ReaderError.

    With a `rank` given, what the file states of another one's groups is not taken.
    """
    raw = literal(meta.get("distributedInfo"))
    info: Mapping[str, Any] = raw if isinstance(raw, dict) else {}
    stated, world = count(info.get("rank")), count(info.get("world_size"))
    stated = None if stated is not None and stated < 0 else stated  # what a process outside the group is told
    info = info if rank in (None, stated) else {}
    rank = stated if rank is None else rank
    rank = rank_beside(path) if rank is None else rank
    warnings = []
    is_named = rank is None
    if rank is None:
        rank, origin = named_rank(path)
        if rank is None:
            raise ReaderError(_without_rank(path, info))
        warnings.append(f"{path.name}: rank {rank} is inferred from the {origin} name")
    is_known = world is not None and 0 < world <= MAX_WORLD
    world = world if world is not None and is_known else min(max(rank + 1, least_world), MAX_WORLD)
    if not 0 <= rank < world:
        raise ReaderError(f"{path.name}: rank {rank} does not fit into a world of {world}")
    return _Identity(
        rank=rank,
        world=world,
        is_world_known=is_known,
        info=info,
        warnings=tuple(warnings),
        is_named=is_named,
    )


def _without_rank(path: Path, info: Mapping[str, Any]) -> str:
    if path.parent.name == OUTPUT:
        return (
            f"{path.name}: the rank is missing: Ascend's profiler says it in the name of profiler_info_RANK.json above "
            f"{OUTPUT}, which is not there (or in an archive: unpack it); a folder's name like rank-3 says it, too"
        )
    missing = "distributedInfo has no rank" if info else "there is no distributedInfo"
    return f"{path.name}: the rank is missing: {missing} and the file name does not say it (like rank-3)"


def _layout(columns: Columns, meta: Mapping[str, Any], *, identity: _Identity, name: str) -> Layout:
    device, model = _device(columns, meta)
    version = meta.get("pytorch_version", meta.get("torch_version"))
    return Layout(
        run="trace",
        attempt=0,
        rank=identity.rank,
        world_size=identity.world,
        host=_host(columns, meta, name),
        pid=max(columns.pid, 0),
        device=device,
        gpu_model=model,
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


def _is_relative(columns: Columns) -> bool:
    """Whether times are not Unix time by themselves: before the year 2000."""
    starts = [rows[:, 0] for rows in (columns.ops.rows(), columns.kernels.rows()) if len(rows)]
    return not starts or int(np.min(starts[0])) < 946_684_800 * 10**9
