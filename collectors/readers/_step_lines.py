"""Step times out of the lines of training frameworks' logs."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from argus.collectors.records.series import StepSeries

MEGATRON = re.compile(
    rb"iteration\s+(\d+)/\s*\d+\s*\|.*?elapsed time per iteration \((ms|s)\):\s*([\d.eE+-]+)"
)
DEEPSPEED = re.compile(rb"step=(\d+),[^\n]*?CurrSamplesPerSec=([\d.eE+-]+)|CurrSamplesPerSec=([\d.eE+-]+)")
DEEPSPEED_TIMERS = re.compile(rb"time \(ms\) \| (?=[^\n]*\b(?:fwd|forward): )([^\n]*)")
DEEPSPEED_PIPE = re.compile(rb"steps: (\d+) loss: [^\n]*?iter time \(s\): ([\d.eE+-]+)")
TORCHTITAN = re.compile(rb"step:\s*(\d+)\b[^\n]*?\btps:\s*([\d,]+(?:\.\d+)?)")
TITAN_END_TO_END = re.compile(rb"step:\s*(\d+)\b[^\n]*?end_to_end\(s\):\s*([\d.eE+-]+)")

LINES = (MEGATRON, DEEPSPEED, DEEPSPEED_TIMERS, DEEPSPEED_PIPE, TORCHTITAN)
"""What tells a training log from other text."""

MAX_APART = 2
"""Intervals that a rank's line may come later than another's of a later step; what is further back is a restart."""

_COLOR = re.compile(rb"\x1b\[[0-9;]*m")
_TIMER = re.compile(rb"(\w+): ([\d.eE+-]+)")
_OUTER_TIMERS = (("fwd", "forward"), ("bwd", "backward"), ("step",))


def has_step_lines(text: bytes) -> bool:
    """Whether a training framework's step lines are in it; they may begin with a bracket as JSON does."""
    plain = _COLOR.sub(b"", text)
    return any(line.search(plain) for line in LINES)


def from_lines(text: str, name: str) -> list[StepSeries]:
    """The step times of a training log: the first format that has any; one value a step, whoever printed it."""
    body = _COLOR.sub(b"", text.encode("utf-8", "replace"))
    for pick in (_megatron, _titan_times, _titan, _deepspeed_pipe, _deepspeed_timers, _deepspeed):
        steps, values, unit = pick(body)
        if values:
            first, interval = grid(steps)
            if len(steps) == len(values):
                steps, values = _one_a_step(steps, values, interval=interval)
            else:
                steps = []
            return [
                StepSeries(
                    name=name,
                    values_s=tuple(values),
                    interval=interval,
                    first_step=first,
                    unit=unit,
                    steps=tuple(steps),
                )
            ]
    return []


Picked = tuple[list[int], list[float], str]


def _megatron(body: bytes) -> Picked:
    rows = [
        (int(m[1][:15]), _number(m[3]) * (1e-3 if m[2] == b"ms" else 1.0)) for m in MEGATRON.finditer(body)
    ]
    return [step for step, _ in rows], [value for _, value in rows], "s"


def _titan_times(body: bytes) -> Picked:
    return _in_seconds(TITAN_END_TO_END, body)


def _deepspeed_pipe(body: bytes) -> Picked:
    return _in_seconds(DEEPSPEED_PIPE, body)


def _in_seconds(line: re.Pattern[bytes], body: bytes) -> Picked:
    """Lines that tell a step and the seconds it took."""
    rows = [(int(m[1][:15]), _number(m[2])) for m in line.finditer(body)]
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


def _one_a_step(
    steps: Sequence[int], values: Sequence[float], *, interval: int
) -> tuple[list[int], list[float]]:
    """The median of what several ranks print of a step; where steps go far back a new attempt begins."""
    merged: list[tuple[int, float]] = []
    attempt: dict[int, list[float]] = {}
    highest = steps[0]
    for step, value in zip(steps, values, strict=True):
        if step < highest - MAX_APART * interval:
            merged += _medians(attempt)
            attempt, highest = {}, step
        attempt.setdefault(step, []).append(value)
        highest = max(highest, step)
    merged += _medians(attempt)
    return [step for step, _ in merged], [value for _, value in merged]


def _medians(attempt: dict[int, list[float]]) -> Iterator[tuple[int, float]]:
    for step, values in sorted(attempt.items()):
        known = [value for value in values if math.isfinite(value)]
        yield step, median(known) if known else math.nan


def grid(steps: Sequence[int]) -> tuple[int, int]:
    """First step, and the distance most of them keep."""
    gaps = Counter(b - a for a, b in itertools.pairwise(steps) if b > a)
    return (steps[0] if steps else 0), (gaps.most_common(1)[0][0] if gaps else 1)


def _number(text: bytes) -> float:
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if abs(value) < 1e15 else math.nan


def _inverse(text: bytes) -> float:
    value = _number(text)
    return 1 / value if value > 0 else math.nan
