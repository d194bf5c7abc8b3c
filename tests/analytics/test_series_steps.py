"""Findings in a series whose log or table tells the step of each value."""

from __future__ import annotations

import numpy as np

from argus.analytics.series.recorded import series_findings
from argus.collectors.records.series import StepSeries


def noise(count: int, *, spread: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(0).normal(1.0, spread, count)


def test_the_step_that_is_told_of_a_value_is_the_one_named() -> None:
    values = noise(500, spread=0.01)
    values[250:] *= 1.2
    steps = (*range(1, 201), *range(101, 401))
    findings, (incident,) = series_findings(StepSeries(name="a", values_s=tuple(values), steps=steps))
    assert [one.start_step for one in findings] == [151] and incident.onset_step == 151
    again = (*range(1, 301), *range(51, 251))
    findings, (incident,) = series_findings(StepSeries(name="a", values_s=tuple(values), steps=again))
    assert incident.onset_step == 251 and incident.cost.gpu_hours_so_far > 0
    assert all((one.end_step or 0) >= (one.start_step or 0) > 0 for one in findings)


def test_a_period_counts_the_steps_that_are_told() -> None:
    values = np.insert(noise(306, spread=0.01), range(50, 301, 50), 60.0)
    steps = tuple(step for step in range(1, 307) for _ in range(1 + (step % 50 == 0)))
    findings, _ = series_findings(StepSeries(name="a", values_s=tuple(values), steps=steps))
    assert {one.measure("period") for one in findings if one.kind == "periodic"} == {50.0}
