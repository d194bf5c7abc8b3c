"""Recorded series of step times in which every step from one on takes longer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from argus.analytics.clocks import align
from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.series.follow import read_whole
from argus.analytics.series.recorded import comes_back, series_findings
from argus.analytics.window import Floats, assemble
from argus.api.cli.errors import CliError
from argus.collectors.host.window import cut
from argus.collectors.records.events import STEP, RankRecords
from argus.collectors.records.layout import Layout
from argus.collectors.records.plan import DEFAULT_STEPS, WindowPlan
from argus.collectors.records.series import StepSeries
from argus.evals.bench.series import read_file
from argus.evals.marks import Mark, Spent
from argus.evals.score import Trial
from argus.evals.semi.marking import crashed, marked
from argus.evals.series_score import UNSURE_RATIO, steepest, without_periods
from argus.evals.spent import measured
from argus.evals.systems import OURS, systems
from argus.evals.systems._seen import Seen, incidents_of
from argus.evals.truth import Truth
from argus.topology.layout import build

NAME = "semi_series"
FOLDER = "iteration-time"

LEAST_VALUES, MOST_VALUES = 80, 2_000
ROOM = 30
"""Values before the onset, and after it: start-up and what the labelling rule compares."""

CLASS = "step.slower"


def recordings(data: Path) -> tuple[Path, ...]:
    """Its files below the data."""
    return tuple(sorted((data / FOLDER).glob("*.json")))


@cache
def _quiet(data: Path) -> dict[str, Floats]:
    """Series long enough in which the labelling rule sees no event; the longest are cut."""
    all_values = {name: values for path in recordings(data) for name, values in read_file(path).items()}
    found = {}
    for name, values in all_values.items():
        part = values[:MOST_VALUES]
        if len(part) < LEAST_VALUES or not (np.isfinite(part) & (part > 0)).all():
            continue
        periods = read_whole(part)[0].rhythm.periods
        if steepest(without_periods(part, periods)) < UNSURE_RATIO:
            found[name] = part
    if not found:
        raise CliError(f"{data / FOLDER} holds no series of {LEAST_VALUES} step times without an event")
    return found


def compare(trial: Trial, *, names: Sequence[str], data: Path) -> list[Mark]:
    """The marks of the systems that need nothing but step times."""
    known = _quiet(data)
    rng = np.random.default_rng([trial.seed, 31])
    name = sorted(known)[trial.seed % len(known)]
    values = known[name].copy()
    onset = int(rng.integers(ROOM, len(values) - ROOM))
    truth = Truth()
    if trial.severity > 1.0:
        values[onset:] *= trial.severity
        truth = Truth(fault_class=CLASS, scope=f"run:{name}", onset_step=onset)
    return [_mark(trial, truth, StepSeries(name=name, values_s=tuple(values.tolist())), one) for one in names]


def _mark(trial: Trial, truth: Truth, series: StepSeries, system: str) -> Mark:
    findings: tuple[Finding, ...] = ()
    try:
        with measured() as meter:
            if system == OURS:
                findings, found = series_findings(series)
                incidents = tuple(one for one in found if not comes_back(one))
                told = [one.onset_step + DEFAULT_STEPS for one in incidents]
            else:
                incidents, at = _theirs(series, system, seed=trial.seed)
                told = [int(step) for step in at]
    except Exception as error:  # noqa: BLE001  one crashed trial is a result, not the end of the suite
        return crashed(system, trial, truth, error)
    num = len(series.values_s)
    in_windows = [replace(one, opened_window=one.onset_step // DEFAULT_STEPS) for one in incidents]
    windows = max(num // DEFAULT_STEPS, 1)
    return marked(
        system,
        trial,
        truth,
        incidents=in_windows,
        told_step=told,
        known=(),
        window_steps=DEFAULT_STEPS,
        steps=num,
        findings=[replace(one, window=(one.start_step or 0) // DEFAULT_STEPS) for one in findings],
        cost_ratio=trial.severity - 1.0,
        spent=Spent(wall_s=meter.wall_s, cpu_s=meter.cpu_s, windows=windows),
    )


def _theirs(series: StepSeries, system: str, *, seed: int) -> tuple[tuple[Incident, ...], tuple[float, ...]]:
    seen = _windows(series)
    return incidents_of(systems()[system](seen, rng=np.random.default_rng([seed, 32])), seen)


def _windows(series: StepSeries) -> tuple[Seen, ...]:
    """The series as windows of a job of one rank that shows nothing but its steps; told at their last step."""
    ends = np.rint(np.cumsum(series.values_s) * 1e9).astype(np.int64)
    rows = np.zeros(len(ends), STEP)
    rows["step"] = rows["user_step"] = np.arange(len(ends))
    rows["start_ns"], rows["end_ns"] = np.concatenate([[0], ends[:-1]]), ends
    layout = Layout(run=series.name[:256], attempt=0, rank=0, world_size=1)
    topology = build([layout])
    parts = cut(RankRecords(layout=layout, steps=rows), WindowPlan())
    windows = [align(assemble([part], topology)) for part in parts]
    return tuple(Seen(now_s=float(one.first_step + one.num_steps), window=one) for one in windows)
