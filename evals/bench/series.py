"""Bare step times: events and false alarms beside the naive rule "above twice the median", and healthy jobs."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from argus.analytics.window import Floats
from argus.api.cli.errors import CliError
from argus.api.cli.paths import path
from argus.evals.bench import Size
from argus.evals.healthy_series import MAX_FALSE_PER_STEP, count_false_families, count_false_jobs
from argus.evals.series_score import score_series
from argus.evals.series_score import table as score_table

COUNT = {"smoke": 20, "default": 200, "full": 1000}
HEALTHY_JOBS = {"smoke": 3, "default": 160, "full": 500}
"""Of 2,000 steps each: 300,000 without an incident bound their rate at one in 100,000 (95 %)."""

NOISE_SERIES = {"smoke": 1, "default": 4, "full": 40}
LENGTH = 300
NOISE = 0.03


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--file` for recorded series instead of made ones."""
    parser.add_argument("--file", type=path, metavar="JSON", help="{name: {interval, values}} to score")


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Every series by the rule, by Argus and by the naive rule."""
    series = read_file(args.file) if getattr(args, "file", None) else _made(COUNT[size])
    begun = time.perf_counter()
    score = score_series(series)
    wall_s = time.perf_counter() - begun
    healthy = count_false_jobs(HEALTHY_JOBS[size])
    families = count_false_families(NOISE_SERIES[size])
    return {
        **score.to_json(),
        "values_per_s": score.num_values / wall_s,
        "table": score_table(score),
        "healthy": {
            **asdict(healthy),
            "false_per_100k": healthy.per_100k,
            "at_most_per_100k": healthy.at_most_per_100k,
        },
        "families": {name: asdict(one) for name, one in families.items()},
        "ok": score.ok and healthy.false <= max(healthy.steps * MAX_FALSE_PER_STEP, 1),
    }


def table(result: Mapping[str, Any]) -> str:
    """A line a series that holds or raises anything, and the sums."""
    healthy = result["healthy"]
    bound = healthy["at_most_per_100k"]
    families = [
        f"| {name} | {one['steps']} | {one['false']} | {_kinds(one)} |"
        for name, one in result["families"].items()
    ]
    return (
        f"{result['table']} {result['values_per_s']:,.0f} values/s.\n\nHealthy simulated jobs: "
        f"{healthy['false']} false incidents in {healthy['steps']:,} steps"
        + (f", at most {bound:.2f} in 100,000 (95 %)" if bound is not None else "")
        + f"; findings {_kinds(healthy)}.\n\n"
        + "\n".join(["| healthy noise | values | incidents | findings |", "|---|---|---|---|", *families])
    )


def _kinds(one: Mapping[str, Any]) -> str:
    return ", ".join(f"{num} {kind}" for kind, num in sorted(one["kinds"].items())) or "none"


def read_file(path: Path) -> dict[str, Floats]:
    """The series of a file. Raises CliError."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): np.array(item["values"], np.float64) for name, item in raw.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CliError(f"{path} is no file of series ({str(error)[:80]})") from None


def _made(count: int) -> dict[str, Floats]:
    """Series of noise; every other one rises by 5 to 30 % for good in its middle."""
    rng = np.random.default_rng(0)
    made = {}
    for index in range(count):
        values = rng.normal(1.0, NOISE, LENGTH)
        if index % 2:
            values[int(rng.integers(120, 240)) :] *= 1 + float(rng.uniform(0.05, 0.3))
        made[f"made {index}"] = values
    return made
