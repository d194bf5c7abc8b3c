"""The whole path behind the service: simulated jobs in, the product's own incidents out, restarts or not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from argus.analytics.store import queries
from argus.analytics.store.documents import dump
from argus.api.cli.serve import product_analyses
from argus.api.service import Service
from argus.evals.moments import Moment, moments
from argus.evals.scenarios import hang, healthy, lost_rank, slow_rank
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.evals.truth import Scenario
from tests.api.kit import FakeClock, beats_body, new_service, new_store, upload

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Outcome:
    """What a service that lived through a job has to tell."""

    incidents: list[queries.Json]
    cards: list[str]
    windows: dict[str, int]


def deliver(service: Service, moment: Moment, clock: FakeClock) -> None:
    clock.now_s = moment.now_s
    if moment.parts:
        assert service.receive_windows(upload(*moment.parts))["rejected"] == []
    if moment.beats:
        service.receive_heartbeats(beats_body(*moment.beats))
    while service.worker.turn(clock.now_s):
        pass


def live_through(
    scenario: Scenario, path: Path, *, restart_at: Sequence[int] = (), hears: bool = True
) -> Outcome:
    """Play the job into a service that is replaced by a new one before each moment of `restart_at`. It hears of the job
    between windows too if it `hears`."""
    done = simulate(scenario.job, scenario.faults, rng=np.random.default_rng(5))
    clock, store = FakeClock(scenario.job.start_s), new_store(path)

    def fresh() -> Service:
        return new_service(store, clock=clock, analyses=product_analyses(), window_steps=10)

    service = fresh()
    service.receive_layouts(dump({"layouts": [item.to_json() for item in done.layouts]}).encode())
    for number, moment in enumerate(one for one in moments(done) if hears or one.parts):
        if number in restart_at:
            clock.now_s = moment.now_s
            service = fresh()
        deliver(service, moment, clock)
        assert service.published.troubles_now() == ()
    outcome = tell(service)
    store.close()
    return outcome


def tell(service: Service) -> Outcome:
    with service.store.read() as connection:
        found = queries.incidents(
            connection, run=None, status=None, fault_class=None, limit=100, offset=0
        ).items
        (run,) = queries.runs(connection, limit=10, offset=0).items
        whole = [queries.whole_incident(connection, item["id"]) for item in found]
    cards = [
        service.analyses.render(item, item.diagnosis) for item in whole if item is not None and item.diagnosis
    ]
    return Outcome(incidents=found, cards=cards, windows=run["windows_by_status"])


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "a.sqlite"


def test_a_slow_rank_is_named_with_its_card(path: Path) -> None:
    scenario = slow_rank.scenario(seed=1, ranks=8)
    outcome = live_through(scenario, path)
    assert [(item["class"], tuple(item["suspects"])) for item in outcome.incidents] == [
        (scenario.truth.fault_class, scenario.truth.ranks)
    ]
    assert outcome.incidents[0]["diagnosis"]["root_causes"][0]["fault_class"] == scenario.truth.fault_class
    assert f"rank {scenario.truth.ranks[0]}" in outcome.cards[0]


def test_a_healthy_job_is_silent(path: Path) -> None:
    outcome = live_through(healthy.scenario(seed=2, ranks=8), path)
    assert outcome.incidents == [] and outcome.windows.get("failed", 0) == 0


@pytest.mark.parametrize("module", [hang, lost_rank])
def test_a_stop_is_seen_from_heartbeats(module: object, path: Path) -> None:
    scenario: Scenario = module.scenario(seed=3, ranks=8)  # type: ignore[attr-defined]
    outcome = live_through(scenario, path)
    assert [(item["class"], tuple(item["suspects"])) for item in outcome.incidents] == [
        (scenario.truth.fault_class, scenario.truth.ranks)
    ]


@pytest.mark.parametrize("restart_at", [(3, 9, 14, 21), tuple(range(2, 60, 5))])
def test_restarts_change_nothing_that_is_told(restart_at: Sequence[int], tmp_path: Path) -> None:
    scenario = slow_rank.scenario(seed=4, ranks=4)
    without = live_through(scenario, tmp_path / "a.sqlite")
    with_restarts = live_through(scenario, tmp_path / "b.sqlite", restart_at=restart_at)
    told = ("id", "class", "suspects", "status", "onset_step", "end_step", "verdict")
    assert [[item[key] for key in told] for item in with_restarts.incidents] == [
        [item[key] for key in told] for item in without.incidents
    ]
    assert with_restarts.windows == without.windows


def test_what_grew_too_slowly_for_an_hour_is_told_over_a_restart(path: Path) -> None:
    """A service that was started again holds the present against what it saw hours before."""
    job = Job(ranks=2, steps=1400, step_s=2.5, tells_work=True)
    leak = Fault(kind="slow_all", ranks=(0, 1), severity=1.062, start_step=200, grows=True)
    scenario = replace(healthy.scenario(seed=1, ranks=2), job=job, faults=(leak,))
    (told,) = live_through(scenario, path, restart_at=[105], hears=False).incidents
    assert (told["class"], told["suspects"]) == ("step.slower", [])
    assert 150 <= told["onset_step"] <= 800
