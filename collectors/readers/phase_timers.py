"""Read tables of pipeline phase timers: parquet with one row per operation of a worker.

The columns are those of ByteDance's StragglerAnalysis: dp_rank, stage, rank, step, optype, start_ts and
duration in seconds, optionally seq_id, mc (model chunk) and mb_id (micro-batch). One rank of a worker is
recorded; it stands for the tensor-parallel ranks beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._timer_rows import TYPES, rank_rows
from argus.collectors.readers._timer_table import Ints, Table, groups_of, spans_of
from argus.collectors.records.events import RankRecords
from argus.collectors.records.layout import MAX_WORLD, Layout

MAX_ROWS = 10_000_000
"""Operations taken from one file; about 2 GB in memory while it is read."""

MAX_START_S, MAX_DUR_S = 1e10, 1e7
"""Unix time in seconds and a third of a year: what lies beyond is no time."""

_MAGIC = b"PAR1"
_NEEDED = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration")
_OPTIONAL = ("seq_id", "mc", "mb_id")


def sniff(head: bytes, name: str) -> bool:
    """A parquet file, whatever the name."""
    return head.startswith(_MAGIC)


def read(path: Path) -> Iterator[Reading]:
    """Every worker of the table. Raises ReaderError."""
    table, warnings = _sound(_load(path), path.name)
    ranks = np.unique(table.rank)
    stands_for = int(np.gcd.reduce(ranks)) if len(ranks) > 1 else 1
    world = int(ranks[-1]) + max(stands_for, 1)
    groups = groups_of(table)
    spans = spans_of(table)
    for rank in ranks.tolist():
        mine = table.rank == rank
        member = {name: group for name, group in groups.items() if rank in group.ranks}
        names, rows = rank_rows(table, rank=rank, rows=np.flatnonzero(mine), spans=spans, groups=member)
        layout = Layout(
            run=path.name.split(".")[0].removeprefix("trace-") or "phases",
            attempt=0,
            rank=rank,
            world_size=world,
            groups=tuple(member.values()),
            source="phase_timers",
        )
        records = RankRecords(
            layout=layout,
            names=names,
            steps=rows["steps"],
            phases=rows["phases"],
            collectives=rows["collectives"],
            unseen=(
                "CPU time of threads: the table carries none",
                "gc: pauses of single ranks are not timed",
            ),
        )
        yield Reading(
            records=records,
            source=path.name,
            warnings=warnings if rank == ranks[0] else (),
            stands_for=max(stands_for, 1),
        )


def _load(path: Path) -> Mapping[str, Any]:
    """The file's columns as pyarrow arrays by name."""
    try:
        parquet = import_module("pyarrow.parquet")
    except ModuleNotFoundError:
        raise ReaderError(
            f"{path.name} is parquet, which needs one more package: pip install 'argus-triage[readers]'"
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            have = set(file.schema_arrow.names)
            missing = [name for name in _NEEDED if name not in have]
            if missing:
                raise ReaderError(
                    f"{path.name} is parquet without {', '.join(missing)}; a table of phase timers has "
                    f"{', '.join(_NEEDED)}"
                )
            if file.metadata.num_rows > MAX_ROWS:
                raise ReaderError(f"{path.name} holds more than {MAX_ROWS} operations, which is refused")
            wanted = [*_NEEDED, *(name for name in _OPTIONAL if name in have)]
            table = file.read(columns=wanted)
            return {name: table.column(name).combine_chunks() for name in wanted}
    except (ValueError, OSError, TypeError, KeyError, NotImplementedError) as error:
        if isinstance(error, ReaderError):
            raise
        raise ReaderError(f"{path.name} is damaged parquet ({str(error).splitlines()[0][:120]})") from None


def _sound(columns: Mapping[str, Any], name: str) -> tuple[Table, tuple[str, ...]]:
    """The table without rows that cannot be; a warning says how many were left out."""
    try:
        ints = {key: _ints(columns[key]) for key in (*_NEEDED[:4], *_OPTIONAL) if key in columns}
        start, dur = (
            columns[key].to_numpy(zero_copy_only=False).astype(np.float64) for key in ("start_ts", "duration")
        )
        coded = columns["optype"].cast("string").dictionary_encode()
    except (ValueError, TypeError, NotImplementedError, AttributeError) as error:
        raise ReaderError(f"{name} has columns of other types ({str(error)[:120]})") from None
    ops, op = tuple(str(op)[:80] for op in coded.dictionary.to_pylist()), _ints(coded.indices)
    good = np.isfinite(start) & np.isfinite(dur) & (dur >= 0) & (op >= 0)
    good &= (np.abs(start) < MAX_START_S) & (dur < MAX_DUR_S) & (ints["step"] >= 0) & (ints["step"] < 1 << 53)
    good &= np.all([(ints[key] >= 0) & (ints[key] < MAX_WORLD) for key in _NEEDED[:3]], axis=0)
    if not good.any() or not any(op_name in TYPES for op_name in ops):
        raise ReaderError(f"{name} holds no operation with a worker, a step and a time")
    rows = np.flatnonzero(good)
    tie = ints.get("seq_id", np.zeros(len(good), np.int64))
    rows = rows[np.lexsort((tie[rows], start[rows], ints["step"][rows], ints["rank"][rows]))]
    none = np.full(len(good), -1, np.int64)
    table = Table(
        dp_rank=ints["dp_rank"][rows],
        stage=ints["stage"][rows],
        rank=ints["rank"][rows],
        step=ints["step"][rows],
        op=op[rows],
        ops=ops,
        start_s=start[rows],
        dur_s=dur[rows],
        chunk=np.clip(ints.get("mc", none)[rows], -1, 1 << 14),
        micro_batch=np.clip(ints.get("mb_id", none)[rows], -1, 1 << 30),
    )
    _check_workers(table, name)
    return table, _remarks(name, ops, num_left_out=int((~good).sum()))


def _remarks(name: str, ops: Sequence[str], *, num_left_out: int) -> tuple[str, ...]:
    unknown = sorted(op for op in ops if op not in TYPES)
    remarks = []
    if unknown:
        remarks.append(f"{name}: operations of unknown type count as other work: {', '.join(unknown[:5])}")
    if num_left_out:
        remarks.append(f"{name}: {num_left_out} rows without a possible worker, step or time are left out")
    return tuple(remarks)


def _ints(column: Any) -> Ints:
    """A column of whole numbers, -1 where there is none."""
    return np.asarray(column.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)


def _check_workers(table: Table, name: str) -> None:
    """One rank for each (dp_rank, stage), and the same for all of its rows."""
    places = np.unique(np.stack([table.rank, table.dp_rank, table.stage], axis=1), axis=0)
    ranks, workers = np.unique(places[:, 0]), np.unique(places[:, 1:], axis=0)
    if not len(ranks) == len(workers) == len(places):
        raise ReaderError(f"{name} gives one rank several places, or one place several ranks")
