"""A service that is started again remembers of a job's long past what it knew, without reading all of it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import event, insert, update

from argus.analytics.eras import FOLD, KEPT, LEVELS, Eras
from argus.analytics.numbers import WindowNumbers
from argus.analytics.store.incidents import save_incident
from argus.analytics.store.queries import Which
from argus.analytics.store.tables import WINDOWS
from argus.api.charts.steps import steps_chart
from argus.api.cli.serve import product_analyses
from argus.api.long_ago import eras_before
from argus.api.service import Service
from argus.collectors.records.errors import WireError
from tests.analytics.test_outcome import OVER
from tests.api.kit import FakeClock, service_at
from tests.api.test_outcomes import begin


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with service_at(tmp_path / "argus.sqlite", clock=FakeClock()) as service:
        yield service


def packed(step_s: float) -> bytes:
    """The numbers of a window of two ranks."""
    row = np.array([[step_s / 2, step_s / 2], [step_s / 4, step_s / 4]])
    return WindowNumbers(
        ranks=np.arange(2),
        phases=("forward", "grad_sync"),
        clocks=("gpu", "gpu"),
        step_s=np.full(2, step_s),
        phase_s=row,
        wait_s=np.array([[0.0, 0.0], [step_s / 8, step_s / 8]]),
        cpu_s=row,
        job_step_s=np.full(10, step_s),
        work=np.full(2, np.nan),
        amount=("tokens", 64.0),
    ).to_bytes()


def filled(service: Service, num: int) -> int:
    """An attempt with so many analysed windows, each a little longer than the one before."""
    attempt_id = begin(service, 0)
    rows = [
        {
            "attempt_id": attempt_id,
            "window": index,
            "status": "analysed",
            "first_step": 10 * index,
            "num_steps": 10,
            "opened_s": 1.0,
            "analysed_s": 2.0,
            "numbers": packed(2.0 + index / 1000),
        }
        for index in range(num)
    ]
    with service.store.write() as connection:
        connection.execute(insert(WINDOWS), rows)
    return attempt_id


def before(service: Service, attempt_id: int, window: int) -> Eras:
    with service.store.read() as connection:
        return eras_before(connection, attempt_id, window)


def test_the_long_past_is_read_back(service: Service) -> None:
    attempt_id = filled(service, 200)
    eras = before(service, attempt_id, 140)
    usual = 140 - 2  # start-up
    assert (eras.counts, eras.taken) == ((usual, usual // FOLD, usual // FOLD**2, 0, 0), 139)
    hours = eras.levels[1]
    assert len(hours) == usual // FOLD and all(one.num_steps == 10 * FOLD for one in hours)
    (one,) = (one for one in hours if one.first_step == 10 * (2 + FOLD // 2))
    step_s = 2.0 + (2 + FOLD // 2) / 1000
    assert one.amount == ("tokens", 64.0) and one.typical_step_s == pytest.approx(step_s)
    assert one.phases == ("forward", "grad_sync")
    assert one.self_s[:, 0] == pytest.approx([step_s / 2, step_s / 8]) and one.own_s == pytest.approx(
        [step_s * 7 / 8]
    )


def test_of_many_windows_few_are_read(service: Service) -> None:
    attempt_id = filled(service, 3000)
    read: list[int] = []

    def count(*told: object) -> None:
        parameters = told[3]
        if "windows.numbers" in str(told[2]) and " IN (" in str(told[2]):
            read.append(len(parameters) if isinstance(parameters, tuple) else 0)

    event.listen(service.store.engine, "before_cursor_execute", count)
    eras = before(service, attempt_id, 3000)
    event.remove(service.store.engine, "before_cursor_execute", count)
    assert [len(level) for level in eras.levels] == [FOLD, KEPT, 2998 // FOLD**2, 2998 // FOLD**3, 0]
    assert read and sum(read) <= (LEVELS + 1) * KEPT + 2 * len(read)


def test_what_an_incident_was_about_is_no_part_of_it(service: Service) -> None:
    attempt_id = filled(service, 100)
    with service.store.write() as connection:
        save_incident(connection, attempt_id, OVER, now_s=1.0)
    told = sum(OVER.opened_window - 3 < index <= OVER.last_window for index in range(2, 100))
    assert told > 0 and before(service, attempt_id, 100).counts[0] == 98 - told


def test_numbers_that_cannot_be_read_are_left_out(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    attempt_id = filled(service, 40)
    with service.store.write() as connection:
        where = (WINDOWS.c.attempt_id == attempt_id, WINDOWS.c.window == 2 + FOLD // 2)
        connection.execute(update(WINDOWS).where(*where).values(numbers=b"damaged"))
    with caplog.at_level(logging.WARNING):
        eras = before(service, attempt_id, 40)
    assert len(eras.levels[1]) == 38 // FOLD - 1 and eras.counts[1] == 38 // FOLD
    assert "the numbers of step 60 cannot be read" in caplog.text


def test_nothing_was_before_the_first_window(service: Service) -> None:
    assert before(service, filled(service, 20), 0).counts == Eras().counts


def test_the_products_course_keeps_its_long_past_when_incidents_are_put_back() -> None:
    known = Eras(counts=(9, 1, 0, 0, 0), taken=8)
    course = product_analyses().begin("r", 0).restored([], eras=known)
    assert course.restored([], ()) == course.restored([], (), known)
    assert course.restored([]).state.eras == known  # type: ignore[attr-defined]


@pytest.mark.parametrize(("since_step", "apart"), [(None, 1), (29_500, 1), (29_000, 2), (5_000, 27), (0, 32)])
def test_the_chart_of_steps_reaches_back_to_before_an_onset(
    service: Service, since_step: int | None, apart: int
) -> None:
    attempt_id = filled(service, 3000)
    which = Which(id=attempt_id, run="r", attempt=0)
    with service.store.read() as connection:
        chart = steps_chart(connection, which, ranks=(0,), limit=120, upto=None, since_step=since_step)
    windows = chart["window"]
    assert 90 <= len(windows) <= 120 and windows[-1] == 2999
    assert set(np.diff(windows).tolist()) == {apart}
    assert since_step is None or chart["first_step"][0] <= max(since_step, 10 * apart)
    assert chart["job_s"][-1] == pytest.approx(2.0 + 2999 / 1000) and len(chart["ranks"]["0"]) == len(windows)


def test_a_chart_of_steps_that_never_came_is_one_of_the_last(service: Service) -> None:
    which = Which(id=filled(service, 30), run="r", attempt=0)
    with service.store.read() as connection:
        chart = steps_chart(connection, which, ranks=(), limit=10, upto=None, since_step=10**9)
    assert chart["window"] == list(range(20, 30))


@pytest.mark.parametrize("lacks", ["phases", "clocks", "ranks", "step_s", "phase_s"])
def test_numbers_without_a_part_are_refused_as_such(lacks: str) -> None:
    """A flipped bit in a name passes for another one: what reads the row has one error to expect."""
    whole = packed(2.0)
    assert WindowNumbers.from_bytes(whole).amount == ("tokens", 64.0)
    with pytest.raises(WireError, match="no numbers of a window"):
        WindowNumbers.from_bytes(whole.replace(f'"{lacks}"'.encode(), f'"{"x" * len(lacks)}"'.encode(), 1))
