"""Score L1 on recorded series of step times: events by a fixed rule, false alarms, and what a naive rule would say.

An event is real where the median of the next 20 values is at least 1.05 of the last 20, after ten values of
start-up and with what repeats taken out; between 1.03 and 1.05 nothing is counted. The rule labels, the
detector does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from argus.analytics.series.follow import read_whole
from argus.analytics.series.judge import Slowdown, lone_slowdowns
from argus.analytics.series.period import Period
from argus.analytics.series.track import STARTUP
from argus.analytics.window import Floats

SIDE, EVENT_RATIO, UNSURE_RATIO = 20, 1.05, 1.03
NAIVE_RATIO = 2.0
"""The rule to beat: any value, start-up aside, above twice the median of the run."""

MAX_FALSE_PER_VALUE = 1e-4


@dataclass(frozen=True, kw_only=True)
class Row:
    """One series: whether it holds an event, what Argus and the naive rule said of it."""

    name: str
    num_values: int
    event: bool
    burst: bool
    incidents: tuple[str, ...]
    false: int
    naive: bool


@dataclass(frozen=True, kw_only=True)
class Score:
    """All series together; `ok` = not more than one false alarm in 10,000 values (one is always allowed)."""

    num_series: int
    num_values: int
    with_event: int
    found: int
    incidents: int
    false: int
    naive_alarms: int
    naive_false: int
    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether the budget holds."""
        return self.false <= max(self.num_values * MAX_FALSE_PER_VALUE, 1)

    def to_json(self) -> dict[str, object]:
        """JSON-ready, with false alarms per 10,000 values."""
        per_10k = 1e4 * self.false / max(self.num_values, 1)
        return {**asdict(self), "false_per_10k_values": per_10k, "ok": self.ok}


def score_series(series: Mapping[str, Floats]) -> Score:
    """Every series by the rule, by Argus and by the naive rule."""
    rows = tuple(_row(name, values) for name, values in series.items())
    return Score(
        num_series=len(rows),
        num_values=sum(row.num_values for row in rows),
        with_event=sum(row.event for row in rows),
        found=sum(row.event and bool(row.incidents) for row in rows),
        incidents=sum(len(row.incidents) for row in rows),
        false=sum(row.false for row in rows),
        naive_alarms=sum(row.naive for row in rows),
        naive_false=sum(row.naive and not row.event and not row.burst for row in rows),
        rows=rows,
    )


def table(score: Score) -> str:
    """A line a series that holds or raises anything, and the sums."""
    head = "| series | values | event | Argus | 2× median |\n|---|---|---|---|---|"
    lines = [
        f"| {row.name[-60:]} | {row.num_values} | {'yes' if row.event else ''} | "
        f"{'; '.join(row.incidents)} | {'alarm' if row.naive else ''} |"
        for row in score.rows
        if row.event or row.incidents or row.naive
    ]
    sums = (
        f"\n{score.num_series} series, {score.num_values} values: {score.with_event} hold an event, "
        f"{score.found} of them raise an incident; {score.incidents} incidents, {score.false} false. "
        f"Twice the median alarms on {score.naive_alarms} series, {score.naive_false} of them without an "
        "event or a burst."
    )
    return "\n".join([head, *lines, sums])


def _row(name: str, values: Floats) -> Row:
    state, events = read_whole(values)
    slow = lone_slowdowns(values, events, state.rhythm.periods)
    height = steepest(without_periods(values, state.rhythm.periods))
    rest = values[STARTUP:]
    return Row(
        name=name,
        num_values=len(values),
        event=height >= EVENT_RATIO,
        burst=any(one.is_burst for one in slow),
        incidents=tuple(_words(one) for one in slow),
        false=0 if height >= UNSURE_RATIO else sum(not one.is_burst for one in slow),
        naive=bool(len(rest) and (rest > NAIVE_RATIO * np.median(rest)).any()),
    )


def _words(slow: Slowdown) -> str:
    last = "" if slow.end is None else f"–{slow.end}"
    return f"{slow.ratio:.2f}× {'burst ' if slow.is_burst else ''}{slow.start}{last}"


def without_periods(values: Floats, periods: tuple[Period, ...]) -> Floats:
    """The series with the usual course of each period in steps taken out."""
    logs = np.log(values)
    for period in periods:
        if period.unit != "values" or len(values) < 3 * period.lag:
            continue
        phase = np.arange(len(logs)) % period.lag
        course = np.array([np.median(logs[phase == at]) for at in range(period.lag)])
        logs = logs - (course - np.median(course))[phase]
    return np.asarray(np.exp(logs))


def steepest(values: Floats) -> float:
    """Largest ratio of the median of the next values to that of the last, 1 for a series too short."""
    rest = values[STARTUP:]
    if len(rest) < 2 * SIDE:
        return 1.0
    middle = np.median(np.lib.stride_tricks.sliding_window_view(rest, SIDE), axis=1)
    return float((middle[SIDE:] / middle[:-SIDE]).max())
