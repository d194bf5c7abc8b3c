"""Rank × time and rank × phase heat maps of an attempt, as codes that a browser can paint."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Connection

from argus.analytics.detectors.l2_self_time import NOT_WORK
from argus.analytics.heat import beside_past, beside_peers, codes, worst_of_rows
from argus.analytics.numbers import WindowNumbers
from argus.analytics.peers import work_classes
from argus.analytics.store import asked
from argus.analytics.store.queries import Which
from argus.analytics.window import Floats, Ints
from argus.collectors.records.events import COMM_PHASES
from argus.topology.layout import Topology

Json = dict[str, Any]

OWN, STEP = "own", "step"


@dataclass(frozen=True, kw_only=True)
class Span:
    """Which ranks are wanted, in how many rows at most."""

    first: int
    last: int
    rows: int

    def of(self, world_size: int) -> tuple[Ints, int]:
        """The ranks, and how many of them share a row."""
        last = min(self.last, world_size - 1)
        ranks = np.arange(min(self.first, last), last + 1, dtype=np.int64)
        return ranks, -(-len(ranks) // self.rows)


def heat_chart(
    connection: Connection,
    which: Which,
    topology: Topology,
    *,
    metric: str,
    span: Span,
    limit: int,
    upto: int | None,
) -> Json:
    """The last `limit` windows of ranks: own work beside the peers', or a rank's step beside its own usual one."""
    rows = list(asked.numbers_bodies(connection, which.id, limit=limit, upto=upto))[::-1]
    numbers = [WindowNumbers.from_bytes(row.numbers) for row in rows]
    everyone = np.arange(topology.world_size, dtype=np.int64)
    values = np.full((len(numbers), topology.world_size), np.nan)
    for at, one in enumerate(numbers):
        inside = one.ranks < topology.world_size
        values[at, one.ranks[inside]] = measured(one, metric)[inside]
    is_past = metric == STEP
    logs = beside_past(values) if is_past else beside_peers(values, work_classes(topology, everyone))
    ranks, per_row = span.of(topology.world_size)
    return {
        **_frame(which, ranks, per_row),
        "metric": metric,
        "metrics": [OWN, STEP, *_phases(numbers)],
        "beside": "its own median" if is_past else "the median of ranks that do the same work",
        "window": [row.window for row in rows],
        "first_step": [row.first_step for row in rows],
        "num_steps": [row.num_steps for row in rows],
        "codes": _packed(worst_of_rows(logs[:, ranks], ranks_per_row=per_row)),
    }


def phase_chart(
    connection: Connection, which: Which, topology: Topology, *, window: int | None, span: Span
) -> Json | None:
    """One window, each phase of each rank beside its peers; the latest if none is named, None if there is none."""
    row = next(asked.numbers_bodies(connection, which.id, limit=1, upto=window), None)
    if row is None:
        return None
    one = WindowNumbers.from_bytes(row.numbers)
    everyone = np.arange(topology.world_size, dtype=np.int64)
    inside = one.ranks < topology.world_size
    phases = _phases([one])
    values = np.full((len(phases), topology.world_size), np.nan)
    for at, phase in enumerate(phases):
        values[at, one.ranks[inside]] = _phase(one, phase)[inside]
    ranks, per_row = span.of(topology.world_size)
    logs = beside_peers(values, work_classes(topology, everyone))
    return {
        **_frame(which, ranks, per_row),
        "window": row.window,
        "first_step": row.first_step,
        "num_steps": row.num_steps,
        "phases": [
            {
                "phase": phase,
                "clock": one.clocks[one.phases.index(phase)],
                "median_s": _median(one.phase_s[one.phases.index(phase)]),
                "median_wait_s": _median(one.wait_s[one.phases.index(phase)]),
                "is_comm": phase in COMM_PHASES,
            }
            for phase in phases
        ],
        "codes": _packed(worst_of_rows(logs[:, ranks], ranks_per_row=per_row)),
    }


def measured(one: WindowNumbers, metric: str) -> Floats:
    """Seconds a step of each rank of a window: its step, all its own work, or one phase; NaN if unknown."""
    if metric == STEP:
        return one.step_s
    if metric == OWN:
        work = [_phase(one, phase) for phase in one.phases if phase not in NOT_WORK]
        total = np.nansum(work, axis=0) if work else np.full(len(one.ranks), np.nan)
        return np.where(np.isfinite(one.step_s), total, np.nan)
    return _phase(one, metric)


def _phase(one: WindowNumbers, phase: str) -> Floats:
    """Own time of a phase; of communication all of it, where the culprit's is the shortest."""
    if phase not in one.phases:
        return np.full(len(one.ranks), np.nan)
    at = one.phases.index(phase)
    took = one.phase_s[at] if phase in NOT_WORK else one.phase_s[at] - one.wait_s[at]
    return np.asarray(np.maximum(took, 0.0))


def _phases(numbers: Sequence[WindowNumbers]) -> list[str]:
    """Phases in which ranks can be compared: steps that hold a checkpoint are left out of all comparisons."""
    seen = dict.fromkeys(phase for one in numbers for phase in one.phases)
    return [phase for phase in seen if phase not in NOT_WORK - COMM_PHASES]


def _median(values: Floats) -> float | None:
    seen = values[np.isfinite(values)]
    return float(np.median(seen)) if len(seen) else None


def _frame(which: Which, ranks: Ints, per_row: int) -> Json:
    return {
        "run": which.run,
        "attempt": which.attempt,
        "first_rank": int(ranks[0]),
        "last_rank": int(ranks[-1]),
        "ranks_per_row": per_row,
        "rows": -(-len(ranks) // per_row),
    }


def _packed(logs: Floats) -> str:
    return b64encode(codes(logs).tobytes()).decode()
