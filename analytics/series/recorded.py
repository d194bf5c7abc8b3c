"""Events of a recorded series of step times as findings, and its slowdowns as causes of incidents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from argus.analytics.finding import Evidence, Finding
from argus.analytics.fuse import series_cause
from argus.analytics.incident import Incident
from argus.analytics.lifecycle import open_incident, resolve_incident
from argus.analytics.series.event import Event
from argus.analytics.series.finding import finding_of
from argus.analytics.series.follow import read_whole
from argus.analytics.series.judge import Slowdown, slowdowns
from argus.analytics.series.period import Period
from argus.collectors.records.series import StepSeries

START, END = "start_index", "end_index"
"""Evidence that says which values of the series a finding is about."""

PERIOD = "period_steps"
"""Evidence of a slowdown that is one of several at equal distances."""


def series_findings(series: StepSeries) -> tuple[tuple[Finding, ...], tuple[Incident, ...]]:
    """All findings of one series in order, and the incidents among them.

    One that `comes_back` is none where no other rank shows that it is this one's alone.
    """
    values = np.array(series.values_s, np.float64)
    state, events = read_whole(values, interval=series.interval)
    sane = np.where(np.isfinite(values) & (values > 0), values, np.nan)
    whole = _filled(sane)
    slow = slowdowns(whole, events, state.rhythm.periods) if len(whole) else ()
    told = sorted([*events, *_periodic(slow, state.rhythm.periods)], key=lambda event: event.start)
    findings = tuple(_finding(series, event) for event in told)
    return findings, tuple(_incident(series, one, findings) for one in slow)


def comes_back(incident: Incident) -> bool:
    """Whether such slowdowns come at equal distances, as a job's own evaluation and checkpoints do."""
    return any(item.name == PERIOD for item in incident.cause.evidence)


def _periodic(slow: Sequence[Slowdown], periods: Sequence[Period]) -> list[Event]:
    """What comes at equal distances and is none of the `periods`, told once."""
    found = []
    for every in sorted({one.every for one in slow if one.every is not None} - {p.lag for p in periods}):
        mine = [one for one in slow if one.every == every]
        period = Period(length=every, unit="values", lag=round(every), strength=1.0)
        got, expected = (
            float(np.median([getattr(one, name) for one in mine])) for name in ("got", "expected")
        )
        first, last = mine[0].start, mine[-1].start
        found.append(Event(kind="periodic", start=first, end=last, got=got, expected=expected, period=period))
    return found


def _filled(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """The series with its last good value where one is missing; empty without any."""
    good = np.isfinite(values)
    if not good.any():
        return np.empty(0)
    last = np.maximum.accumulate(np.where(good, np.arange(len(values)), -1))
    return np.asarray(np.where(last >= 0, values[np.maximum(last, 0)], values[np.argmax(good)]))


def step_of(series: StepSeries, index: int) -> int:
    """Step of a value, as it was told or else by its place."""
    if series.steps:
        return series.steps[index]
    return series.first_step + index * series.interval


def _num_steps(series: StepSeries, first: int, last: int) -> int:
    """Steps done between two values; where their numbers go back none is."""
    if not series.steps:
        return (last - first) * series.interval
    return int(np.maximum(np.diff(series.steps[first : last + 1]), 0).sum())


def _steps_per_value(series: StepSeries, event: Event) -> float:
    """Steps between two values of an event, on average."""
    num = event.end - event.start
    return _num_steps(series, event.start, event.end) / num if num else series.interval


def _finding(series: StepSeries, event: Event) -> Finding:
    """The finding with the steps of its values, and the values themselves beside them."""
    found = finding_of(
        event,
        run=series.name,
        attempt=0,
        window=0,
        unit=series.unit,
        steps_per_value=_steps_per_value(series, event),
    )
    start = step_of(series, event.start)
    places = (
        Evidence(name=START, value=float(event.start)),
        Evidence(name=END, value=float(event.end)),
    )
    return replace(
        found,
        start_step=start,
        end_step=max(start, step_of(series, event.end)),
        evidence=(*found.evidence, *places),
    )


def _incident(series: StepSeries, slow: Slowdown, findings: Sequence[Finding]) -> Incident:
    first, last = slow.start, slow.end if slow.end is not None else len(series.values_s) - 1
    inside = [
        f for f in findings if f.kind in ("spike", "shift") and first <= (f.measure(START) or 0.0) <= last
    ]
    evidence = [
        Evidence(name="step_s", value=slow.got, unit=series.unit, baseline=slow.expected),
        Evidence(name=START, value=float(first)),
        Evidence(name=END, value=float(last)),
    ]
    if slow.every is not None:
        most = len(series.values_s) - 1
        every = slow.every * _num_steps(series, 0, most) / most
        evidence.append(Evidence(name=PERIOD, value=every, unit="steps"))
    cause = series_cause(
        series.name,
        findings=[finding.id for finding in inside][:60],
        evidence=tuple(evidence),
        onset_step=step_of(series, first),
        lost_s=slow.got - slow.expected,
        step_s=slow.got,
    )
    done = step_of(series, first) + _num_steps(series, first, last)
    opened = open_incident(cause, run=series.name, attempt=0, window=first, steps_done=done, world=1)
    if series.unit != "s":  # how much of its work a step did is not known
        opened = replace(opened, cost=replace(opened.cost, gpu_hours_so_far=0.0))
    return opened if slow.end is None else resolve_incident(opened, end_step=step_of(series, last))
