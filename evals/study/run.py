"""The whole study: every condition, surface and healthy window of one size, as one JSON-ready result."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np

from argus.analytics.kernel_scan import Settings
from argus.evals.bench import Size
from argus.evals.study import design
from argus.evals.study.healthy import healthy
from argus.evals.study.measure import Condition, run_condition

Row = dict[str, Any]

EFFECTS = (0.01, 0.02, 0.03, 0.05, 0.08)
"""Effect gates of the default detector's own surface."""


def run_study(size: Size) -> Row:
    """Rows, sweep, surfaces and false alarms."""
    started = time.monotonic()
    workers = 1 if size == "smoke" else os.cpu_count() or 1
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        over: Callable[..., Iterable[Any]] = map if workers == 1 else pool.map
        rows = _all("conditions", over(one_row, design.conditions(size)), design.conditions(size))
        sweep = _all("slowdowns", over(one_row, design.sweep(size)), design.sweep(size))
        surfaces = _surfaces(size, over)
    return {
        "size": size,
        "rows": rows,
        "sweep": sweep,
        "surfaces": surfaces,
        "healthy": healthy(size),
        "elapsed_s": time.monotonic() - started,
    }


def one_row(condition: Condition) -> Row:
    """One condition as JSON."""
    return run_condition(condition).to_json()


def _all(what: str, results: Iterable[Row], plan: Sequence[Condition]) -> list[Row]:
    rows = []
    for row in results:
        rows.append(row)
        if len(rows) % 10 == 0 or len(rows) == len(plan):
            print(f"fidelity: {what} {len(rows)}/{len(plan)}", file=sys.stderr, flush=True)
    return rows


def _surfaces(size: Size, over: Callable[..., Iterable[Any]]) -> dict[str, dict[str, Row]]:
    """Mean scores over the surface families for every value of every parameter."""
    plan = list(design.surface_conditions(size))
    out: dict[str, dict[str, Row]] = {}
    for parameter, values in design.rules().items():
        for value, rule in values.items():
            rows = list(over(partial(run_condition_json, rule=rule), plan))
            out.setdefault(parameter, {})[value] = _mean(rows)
    for alpha in design.ALPHAS:
        rows = list(over(partial(run_condition_json, alpha=alpha), plan))
        out.setdefault("α (published rule)", {})[str(alpha)] = _mean(rows)
    for effect in EFFECTS:
        rows = list(over(partial(run_condition_json, settings=Settings(effect=effect)), plan))
        out.setdefault("effect gate (default)", {})[f"{effect:.0%}"] = _mean(rows)
    for steps in design.WINDOW_STEPS:
        longer = [replace(one, count=steps * design.LAUNCHES_PER_STEP) for one in plan]
        out.setdefault("window length, steps", {})[str(steps)] = _mean(list(over(one_row, longer)))
    return out


def run_condition_json(condition: Condition, **changes: Any) -> Row:
    """One condition with some settings changed, as JSON."""
    return run_condition(condition, **changes).to_json()


def _mean(rows: Sequence[Row]) -> Row:
    """Averages over families: F1 of both rules, precision of both, W₁ error of both summaries."""
    return {
        "f1_paper": float(np.mean([row["f1"]["triple"] for row in rows])),
        "f1_default": float(np.mean([row["f1"]["default"] for row in rows])),
        "recall_paper": float(np.mean([row["recall"]["triple"] for row in rows])),
        "recall_default": float(np.mean([row["recall"]["default"] for row in rows])),
        "false_paper": int(sum(row["false"]["triple"] for row in rows)),
        "false_default": int(sum(row["false"]["default"] for row in rows)),
        "error_default": float(np.mean([row["error"].get("triple+max+sum", np.nan) for row in rows])),
    }
