"""Read Nsight Systems reports exported with `nsys export --type sqlite`, one process with GPU work a rank.

Tables as NVIDIA documents them (Nsight Systems user guide, "SQLite schema reference"); those a report did not need are
not there, and columns change between versions. Steps and phases come from NVTX ranges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._columns import Columns
from argus.collectors.readers._nsight_columns import Process, processes_of
from argus.collectors.readers._nsight_tables import Tables, open_tables, tables_of
from argus.collectors.readers._profile import named_rank, profile_of
from argus.collectors.records.layout import MAX_WORLD, Layout

_SQLITE = b"SQLite format 3\0"
_MARKS = (b"StringIds", b"CUPTI_ACTIVITY_KIND", b"NVTX_EVENTS", b"TARGET_INFO", b"META_DATA_EXPORT", b"ENUM_")
_REPORT = (".nsys-rep", ".qdrep")


def sniff(head: bytes, name: str) -> bool:
    """SQLite with tables of Nsight Systems, or a report that was not exported yet."""
    if head.startswith(_SQLITE):
        return any(mark in head for mark in _MARKS) or ".sqlite" in name.lower()
    return name.lower().endswith(_REPORT)


def read(path: Path) -> Iterator[Reading]:
    """Every process of the report that used a GPU. Raises ReaderError."""
    if path.name.lower().endswith(_REPORT):
        raise ReaderError(
            f"{path.name} is a report of Nsight Systems: export it first, nsys export --type sqlite {path.name}"
        )
    with open_tables(path) as connection:
        tables = tables_of(connection, name=path.name)
        if not any(
            tables.has(tables.newest(table)) for table in ("CUPTI_ACTIVITY_KIND_KERNEL", "NVTX_EVENTS")
        ):
            raise ReaderError(f"{path.name} is SQLite without kernels and NVTX ranges of Nsight Systems")
        processes = processes_of(tables)
        host, base_ns = _host(tables), _session_start(tables)
    if not processes:
        why = f", it is damaged ({tables.damage})" if tables.damage else ""
        raise ReaderError(f"{path.name} holds no kernel and no NVTX range of any process{why}")
    first, warning = _first_rank(path, num=len(processes))
    is_rank_known = bool(warning)
    for local, process in enumerate(processes):
        rank = first + local
        told = (warning,) if warning and local == 0 else ()
        if tables.damage:
            told = (*told, f"{path.name}: it is damaged ({tables.damage}); what could be read is used")
        reading = _reading(path, process, rank=rank, local=local, host=host, base_ns=base_ns, told=told)
        yield replace(reading, is_rank_known=is_rank_known)


def _reading(
    path: Path, process: Process, *, rank: int, local: int, host: str, base_ns: int, told: tuple[str, ...]
) -> Reading:
    columns: Columns = process.columns
    layout = Layout(
        run="trace",
        attempt=0,
        rank=rank,
        world_size=rank + 1,
        local_rank=local,
        host=host,
        pid=process.pid if process.pid < 1 << 31 else 0,
        device=process.device,
        gpu_model=process.gpu_model,
        source="nsight",
    )
    profile = profile_of(
        columns, layout, declared={}, base_ns=base_ns, name=path.name, step_mark="NVTX range of a step"
    )
    remarks = list(told)
    if columns.num_bad:
        remarks.append(f"{path.name}: {columns.num_bad} events have no usable time and are left out")
    return Reading(
        records=profile.records,
        source=path.name,
        warnings=(*remarks, *profile.warnings),
        is_world_known=False,
        is_seq_known=profile.is_seq_known,
        is_time_known=base_ns > 0,
    )


def _first_rank(path: Path, *, num: int) -> tuple[int, str]:
    """Rank of the report's first process with a sentence; several whose ranks no name tells are counted from 0.

    Raises ReaderError for one alone whose rank no name tells.
    """
    rank, origin = named_rank(path)
    if rank is not None and rank < MAX_WORLD // 2:
        what = f"{path.name}: rank {rank} is inferred from the {origin} name"
        return (
            rank,
            what if num == 1 else f"{what}, {num - 1} more processes follow it in the order of their GPUs",
        )
    if num > 1:
        return 0, ""
    raise ReaderError(
        f"{path.name}: the rank is missing: a report has it in its name, like report-rank-3.sqlite"
    )


def _host(tables: Tables) -> str:
    if not tables.has("TARGET_INFO_SYSTEM_ENV", "name", "value"):
        return ""
    rows = tables.rows("SELECT value FROM TARGET_INFO_SYSTEM_ENV WHERE name = 'Hostname' LIMIT 1")
    return next((str(row[0])[:256] for row in rows), "")


def _session_start(tables: Tables) -> int:
    """Unix time of the session's start in ns, 0 if it is not told."""
    if not tables.has("TARGET_INFO_SESSION_START_TIME", "utcEpochNs"):
        return 0
    rows = tables.rows("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1")
    value = next((row[0] for row in rows), 0)
    return value if isinstance(value, int) and 0 < value < 1 << 62 else 0
