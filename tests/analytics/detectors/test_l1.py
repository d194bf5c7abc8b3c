"""The job's own series: spikes and shifts, found when there and not when absent."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.detectors import l1_shift, l1_spike
from argus.analytics.digest import digest_of
from argus.analytics.finding import Finding
from argus.analytics.view import Digest, View
from argus.analytics.window import Floats, assemble
from argus.collectors.host.window import cut_window
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build

STEPS = 10


def _template() -> tuple[View, Digest]:
    done = simulate(Job(ranks=2, steps=STEPS), rng=np.random.default_rng(0))
    topology = build(done.layouts)
    window = assemble([cut_window(records, WindowPlan(), 0) for records in done.records], topology)
    return View(run="r", attempt=0, topology=topology, now_s=0.0), digest_of(window)


def views(series: Floats) -> list[View]:
    """One view per window of 10 values of the job series."""
    view, digest = _template()
    digests = [
        replace(
            digest,
            index=index,
            first_step=index * STEPS,
            steps=np.arange(index * STEPS, (index + 1) * STEPS),
            job_step_s=values,
        )
        for index, values in enumerate(series.reshape(-1, STEPS))
    ]
    return [replace(view, past=tuple(digests[:n]), digest=now) for n, now in enumerate(digests)]


def shifts(series: Floats) -> list[Finding]:
    return [finding for view in views(series) for finding in l1_shift.detect(view)]


def test_a_shift_of_5_percent_in_3_percent_noise_is_found_close_to_its_step() -> None:
    near = seen = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        series = rng.normal(1.0, 0.03, 120)
        series[63:] *= 1.05
        found = [f for f in shifts(series) if (f.ratio or 0) > 1]
        seen += bool(found)
        near += bool(found) and abs((found[-1].start_step or 0) - 63) <= 3
    assert seen >= 29 and near >= 20


def test_a_faster_job_is_a_shift_with_a_ratio_below_one() -> None:
    series = np.random.default_rng(1).normal(1.0, 0.02, 120)
    series[60:] *= 0.8
    assert all((f.ratio or 2) < 1 for f in shifts(series)) and shifts(series)


def test_healthy_noise_has_no_shift() -> None:
    found = [f for seed in range(10) for f in shifts(np.random.default_rng(seed).normal(1.0, 0.03, 300))]
    assert not found


def test_noise_that_wanders_has_no_shift() -> None:
    rng = np.random.default_rng(2)
    noise = rng.normal(0, 0.02, 600)
    for step in range(1, 600):
        noise[step] += 0.8 * noise[step - 1]
    assert len(shifts(1.0 + noise)) <= 1


@pytest.mark.parametrize("spread", [0.02, 0.15])
def test_a_spike_is_a_notice_about_one_step(spread: float) -> None:
    series = 0.5 * np.exp(np.random.default_rng(4).normal(0, spread, 60))
    series[45] = 2.5
    found = [f for view in views(series) for f in l1_spike.detect(view)]
    assert [(f.kind, f.role, f.start_step, f.ranks) for f in found] == [("spike", "notice", 45, ())]
    assert (found[0].ratio or 0) > 3


def test_missing_steps_are_no_spikes() -> None:
    series = np.full(60, 0.5)
    series[20:26] = np.nan
    assert [f for view in views(series) for f in l1_spike.detect(view)] == []
    assert shifts(series) == []
