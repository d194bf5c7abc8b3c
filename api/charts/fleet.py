"""The fleet at a glance: what every run costs and shows of itself, and GPUs that rise day by day."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sqlalchemy import Connection

from argus.analytics.history import OWN, day_of
from argus.analytics.store import charts, history, levels, queries
from argus.analytics.store.queries import Which
from argus.collectors.records.channels import off_at

Json = dict[str, Any]

SUBJECTS = 50
"""Phases and kernel kinds of one GPU at most: so many rows are asked for to find those of one subject."""

LOWEST_RISE = -1e9


def fleet_page(connection: Connection, *, limit: int) -> Json:
    """Runs, the one heard of last first, each with its coverage and its overhead by channel."""
    found = queries.runs(connection, limit=limit, offset=0)
    return {"runs": [_run(connection, row) for row in found.items], "num_runs": found.total}


def _run(connection: Connection, row: Json) -> Json:
    which = queries.attempt_of(connection, row["run"], attempt=row["attempt"])
    assert which is not None
    last = charts.last_analysed(connection, which.id)
    coverage = last["coverage"] if last else None
    level, _ = levels.levels_of(connection, [(which.run, which.attempt)])[which.run, which.attempt]
    return {
        **row,
        "num_hosts": charts.num_hosts(connection, which.id),
        "step_s": _step_s(connection, which),
        "window": last["window"] if last else None,
        "analysed_s": last["analysed_s"] if last else None,
        "coverage_ratio": coverage["ratio"] if coverage else None,
        "num_missing_ranks": len(coverage["missing_ranks"]) if coverage else None,
        "dropped": sum(coverage["dropped"].values()) if coverage else None,
        "unseen": coverage["unseen"][:5] if coverage else [],
        "overhead": _overhead(coverage["overhead"]) if coverage else [],
        "channels_off": list(off_at(level)),
    }


def _step_s(connection: Connection, which: Which) -> float | None:
    points = queries.series(connection, which.id, ranks=(), limit=1)
    value = points[-1]["job_step_s"] if points else None
    return value if value is not None and math.isfinite(value) else None


def _overhead(costs: Json) -> list[Json]:
    """Channels, the costliest first: how much longer a step lasts with it than without."""
    rows = [
        {"channel": channel, "ratio": cost[0], "low": cost[1], "high": cost[2], "n": int(cost[3])}
        for channel, cost in costs.items()
    ]
    return sorted(rows, key=lambda row: -float(row["ratio"]))


def _days_known(connection: Connection, *, last_day: int, num_days: int) -> int:
    """Of these days those since the first that anything is known of."""
    first = history.first_day(connection, since_day=last_day - num_days + 1)
    return num_days if first is None else last_day - first + 1


def drift_page(connection: Connection, *, now_s: float, num_days: int, limit: int, subject: str) -> Json:
    """GPUs whose later days lie highest above the earlier ones: own time over the peers', day by day."""
    last_day = day_of(now_s)
    num_days = _days_known(connection, last_day=last_day, num_days=num_days)
    risen, num_compared = history.risen(
        connection, last_day=last_day, num_days=num_days, least=LOWEST_RISE, limit=limit * SUBJECTS
    )
    units = [row[:2] for row in risen if row[2] == subject][:limit]
    matrix = history.day_matrix(connection, units, last_day=last_day, num_days=num_days).get(subject)
    rows = np.exp(matrix) if matrix is not None else np.empty((0, num_days))
    return {
        "subject": subject or OWN,
        "first_day": last_day - num_days + 1,
        "last_day": last_day,
        "num_compared": num_compared,
        "units": [
            {
                "host": host,
                "device": device,
                "ratio": [float(value) if math.isfinite(value) else None for value in rows[at]],
            }
            for at, (host, device) in enumerate(units)
            if at < len(rows)
        ],
    }
