"""The series budget: what does not fit is left out in a fixed order and counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.kernels.tops import KernelTop
from argus.analytics.numbers import WindowNumbers
from argus.api.metrics import make_metrics, render
from argus.api.run_gauges import RunNow, scores_of
from argus.collectors.host.counters import MAX_LABELS, Counters


class Watched:
    """Live runs of 10 ranks with 2 phases: 10 series of steps and 40 of phases each."""

    def __init__(self, num_runs: int) -> None:
        self._runs = [
            RunNow(run=f"r{i}", numbers=numbers(), coverage_ratio=1.0, ranks_lost=0) for i in range(num_runs)
        ]

    def show(self, **values: Any) -> None:
        self._runs = [replace(run, **values) for run in self._runs]

    def runs_now(self) -> Iterable[RunNow]:
        return self._runs

    def open_now(self) -> Iterable[Incident]:
        return ()

    def backlog_now(self) -> tuple[int, float]:
        return 0, 0.0

    def leads_now(self) -> bool:
        return True

    def troubles_now(self) -> tuple[str, ...]:
        return ()


def numbers() -> WindowNumbers:
    ranks, grid = np.arange(10), np.ones((2, 10))
    return WindowNumbers(
        ranks=ranks,
        phases=("forward", "backward"),
        clocks=("wall", "wall"),
        step_s=np.ones(10),
        job_step_s=np.ones(3),
        phase_s=grid,
        wait_s=grid,
        cpu_s=grid,
        work=np.full(10, np.nan),
    )


@pytest.mark.parametrize(
    ("max_series", "steps", "phases", "hidden"),
    [(150, 30, 120, 0), (120, 30, 80, 40), (55, 10, 40, 100), (9, 0, 0, 150)],
)
def test_the_budget_holds(max_series: int, steps: int, phases: int, hidden: int) -> None:
    text = render(make_metrics(Watched(3), max_series=max_series)).decode()
    lines = text.splitlines()
    assert sum(line.startswith("argus_step_duration_seconds{") for line in lines) == steps
    about_phases = ("argus_phase_duration_seconds{", "argus_phase_wait_seconds{")
    assert sum(line.startswith(about_phases) for line in lines) == phases
    assert f"argus_series_hidden {hidden}.0" in lines


def test_labels_of_a_processor_are_bounded() -> None:
    counters = Counters()
    for number in range(10 * MAX_LABELS):
        counters.add("argus_collector_rejected_total", f"reason-{number}")
    assert len(counters.snapshot()) == MAX_LABELS + 1
    assert counters.get("argus_collector_rejected_total", "other") == 9 * MAX_LABELS
    assert counters.get("argus_collector_rejected_total", "reason-0") == 1


def test_scores_and_gaps_are_the_strongest_and_the_mean() -> None:
    findings = [
        Finding(
            run="r",
            attempt=0,
            window=0,
            level=level,
            detector="d",
            kind="self_time",
            role="culprit",
            ranks=ranks,
            significance=significance,
        )
        for level, ranks, significance in (
            ("L2", (1, 2), 3.0),
            ("L2", (2,), 9.0),
            ("L3", (2,), 4.0),
            ("L2", (5,), None),
        )
    ]
    assert scores_of(findings) == {(1, "L2"): 3.0, (2, "L2"): 9.0, (2, "L3"): 4.0}
    runs = Watched(1)
    runs.show(scores=scores_of(findings), host_gaps={4: 0.25})
    text = render(make_metrics(runs, max_series=1000)).decode()
    assert 'argus_straggler_score{level="L2",rank="2",run="r0",run_id="r0/0"} 9.0' in text
    assert 'argus_host_gap_ratio{rank="4",run="r0",run_id="r0/0"} 0.25' in text


def top(ident: int, name: str) -> KernelTop:
    ranks, grid = np.arange(10), np.full(10, 2e-3)
    return KernelTop(
        ident=ident,
        name=name,
        role="compute",
        ranks=ranks,
        calls=np.full(10, 40),
        p50_s=grid,
        p99_s=2 * grid,
    )


@pytest.mark.parametrize(("left", "kernels"), [(62, 2), (61, 1), (31, 1), (30, 0)])
def test_kernels_get_what_the_phases_leave(left: int, kernels: int) -> None:
    runs = Watched(1)
    runs.show(kernels=(top(7, "gemm"), top(8, 'odd"name\n')))
    lines = render(make_metrics(runs, max_series=50 + left)).decode().splitlines()
    assert sum(line.startswith("argus_kernel_duration_seconds{") for line in lines) == 20 * kernels
    assert sum(line.startswith("argus_kernel_calls_total{") for line in lines) == 10 * kernels
    assert f"argus_series_hidden {62 - 31 * kernels}.0" in lines
    infos = [line for line in lines if line.startswith("argus_kernel_info{")]
    assert len(infos) == kernels
    if kernels:
        assert infos[0] == 'argus_kernel_info{kernel_id="0000000000000007",name="gemm",role="compute"} 1.0'
        one = '{kernel_id="0000000000000007",rank="3",run="r0",run_id="r0/0"'
        assert f"argus_kernel_calls_total{one}}} 40.0" in lines
        assert f'argus_kernel_duration_seconds{one},stat="p99"}} 0.004' in lines
        assert "# TYPE argus_kernel_calls_total counter" in lines
