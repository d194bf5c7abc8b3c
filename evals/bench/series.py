"""Bare step times: events found and false alarms beside the naive rule "above twice the median"."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from argus.analytics.series.follow import read_whole
from argus.analytics.series.judge import Slowdown, slowdowns
from argus.analytics.series.track import STARTUP
from argus.analytics.window import Floats
from argus.api.cli.errors import CliError
from argus.evals.bench import Size

SIDE, EVENT_RATIO, UNSURE_RATIO = 20, 1.05, 1.03
"""An event is real where the median of the next 20 values is ≥ 1.05 of the last 20; between 1.03 and that nothing
is counted. The rule labels, the detector does not."""

MAX_FALSE_PER_VALUE = 1e-4
NAIVE_RATIO = 2.0

COUNT = {"smoke": 20, "default": 200, "full": 1000}
LENGTH = 300
NOISE = 0.03


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--file` for recorded series instead of made ones."""
    parser.add_argument("--file", type=Path, metavar="JSON", help="{name: {interval, values}} to score")


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Every series by the rule, by Argus and by the naive rule."""
    series = _read(args.file) if getattr(args, "file", None) else _made(COUNT[size])
    begun = time.perf_counter()
    rows = [_row(name, values) for name, values in series.items()]
    wall_s = time.perf_counter() - begun
    num_values = sum(len(values) for values in series.values())
    false = sum(row["false"] for row in rows)
    return {
        "num_series": len(rows),
        "num_values": num_values,
        "with_event": sum(row["event"] for row in rows),
        "found": sum(row["event"] and bool(row["incidents"]) for row in rows),
        "incidents": sum(len(row["incidents"]) for row in rows),
        "false": false,
        "naive_alarms": sum(row["naive"] for row in rows),
        "naive_false": sum(row["naive"] and not row["event"] and not row["burst"] for row in rows),
        "values_per_s": num_values / wall_s,
        "rows": rows,
        "ok": false <= max(num_values * MAX_FALSE_PER_VALUE, 1),
    }


def table(result: Mapping[str, Any]) -> str:
    """A line a series that holds or raises anything, and the sums."""
    head = "| series | values | event | Argus | naive |\n|---|---|---|---|---|"
    lines = [
        f"| {row['name'][-60:]} | {row['num_values']} | {'yes' if row['event'] else ''} | "
        f"{'; '.join(row['incidents'])} | {'alarm' if row['naive'] else ''} |"
        for row in result["rows"]
        if row["event"] or row["incidents"] or row["naive"]
    ]
    sums = (
        f"\n{result['num_series']} series, {result['num_values']} values: {result['with_event']} hold an event, "
        f"{result['found']} of them raise an incident; {result['incidents']} incidents, {result['false']} false. "
        f"Twice the median alarms on {result['naive_alarms']} series, {result['naive_false']} of them without an "
        f"event or a burst. {result['values_per_s']:,.0f} values/s."
    )
    return "\n".join([head, *lines, sums])


def _row(name: str, values: Floats) -> dict[str, Any]:
    state, events = read_whole(values)
    slow: Sequence[Slowdown] = slowdowns(values, events, state.rhythm.periods)
    height = _steepest(values)
    is_event = height >= EVENT_RATIO
    rest = values[STARTUP:]
    return {
        "name": name,
        "num_values": len(values),
        "event": is_event,
        "burst": any(one.is_burst for one in slow),
        "incidents": [f"{one.ratio:.2f}× from {one.start}" for one in slow],
        "false": 0 if height >= UNSURE_RATIO else sum(not one.is_burst for one in slow),
        "naive": bool(len(rest) and (rest > NAIVE_RATIO * np.median(rest)).any()),
    }


def _steepest(values: Floats) -> float:
    """Largest ratio of the median of the next values to that of the last, 1 for a series too short."""
    rest = values[STARTUP:]
    if len(rest) < 2 * SIDE:
        return 1.0
    middle = np.median(np.lib.stride_tricks.sliding_window_view(rest, SIDE), axis=1)
    return float((middle[SIDE:] / middle[:-SIDE]).max())


def _read(path: Path) -> dict[str, Floats]:
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
