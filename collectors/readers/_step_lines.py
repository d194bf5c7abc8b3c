"""Step times out of lines of text: framework logs and tables with a column of times."""

from __future__ import annotations

import csv
import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence

from argus.collectors.records.series import StepSeries

MEGATRON = re.compile(
    rb"iteration\s+(\d+)/\s*\d+\s*\|.*?elapsed time per iteration \((ms|s)\):\s*([\d.eE+-]+)"
)
DEEPSPEED = re.compile(rb"step=(\d+),[^\n]*?CurrSamplesPerSec=([\d.eE+-]+)|CurrSamplesPerSec=([\d.eE+-]+)")
DEEPSPEED_TIMERS = re.compile(rb"time \(ms\) \| (?=[^\n]*\b(?:fwd|forward): )([^\n]*)")
TORCHTITAN = re.compile(rb"step:\s*(\d+)\b[^\n]*?\btps:\s*([\d,]+(?:\.\d+)?)")
TITAN_END_TO_END = re.compile(rb"step:\s*(\d+)\b[^\n]*?end_to_end\(s\):\s*([\d.eE+-]+)")

LINES = (MEGATRON, DEEPSPEED, DEEPSPEED_TIMERS, TORCHTITAN)
"""What tells a training log from other text."""

_COLOR = re.compile(rb"\x1b\[[0-9;]*m")
_TIMER = re.compile(rb"(\w+): ([\d.eE+-]+)")
_OUTER_TIMERS = (("fwd", "forward"), ("bwd", "backward"), ("step",))
_TIME_COLUMNS = (
    "iteration_time",
    "iteration-time",
    "iter_time",
    "step_time",
    "step_time_s",
    "time_per_step",
    "elapsed",
    "duration",
    "seconds",
    "time_s",
    "time",
)
_STEP_COLUMNS = ("step", "iteration", "iter", "index", "global_step")


def has_step_lines(text: bytes) -> bool:
    """Whether a training framework's step lines are in it; they may begin with a bracket as JSON does."""
    plain = _COLOR.sub(b"", text)
    return any(line.search(plain) for line in LINES)


def from_lines(text: str, name: str) -> list[StepSeries]:
    """The step times of a training log: the first format that has any."""
    body = _COLOR.sub(b"", text.encode("utf-8", "replace"))
    for pick in (_megatron, _titan_times, _titan, _deepspeed_timers, _deepspeed):
        steps, values, unit = pick(body)
        if values:
            first, interval = _grid(steps)
            return [
                StepSeries(name=name, values_s=tuple(values), interval=interval, first_step=first, unit=unit)
            ]
    return []


Picked = tuple[list[int], list[float], str]


def _megatron(body: bytes) -> Picked:
    rows = [
        (int(m[1][:15]), _number(m[3]) * (1e-3 if m[2] == b"ms" else 1.0)) for m in MEGATRON.finditer(body)
    ]
    return [step for step, _ in rows], [value for _, value in rows], "s"


def _titan_times(body: bytes) -> Picked:
    rows = [(int(m[1][:15]), _number(m[2])) for m in TITAN_END_TO_END.finditer(body)]
    return [step for step, _ in rows], [value for _, value in rows], "s"


def _titan(body: bytes) -> Picked:
    """Throughput only: seconds a token, which change as the step time does."""
    rows = [(int(m[1][:15]), _inverse(m[2].replace(b",", b""))) for m in TORCHTITAN.finditer(body)]
    return [step for step, _ in rows], [value for _, value in rows], "s a token"


def _deepspeed_timers(body: bytes) -> Picked:
    values = []
    for match in DEEPSPEED_TIMERS.finditer(body):
        timers = {key.decode(): _number(value) for key, value in _TIMER.findall(match[1])}
        parts = [next((timers[n] for n in names if n in timers), 0.0) for names in _OUTER_TIMERS]
        values.append(sum(parts) * 1e-3)
    return [], values, "s"


def _deepspeed(body: bytes) -> Picked:
    rows = [(int(m[1][:15]) if m[1] else None, _inverse(m[2] or m[3])) for m in DEEPSPEED.finditer(body)]
    return [step for step, _ in rows if step is not None], [value for _, value in rows], "s a sample"


def _grid(steps: Sequence[int]) -> tuple[int, int]:
    """First step, and the distance most of them keep."""
    gaps = Counter(b - a for a, b in itertools.pairwise(steps) if b > a)
    return (steps[0] if steps else 0), (gaps.most_common(1)[0][0] if gaps else 1)


def table_series(text: str, name: str) -> list[StepSeries]:
    """Columns of times in comma, tab or blank separated text, with or without a line of names."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if not lines:
        return []
    mark = next((m for m in (",", "\t", ";") if m in lines[0]), None)
    try:
        rows = list(csv.reader(lines, delimiter=mark)) if mark else [line.split() for line in lines]
    except csv.Error:
        return []
    has_names = any(math.isnan(_number(cell.encode())) for cell in rows[0])
    names = [cell.strip() for cell in rows[0]] if has_names else [""] * len(rows[0])
    rows = rows[has_names:]
    steps, times = _columns(names, len(rows[0]) if rows else 0)
    first, interval = _grid([int(v) for r in rows if steps >= 0 and math.isfinite(v := _cell(r, steps))])
    return [
        StepSeries(
            name=name if len(times) == 1 else f"{name}/{names[column] or column}"[:256],
            values_s=tuple(
                _cell(row, column) * (1e-3 if re.search(r"(_ms|\(ms\))$", names[column].lower()) else 1.0)
                for row in rows
            ),
            interval=interval,
            first_step=first,
        )
        for column in times
    ]


def _columns(names: Sequence[str], width: int) -> tuple[int, list[int]]:
    """Column of the step (-1 if none) and columns of times: those named so, else all others; a step in seconds is a time."""
    low = [re.sub(r"(_ms|_s|\(ms\)|\(s\))$", "", name.lower().strip()) for name in names]
    steps = next((i for i, name in enumerate(names) if name.lower().strip() in _STEP_COLUMNS), -1)
    if not any(names):
        return (0, [1]) if width == 2 else (-1, list(range(width)))
    known = [*(re.sub(r"_s$", "", name) for name in _TIME_COLUMNS), *_STEP_COLUMNS]
    counts = [name.lower().strip() in _STEP_COLUMNS for name in names]
    times = [
        i
        for i, name in enumerate(low)
        if not counts[i] and (name in known or name.replace(" ", "_") in known)
    ]
    return steps, times or [i for i in range(min(width, len(names))) if i != steps]


def _cell(row: Sequence[str], column: int) -> float:
    return _number(row[column].encode()) if column < len(row) else math.nan


def _number(text: bytes) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if abs(value) < 1e15 else math.nan


def _inverse(text: bytes) -> float:
    value = _number(text)
    return 1 / value if value > 0 else math.nan
