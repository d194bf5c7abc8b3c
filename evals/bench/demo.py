"""The demo's answer, each fault several times in a row with the rank drawn at random."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Mapping
from typing import Any

from argus.evals.bench import Size
from argus.evals.demo import CLASS_OF, RANKS, Plan, play
from argus.evals.stack import StackError
from argus.evals.watch import Progress

ALL = (*((fault, "ddp") for fault in (*CLASS_OF, "none")), ("slow-rank", "fsdp2"))
REPEATS: Mapping[Size, int] = {"smoke": 1, "default": 1, "full": 3}
QUIET_WINDOWS = 12
"""The short form plays both in one job: silent for so long while healthy, then the fault."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Play every demo; `ok` if each named the right rank and class and nothing else."""
    chosen, quiet = (ALL[:1], QUIET_WINDOWS) if size == "smoke" else (ALL, 0)
    plans = [
        Plan(fault=fault, rank=random.randrange(RANKS), parallel=parallel, quiet_windows=quiet)
        for fault, parallel in chosen
        for _ in range(REPEATS[size])
    ]
    rows = [_one(plan) for plan in plans]
    return {"demos": rows, "ok": all(row["ok"] for row in rows)}


def table(result: Mapping[str, Any]) -> str:
    """One line per demo."""
    lines = ["| fault | workload | rank hit | named | right | seconds |", "|---|---|---|---|---|---|"]
    for row in result["demos"]:
        named = ", ".join(f"{i['class']} on {i['suspects']}" for i in row["incidents"]) or row["error"] or "—"
        hit = row["truth"]["ranks"] or "—"
        right = "yes" if row["ok"] else "**no**"
        lines.append(
            f"| {row['fault']} | {row['workload']} | {hit} | {named} | {right} | {row['wall_s']:.0f} |"
        )
    return "\n".join(lines)


def _one(plan: Plan) -> dict[str, Any]:
    start_s = time.monotonic()
    try:
        answer, _ = play(plan, say=Progress(start_s))
    except StackError as error:
        answer = {"fault": plan.fault, "truth": plan.truth, "incidents": [], "ok": False, "error": str(error)}
    return {"error": "", **answer, "workload": plan.parallel, "wall_s": time.monotonic() - start_s}
