"""The history of GPUs over runs: rolled up once, added up, drift told once a day, offenders remembered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import func, insert, select
from starlette.testclient import TestClient

from argus.analytics.history import DAY_S, Rolling, UnitDays, day_of, kernel_days
from argus.analytics.numbers import WindowNumbers
from argus.analytics.store import history, queries
from argus.analytics.store.engine import Store
from argus.analytics.store.history import Rolled
from argus.analytics.store.history_tables import BOUTS, UNIT_DAYS
from argus.analytics.store.tables import ATTEMPTS
from argus.api.cli.serve import product_analyses
from argus.api.http.app import make_app
from argus.api.service import Service
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.evals.truth import Scenario, Truth
from argus.topology.layout import Topology, build
from tests.analytics.test_attempt import windows
from tests.api.kit import FakeClock, layouts_body, make_layout, make_window, new_service, new_store, upload
from tests.api.served import live
from tests.api.test_path import live_through

DAY = 20_000
TOPOLOGY = build([replace(make_layout(rank), device=f"GPU-{rank}") for rank in range(4)])


def numbers(forward_s: list[float], *, work: list[float] | None = None, wait_s: float = 0.0) -> WindowNumbers:
    one = np.array([forward_s])
    return WindowNumbers(
        ranks=np.arange(4),
        phases=("forward",),
        clocks=("gpu",),
        step_s=one[0],
        phase_s=one + wait_s,
        wait_s=np.full((1, 4), wait_s),
        cpu_s=np.zeros((1, 4)),
        job_step_s=np.ones(3),
        work=np.array(work or [np.nan] * 4),
    )


def days_of(topology: Topology, windows: list[tuple[float, WindowNumbers]]) -> UnitDays:
    rolling = Rolling(topology=topology)
    for time_s, one in windows:
        rolling.add(one, time_s=time_s)
    return rolling.rows()


def ratios(days: UnitDays, subject: str = "phase:forward") -> list[float]:
    at = days.subjects.index(subject)
    here = days.subject == at
    return [round(float(value), 2) for value in np.exp(days.sum_log[here] / days.num[here])]


def test_own_time_is_compared_with_ranks_of_the_same_work() -> None:
    days = days_of(TOPOLOGY, [(DAY * DAY_S + 5.0, numbers([1.0, 1.0, 1.3, 1.0], wait_s=0.4))])
    assert ratios(days) == [1.0, 1.0, 1.3, 1.0] == ratios(days, "own")
    assert set(days.day.tolist()) == {DAY} and days.units[2] == ("h-1", "GPU-2")


def test_a_rank_with_more_work_is_not_slower() -> None:
    work = [100.0, 100.0, 130.0, 100.0]
    assert ratios(days_of(TOPOLOGY, [(0.0, numbers([1.0, 1.0, 1.3, 1.0], work=work))])) == [1.0] * 4
    untold = [100.0, np.nan, 130.0, 100.0]
    assert ratios(days_of(TOPOLOGY, [(0.0, numbers([1.0, 1.0, 1.3, 1.0], work=untold))]))[2] == 1.3


def test_one_terrible_window_does_not_make_a_day_and_missing_ranks_have_none() -> None:
    windows = [(float(i), numbers([1.0, 1.0, 1.0, 1.0])) for i in range(99)]
    days = days_of(TOPOLOGY, [*windows, (99.0, numbers([1.0, 1.0, 1000.0, np.nan]))])
    assert ratios(days)[2] == pytest.approx(1.01) and days.num.tolist() == [100, 100, 100, 99] * 2
    assert len(days_of(TOPOLOGY, [])) == 0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(DAY * DAY_S + 1000.0)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = new_store(tmp_path / "a.sqlite")
    yield store
    store.close()


def days_in(store: Store) -> int:
    with store.read() as connection:
        return int(connection.execute(select(func.coalesce(func.sum(UNIT_DAYS.c.num), 0))).scalar_one())


def send(service: Service, clock: FakeClock, windows: range) -> None:
    for window in windows:
        service.receive_windows(upload(*(make_window(rank, window) for rank in range(4))))
        clock.now_s += 1.0
        while service.worker.turn(clock.now_s):
            pass


def test_each_window_is_added_once_across_restarts(store: Store, clock: FakeClock) -> None:
    service = new_service(store, clock=clock)
    service.receive_layouts(layouts_body())
    send(service, clock, range(5))
    clock.now_s += 3601.0
    service.worker.turn(clock.now_s)
    had = days_in(store)
    assert had == 5 * 4 * 2  # windows, ranks, forward and own
    again = new_service(store, clock=clock)
    for _ in range(3):
        clock.now_s += 3601.0
        again.worker.turn(clock.now_s)
    assert days_in(store) == had
    send(again, clock, range(5, 7))
    clock.now_s += 3601.0
    again.worker.turn(clock.now_s)
    assert days_in(store) == 7 * 4 * 2


def test_history_is_read_over_http_and_forgotten(store: Store, clock: FakeClock) -> None:
    service = new_service(store, clock=clock)
    client = TestClient(make_app(service), raise_server_exceptions=False)
    service.receive_layouts(layouts_body())
    send(service, clock, range(3))
    clock.now_s += 3601.0
    service.worker.turn(clock.now_s)
    found = client.get("/v1/history", params={"host": "h-1", "subject": "own"}).json()
    (item,) = found["items"]  # two ranks of a host without devices and places are one unit
    assert (item["device"], item["windows"], item["day"]) == ("slot:0", 6, DAY)
    assert item["ratio"] == pytest.approx(1.0)
    assert client.get("/v1/history", params={"days": 0}).status_code == 422
    clock.now_s += service.settings.keep_history_s + DAY_S
    while service.worker.turn(clock.now_s):
        pass  # a part of what is too old each turn
    assert days_in(store) == 0


def add_drift(store: Store, topology_units: list[tuple[str, str]], *, attempt_id: int, slope: float) -> None:
    rng = np.random.default_rng(1)
    units = tuple(topology_units)
    parts = []
    for back in range(24, 0, -1):
        logs = rng.normal(0, 0.001, len(units)) + np.where(
            np.arange(len(units)) == 1, slope * (24 - back), 0.0
        )
        size = len(units)
        parts.append(
            UnitDays(
                units=units,
                subjects=("phase:forward",),
                unit=np.arange(size),
                subject=np.zeros(size, np.int64),
                day=np.full(size, DAY - back),
                num=np.full(size, 100),
                sum_log=100 * logs,
            )
        )
    with store.write() as connection:
        history.add_days(connection, attempt_id, parts, mark=Rolled())


def test_a_drifting_gpu_is_told_once_a_day_and_opens_no_incident(store: Store, clock: FakeClock) -> None:
    service = new_service(store, clock=clock)
    body = [replace(make_layout(rank, world=16), device=f"GPU-{rank}") for rank in range(16)]
    from argus.analytics.store.documents import dump

    service.receive_layouts(dump({"layouts": [item.to_json() for item in body]}).encode())
    add_drift(store, [(f"h-{r // 2}", f"GPU-{r}") for r in range(16)], attempt_id=1, slope=0.005)
    for _ in range(3):
        clock.now_s += 3601.0
        service.worker.turn(clock.now_s)
    with store.read() as connection:
        found = queries.findings(connection, attempt_id=1, window=None, level=None, limit=10, offset=0)
        incidents = queries.incidents(connection, run=None, status=None, fault_class=None, limit=10, offset=0)
    assert [(item["kind"], item["role"], item["ranks"], item["phase"]) for item in found.items] == [
        ("drift", "notice", [1], "forward")
    ]
    assert found.items[0]["evidence"][0]["value"] == pytest.approx(0.005, rel=0.2)
    assert found.items[0]["nodes"][0] == "gpu:GPU-1" and incidents.total == 0


@pytest.mark.slow
def test_an_offender_is_remembered_over_runs(store: Store) -> None:
    job = Job(run="monday", ranks=8, steps=200, step_s=0.4)
    clock = FakeClock(job.start_s)
    service = new_service(store, clock=clock, analyses=product_analyses(), window_steps=10)
    fault = Fault(kind="compute", ranks=(3,), start_step=80, end_step=140, severity=1.4)
    live(service, clock, job, [fault])
    live(service, clock, replace(job, run="tuesday", start_s=job.start_s + 5000), [fault])
    client = TestClient(make_app(service), raise_server_exceptions=False)
    (item,) = client.get("/v1/history/offenders").json()["items"]
    assert (item["host"], item["runs"]) == ("h-0000", 2) and item["windows"] >= 8
    with store.read() as connection:
        assert connection.execute(select(func.count()).select_from(BOUTS)).scalar_one() == item["bouts"]
        (tuesday,) = queries.incidents(
            connection, run="tuesday", status=None, fault_class=None, limit=10, offset=0
        ).items
    evidence = {item["name"]: item["value"] for item in tuesday["diagnosis"]["evidence"]}
    assert evidence["earlier_runs"] == 1.0
    assert day_of(job.start_s) > 0


@pytest.mark.parametrize("kind", ["store", "postgres"])
def test_launches_of_a_run_again_are_no_other_runs(
    kind: str, clock: FakeClock, request: pytest.FixtureRequest
) -> None:
    store: Store = request.getfixturevalue(kind)
    service = new_service(store, clock=clock)
    for run, pid in (("job", 100), ("job", 300), ("job", 500), ("other", 100), ("other", 300)):
        clock.now_s += 20
        service.receive_layouts(layouts_body(run=run, pid=pid, began_ns=int(clock.now_s * 1e9)))
    numbers = dict.fromkeys(("rank", "first_window", "last_window", "num"), 1)
    bout = {**numbers, "host": "h-0", "device": "slot:0", "since_s": 0.0, "until_s": 1.0, "body": "{}"}
    with store.write() as connection:
        ids = connection.execute(select(ATTEMPTS.c.id)).scalars().all()
        assert len(ids) == 5
        connection.execute(insert(BOUTS), [{**bout, "attempt_id": key} for key in ids])
    with store.read() as connection:
        (item,) = history.offenders(connection, since_s=0.0, limit=9, offset=0).items
        found = [history.other_runs(connection, run, [("h-0", "slot:0")]) for run in ("job", "new")]
    assert item["runs"] == 2 and [list(one.values()) for one in found] == [[1], [2]]
    service.worker.stop()


def test_postgres_adds_days_up(postgres: Store, clock: FakeClock) -> None:
    service = new_service(postgres, clock=clock)
    service.receive_layouts(layouts_body())
    send(service, clock, range(3))
    clock.now_s += 3601.0
    service.worker.turn(clock.now_s)
    send(service, clock, range(3, 5))
    clock.now_s += 3601.0
    service.worker.turn(clock.now_s)
    assert days_in(postgres) == 5 * 4 * 2
    service.worker.stop()


@pytest.mark.slow
@pytest.mark.parametrize("restart_at", [(), (40, 70, 90)])
def test_what_comes_and_goes_is_found_whether_the_service_restarts_or_not(
    tmp_path: Path, restart_at: tuple[int, ...]
) -> None:
    faults = tuple(
        Fault(kind="compute", ranks=(3,), start_step=10 * w, end_step=10 * w + 10, severity=1.5)
        for w in (6, 12, 18, 24, 30)
    )
    scenario = Scenario(
        job=Job(ranks=8, steps=400, step_s=0.4),
        faults=faults,
        truth=Truth(fault_class="compute.slow", ranks=(3,), scope="rank:3", onset_step=60),
    )
    (incident,) = live_through(scenario, tmp_path / "b.sqlite", restart_at=restart_at).incidents
    assert (incident["class"], incident["suspects"]) == ("compute.slow", [3])
    assert "bouts" in {item["name"] for item in incident["diagnosis"]["evidence"]}


@pytest.mark.slow
def test_kernels_have_days_by_kind() -> None:
    job = Job(ranks=8, steps=40, step_s=0.4, kernels=40)
    done = simulate(job, [Fault(kind="compute", ranks=(3,), severity=1.3)], rng=np.random.default_rng(0))
    topology = build(done.layouts)
    *_, window = (w for w in windows(done, topology))
    assert window.kernels
    days = kernel_days(topology, window.kernels, names=window.kernel_names, time_s=DAY * DAY_S)
    assert days.subjects and all(subject.startswith("kernel:") for subject in days.subjects)
    logs = [
        float(days.sum_log[(days.subject == at) & (days.unit == 3)][0]) for at in range(len(days.subjects))
    ]
    assert max(logs) > 0.15 and set(days.num.tolist()) == {1}
