"""Step times of an attempt window by window, with what was found in them and what is known to fall on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection

from argus.analytics.numbers import read_steps
from argus.analytics.store import asked, queries
from argus.analytics.store.attempts import incidents_of
from argus.analytics.store.queries import Which
from argus.analytics.window import Floats
from argus.collectors.records.events import (
    FLAG_CHECKPOINT,
    FLAG_EVAL,
    FLAG_PROFILED,
    FLAG_SHADOW,
    FLAG_WARMUP,
)
from argus.collectors.records.summary import RankWindow

Json = dict[str, Any]

MAX_FINDINGS = 1_000
MAX_CHANGES = 100
MARKS = {
    FLAG_WARMUP: "warm-up",
    FLAG_CHECKPOINT: "checkpoint",
    FLAG_EVAL: "evaluation",
    FLAG_PROFILED: "profiled",
    FLAG_SHADOW: "overhead probe",
}
"""Step flags in words; such steps stay out of every comparison."""


def steps_chart(
    connection: Connection,
    which: Which,
    *,
    ranks: Sequence[int],
    limit: int,
    upto: int | None,
    since_step: int | None = None,
) -> Json:
    """Columns over the last `limit` windows, oldest first: seconds a step of the job, of its ranks and of some. Further
    apart where they are to reach back to before `since_step`."""
    rows = [*asked.numbers_bodies(connection, which.id, limit=limit, upto=upto, since_step=since_step)][::-1]
    read = [read_steps(row.numbers) for row in rows]
    windows = [row.window for row in rows]
    reference = ranks[0] if ranks else _first_rank(read)
    # Only L1: one finding of L2 may list ten thousand victims.
    found = queries.findings(
        connection, attempt_id=which.id, window=None, level="L1", limit=MAX_FINDINGS, offset=0
    )
    bodies = [
        body for at in windows for body in asked.bodies_of_ranks(connection, which.id, at, ranks=[reference])
    ]
    return {
        "run": which.run,
        "attempt": which.attempt,
        "unit": "s",
        "window": windows,
        "first_step": [row.first_step for row in rows],
        "num_steps": [row.num_steps for row in rows],
        "job_s": [_at(job, 50) for _, _, job in read],
        "slowest_s": [_at(job, 100) for _, _, job in read],
        "low_s": [_at(step, 5) for _, step, _ in read],
        "high_s": [_at(step, 95) for _, step, _ in read],
        "ranks": {str(rank): [_of_rank(one[0], one[1], rank) for one in read] for rank in ranks},
        "changes": _changes(found.items),
        "incidents": [_incident(one.to_json()) for one in incidents_of(connection, which.id)],
        "marks": _marks(bodies),
        "marks_of": reference,
    }


def _first_rank(read: Sequence[tuple[Any, Any, Any]]) -> int:
    return int(read[-1][0][0]) if read and len(read[-1][0]) else 0


def _at(values: Floats, percent: float) -> float | None:
    seen = values[np.isfinite(values)]
    return float(np.percentile(seen, percent)) if len(seen) else None


def _of_rank(known: Any, step_s: Floats, rank: int) -> float | None:
    place = int(np.searchsorted(known, rank))
    is_there = place < len(known) and known[place] == rank and math.isfinite(step_s[place])
    return float(step_s[place]) if is_there else None


def _changes(findings: Sequence[Json]) -> list[Json]:
    """L1 findings, the same change once, the most significant first."""
    same: dict[tuple[str, int], Json] = {}
    for one in findings:
        if one["start_step"] is not None:
            key = (one["kind"], one["start_step"])
            if key not in same or _weight(one) > _weight(same[key]):
                same[key] = one
    ordered = sorted(same.values(), key=_weight, reverse=True)[:MAX_CHANGES]
    names = ("id", "kind", "end_step", "ratio")
    return [{"step": one["start_step"], **{name: one[name] for name in names}} for one in ordered]


def _weight(one: Json) -> float:
    return float(one["significance"] or 0.0)


def _incident(told: Json) -> Json:
    names = ("id", "class", "verdict", "severity", "status", "onset_step", "end_step", "suspects")
    return {**{name: told[name] for name in names}, "suspects": told["suspects"][:16]}


def _marks(bodies: Sequence[bytes]) -> list[Json]:
    """Stretches of flagged steps of one rank."""
    steps: dict[str, list[int]] = {}
    for body in bodies:
        for row in RankWindow.from_bytes(body).steps:
            for flag, name in MARKS.items():
                if int(row["flags"]) & flag:
                    steps.setdefault(name, []).append(int(row["step"]))
    return [
        {"what": name, "first_step": first, "last_step": last}
        for name, seen in steps.items()
        for first, last in _stretches(sorted(seen))
    ]


def _stretches(steps: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for step in steps:
        if found and step <= found[-1][1] + 1:
            found[-1] = (found[-1][0], step)
        else:
            found.append((step, step))
    return found
