"""Lost GPU-hours: all of the excess is told once, to whom it belongs, and no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.agent.forward import paragraph
from argus.analytics.cost import NONE
from argus.analytics.incident import Cause, Incident
from argus.analytics.inefficiency import BOUND, NAMES, gains_of
from argus.analytics.lost_hours import Attempt, Hours, LostHours, lost_hours
from argus.analytics.numbers import WindowNumbers

WORLD = 36
BASE_S = 10.0  # a step of all ranks is a tenth of a GPU-hour


def numbers(
    *steps_s: float,
    phases: dict[str, tuple[float, float]] | None = None,
    work: list[float] | None = None,
    told: dict[str, float] | None = None,
) -> WindowNumbers:
    names = tuple(phases or {"forward": (BASE_S, 0.0)})
    rows = list((phases or {"forward": (BASE_S, 0.0)}).values())
    return WindowNumbers(
        ranks=np.arange(4),
        phases=names,
        clocks=("gpu",) * len(names),
        step_s=np.full(4, float(np.mean(steps_s)) if steps_s else np.nan),
        phase_s=np.array([[dur] * 4 for dur, _ in rows]),
        wait_s=np.array([[wait] * 4 for _, wait in rows]),
        cpu_s=np.zeros((len(names), 4)),
        job_step_s=np.array(steps_s),
        work=np.array(work or [np.nan] * 4),
        told=told or {},
    )


def window(index: int, *steps_s: float) -> Hours:
    return Hours(first_step=10 * index, num_steps=10, job_step_s=np.array(steps_s))


def incident(
    fault_class: str = "compute.slow",
    *,
    first: int,
    last: int | None,
    cost_s: float = 2.0,
    hours: float = 0.0,
) -> Incident:
    cause = Cause(fault_class=fault_class, verdict="LIKELY", suspects=(1,), scope="rank:1")
    return Incident(
        run="r",
        attempt=0,
        status="open",
        severity="warning",
        cause=cause,
        onset_step=first,
        end_step=last,
        opened_window=0,
        last_window=0,
        cost=replace(NONE, s_per_step=cost_s, gpu_hours_so_far=hours),
    )


def report(windows: list[Hours], *incidents: Incident) -> LostHours:
    found = lost_hours("r", [Attempt(windows=windows, incidents=incidents, world_size=WORLD)])
    assert found is not None
    return found


QUIET = [window(i, *[BASE_S] * 10) for i in range(8)]


def test_a_quiet_run_loses_nothing() -> None:
    found = report(QUIET)
    assert found.gpu_hours == pytest.approx(8.0) and found.baseline_s == BASE_S
    assert (found.lost.hours, found.lost.far_hours, found.by_class) == (0.0, 0.0, {})


def test_the_excess_belongs_to_the_incident_that_was_open() -> None:
    found = report([*QUIET, window(8, *[12.0] * 10)], incident(first=80, last=89))
    assert found.by_class["compute.slow"].hours == pytest.approx(0.2) == found.lost.hours
    assert found.lost.far_hours == 0.0 and found.unexplained.hours == pytest.approx(0.0, abs=1e-9)


def test_steps_of_twice_the_baseline_are_told_apart() -> None:
    found = report([*QUIET, window(8, *[BASE_S] * 9, 25.0)])
    assert found.num_far_steps == 1 and found.lost.far_hours == pytest.approx(0.15)
    assert found.unexplained.far_hours == pytest.approx(0.15) and found.by_class == {}


def test_two_incidents_share_what_was_lost_by_what_they_cost() -> None:
    both = (incident(first=80, last=None, cost_s=3.0), incident("link.slow", first=80, last=None, cost_s=1.0))
    found = report([*QUIET, window(8, *[14.0] * 10)], *both)
    assert found.by_class["compute.slow"].hours == pytest.approx(0.3)
    assert found.by_class["link.slow"].hours == pytest.approx(0.1)
    assert sum(loss.hours for loss in found.by_class.values()) == pytest.approx(found.lost.hours)


def test_a_small_incident_does_not_take_what_is_not_its_own() -> None:
    found = report([*QUIET, window(8, *[20.0] * 10)], incident(first=80, last=None, cost_s=1.0))
    assert found.by_class["compute.slow"].hours == pytest.approx(0.1)
    assert found.unexplained.hours == pytest.approx(0.9)


def test_time_at_a_standstill_counts_as_lost() -> None:
    found = report(QUIET, incident("stop.hang", first=70, last=None, hours=4.0))
    assert found.by_class["stop.hang"].hours == 4.0 == found.lost.hours
    assert found.gpu_hours == pytest.approx(12.0) and found.lost.share == pytest.approx(1 / 3)


def test_windows_that_stand_for_others_count_for_them() -> None:
    half = [replace(one, weight=2.0) for one in QUIET[::2]]
    assert report(half).gpu_hours == pytest.approx(report(QUIET).gpu_hours)


def test_without_a_quiet_window_the_quickest_steps_or_those_without_the_costs_are_the_baseline() -> None:
    found = report([window(0, *[10.0] * 5, *[15.0] * 5)], incident(first=0, last=None, cost_s=3.0))
    assert found.baseline_s == pytest.approx(9.5) and "a healthy window" in found.lacks[0]
    cheap = report([window(0, *[10.0] * 5, *[15.0] * 5)], incident(first=0, last=None, cost_s=0.5))
    assert cheap.baseline_s == 10.0
    dear = report([window(0, *[10.0] * 10)], incident(first=0, last=None, cost_s=50.0))
    assert dear.baseline_s == pytest.approx(1.0)
    assert (
        lost_hours("r", []) is None
        and lost_hours("r", [Attempt(windows=(), incidents=(), world_size=4)]) is None
    )


def test_each_attempt_has_a_baseline_of_its_own() -> None:
    slower = [window(i, *[2 * BASE_S] * 10) for i in range(8)]
    attempts = [Attempt(windows=part, incidents=(), world_size=WORLD) for part in (QUIET, slower)]
    found = lost_hours("r", attempts)
    assert found is not None and found.lost.hours == 0.0 and found.baseline_s == pytest.approx(15.0)


def shares(*some: WindowNumbers) -> tuple[dict[str, float], tuple[str, ...]]:
    gains, lacks = gains_of(some, world_size=WORLD)
    assert all(gain.method == BOUND for gain in gains)
    return {gain.name: round(gain.share, 4) for gain in gains}, lacks


def test_what_every_step_pays_is_told_with_what_is_lacking() -> None:
    phases = {"forward": (5.0, 1.0), "grad_sync": (2.0, 2.0), "pp_recv": (1.0, 1.0), "ep_comm": (0.5, 0.4)}
    one = numbers(
        10.0, 10.0, phases=phases, work=[1.0, 1.0, 1.0, 3.0], told={"compile_s": 0.5, "compiles": 4.0}
    )
    found, lacks = shares(one)
    assert found == {
        "exposed communication": 0.35,
        "pipeline bubbles": 0.1,
        "expert imbalance": 0.04,
        "length imbalance": 0.4,
        "recompiles": 0.05,
    }
    assert lacks == ("host gaps", "garbage collection")
    gains, _ = gains_of([one], world_size=WORLD)
    assert gains[0].gpu_hours_per_day == pytest.approx(0.35 * 24 * WORLD)


def test_of_nothing_everything_is_lacking() -> None:
    assert gains_of([], world_size=1) == ((), NAMES)
    assert gains_of([numbers()], world_size=1) == ((), NAMES)


def test_the_paragraph_says_the_share_the_cause_and_no_control_characters() -> None:
    found = replace(
        report([*QUIET, window(8, *[12.0] * 10)], incident(first=80, last=89)),
        run="evil\x1b[2J",
        lacks=("host gaps",),
    )
    text = paragraph(found)
    assert "compute.slow" in text and "2.2 %" in text and "host gaps" in text and "\x1b" not in text


def test_an_incident_of_all_windows_is_what_they_lost() -> None:
    found = report([window(i, *[14.0] * 10) for i in range(8)], incident(first=0, last=None, cost_s=4.0))
    assert found.baseline_s == pytest.approx(10.0)
    assert found.lost.share == pytest.approx(4 / 14) == found.by_class["compute.slow"].share
