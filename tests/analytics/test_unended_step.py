"""A step that never ended, in what a run lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from argus.analytics.incident import Incident
from argus.analytics.lost_hours import UNENDED, Attempt, LostHours, lost_hours, open_s
from argus.collectors.records.heartbeat import Status
from tests.analytics.test_lost_hours import QUIET, WORLD, incident

S = 1_000_000_000
LAST = Status(ts_ns=700 * S, step=40, phase="forward", step_since_ns=100 * S, step_p50_ns=10 * S)


def report(*incidents: Incident, opened_s: float) -> LostHours:
    attempt = Attempt(
        windows=QUIET,
        incidents=incidents,
        world_size=WORLD,
        open_s=opened_s,
    )
    found = lost_hours("r", [attempt])
    assert found is not None
    return found


def test_it_is_open_from_the_last_steps_end_to_the_last_sign_of_life_of_any_rank() -> None:
    early = replace(LAST, ts_ns=150 * S, step_since_ns=90 * S)
    assert open_s([LAST, early]) == 600.0
    assert open_s([LAST, early], last_end_ns=300 * S) == 400.0


@pytest.mark.parametrize(
    "statuses",
    [
        [],
        [replace(LAST, ts_ns=190 * S)],
        [replace(LAST, step_p50_ns=0)],
        [LAST, replace(LAST, in_mark="checkpoint")],
        [replace(LAST, phase="eval")],
        [replace(LAST, step_since_ns=0)],
        [replace(LAST, step_p50_ns=S // 100, ts_ns=104 * S)],
    ],
)
def test_steps_under_way_first_steps_and_pauses_are_no_loss(statuses: list[Status]) -> None:
    assert open_s(statuses) == 0.0


def test_it_is_lost_as_a_whole_and_said_as_such() -> None:
    found = report(opened_s=3600.0)
    assert found.by_class[UNENDED].hours == pytest.approx(WORLD) == found.lost.hours
    assert found.gpu_hours == pytest.approx(8.0 + WORLD)


def test_what_a_hang_already_tells_is_not_counted_twice() -> None:
    hang = incident("stop.hang", first=80, last=None, hours=WORLD * 0.75)
    found = report(hang, opened_s=3600.0)
    assert found.lost.hours == pytest.approx(WORLD) and found.by_class[UNENDED].hours == pytest.approx(
        WORLD * 0.25
    )
    earlier = replace(hang, onset_step=20)
    assert report(earlier, opened_s=3600.0).lost.hours == pytest.approx(WORLD * 1.75)
    assert UNENDED not in report(hang, opened_s=1800.0).by_class
