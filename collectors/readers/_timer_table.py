"""A table of phase timers: its columns, the groups its operations run in, the spans of its steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argus.collectors.records.layout import GroupInfo

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Table:
    """The columns as arrays, sorted by rank, step and start. `op` indexes `ops`; times in seconds. (row,)"""

    dp_rank: Ints
    stage: Ints
    rank: Ints
    step: Ints
    op: Ints
    ops: tuple[str, ...]
    start_s: Floats
    dur_s: Floats
    chunk: Ints
    micro_batch: Ints


def groups_of(table: Table) -> dict[str, GroupInfo]:
    """The groups its operations run in, of recorded ranks only: pipeline, data parallel, embedding, all."""
    places = np.unique(np.stack([table.dp_rank, table.stage, table.rank], axis=1), axis=0)
    last = int(places[:, 1].max())
    groups = {"all": GroupInfo(name="all", desc="default_pg", ranks=tuple(sorted(places[:, 2].tolist())))}
    for dp in np.unique(places[:, 0]).tolist():
        mine = places[places[:, 0] == dp]
        ranks = tuple(mine[np.argsort(mine[:, 1])][:, 2].tolist())
        groups[f"pp{dp}"] = GroupInfo(name=f"pp{dp}", desc="pipeline_model_parallel_group", ranks=ranks)
        ends = tuple(dict.fromkeys(mine[np.isin(mine[:, 1], (0, last))][:, 2].tolist()))
        groups[f"embd{dp}"] = GroupInfo(name=f"embd{dp}", desc="embedding_group", ranks=ends)
    for stage in np.unique(places[:, 1]).tolist():
        mine = places[places[:, 1] == stage]
        ranks = tuple(mine[np.argsort(mine[:, 0])][:, 2].tolist())
        groups[f"dp{stage}"] = GroupInfo(name=f"dp{stage}", desc="data_parallel_group", ranks=ranks)
    return groups


@dataclass(frozen=True, kw_only=True)
class Span:
    """One step of the job: its place in the file, its own number, and its bounds on one clock."""

    index: int
    number: int
    origin_s: float
    begin_s: float
    end_s: float


def spans_of(table: Table) -> dict[int, Span]:
    """Steps one behind the other: recorded ones are samples, each timed from its own beginning."""
    spans: dict[int, Span] = {}
    at = 0.0
    for index, number in enumerate(np.unique(table.step).tolist()):
        rows = table.step == number
        origin = float(table.start_s[rows].min())
        length = float((table.start_s[rows] + table.dur_s[rows]).max()) - origin
        spans[number] = Span(index=index, number=number, origin_s=origin, begin_s=at, end_s=at + length)
        at += length
    return spans
