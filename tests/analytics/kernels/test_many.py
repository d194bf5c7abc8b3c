"""Many devices slow from one cause are one incident that names them all, and hide nobody else."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from argus.analytics.attempt import AttemptState
from argus.analytics.incident import Cause, Incident
from argus.analytics.lifecycle import NAMED_BETTER, open_incident
from argus.analytics.window import Window
from tests.analytics.kernels.jobs import Durations, advances

pytestmark = pytest.mark.slow

RANKS = 64
ONSET = 20

Slow = Callable[[int, str, int], float]
"""(rank, kernel, first step of the window) to slowdown."""


def after(
    slow: Slow, *, steps: int = 70, seed: int = 7, known: Mapping[int, Incident] | None = None
) -> AttemptState:
    """The job at its end; no window may have more findings than kernels allow."""

    def trouble(
        rng: np.random.Generator, rank: int, kernel: str, window: Window, well: Durations
    ) -> Durations:
        return well * (slow(rank, kernel, window.first_step) if not kernel.startswith("nccl") else 1.0)

    for step in advances(trouble, ranks=RANKS, steps=steps, seed=seed, known=known):
        assert len([finding for finding in step.findings if finding.level == "L3"]) <= 16
    return step.state


def throttled(*ranks: int, by: float = 1.15, since: int = ONSET) -> Slow:
    return lambda rank, kernel, step: by if rank in ranks and step >= since else 1.0


def both(one: Slow, other: Slow) -> Slow:
    return lambda rank, kernel, step: one(rank, kernel, step) * other(rank, kernel, step)


def suspects(incidents: tuple[Incident, ...]) -> list[tuple[int, ...]]:
    return sorted(incident.cause.suspects for incident in incidents if incident.status == "open")


@pytest.mark.parametrize(
    "sick", [tuple(range(32, 64)), tuple(range(0, 64, 2)), tuple(range(40, 64))], ids=["half", "even", "rack"]
)
def test_devices_of_several_hosts_that_turn_slow_together_are_one_incident(sick: tuple[int, ...]) -> None:
    (incident,) = after(throttled(*sick)).incidents
    assert incident.cause.fault_class == "compute.slow" and incident.status == "open"
    assert incident.cause.suspects == sick
    assert incident.opened_window - ONSET // 10 <= 2


def test_one_host_and_few_devices_stay_what_they_are() -> None:
    (host,) = after(throttled(*range(8, 16))).incidents
    assert host.cause.scope == "host:h-0001" and host.cause.suspects == tuple(range(8, 16))
    assert suspects(after(throttled(3, 17, 44)).incidents) == [(3,), (17,), (44,)]


def test_another_fault_beside_many_devices_is_named() -> None:
    def memory(rank: int, kernel: str, step: int) -> float:
        is_hit = rank == 3 and kernel in ("layer_norm", "add_elementwise") and step >= ONSET
        return 1.15 if is_hit else 1.0

    state = after(both(throttled(*range(40, 64), by=1.2), memory))
    assert suspects(state.incidents) == [(3,), tuple(range(40, 64))]


def test_a_much_slower_device_beside_many_is_its_own() -> None:
    state = after(both(throttled(*range(54, 64), by=1.1), throttled(5, by=1.5)))
    assert suspects(state.incidents) == [(5,), tuple(range(54, 64))]


def test_two_sets_of_devices_are_one_incident_and_a_set_of_another_class_is_its_own() -> None:
    state = after(both(throttled(*range(56, 61), 50, by=1.08), throttled(0, 9, 17, 25, by=1.4)))
    assert suspects(state.incidents) == [(0, 9, 17, 25, 50, *range(56, 61))]

    def memory(rank: int, kernel: str, step: int) -> float:
        return 1.2 if rank in (0, 9, 17, 25) and kernel == "layer_norm" and step >= ONSET else 1.0

    state = after(both(throttled(*range(56, 61), 50, by=1.1), memory))
    assert suspects(state.incidents) == [(0, 9, 17, 25), (50, *range(56, 61))]
    assert len({incident.id for incident in state.incidents}) == 2


@pytest.mark.parametrize(("lost_s", "is_explained"), [(0.05, True), (5.0, False)])
def test_many_devices_are_why_all_ranks_are_slower_if_they_cost_enough(
    lost_s: float, is_explained: bool
) -> None:
    cause = Cause(
        fault_class="step.slower", verdict="LIKELY", suspects=(), scope="run:train", s_per_step=lost_s
    )
    slower = open_incident(cause, run="train", attempt=0, window=2, steps_done=29, world=RANKS)
    state = after(throttled(*range(32, 64)), steps=40, known={3: slower})
    first, second = state.incidents
    assert (first.ended == NAMED_BETTER) is is_explained and first.cause.suspects == ()
    assert second.cause.fault_class == "compute.slow" and second.cause.suspects == tuple(range(32, 64))


def test_devices_that_join_are_added() -> None:
    slow = both(throttled(40, 41, 48, 49), throttled(*range(50, 56), since=ONSET + 20))
    state = after(slow)
    assert suspects(state.incidents) == [(40, 41, 48, 49, *range(50, 56))]
    host_first = both(throttled(*range(40, 48)), throttled(*range(48, 64), since=ONSET + 10))
    assert suspects(after(host_first).incidents) == [tuple(range(40, 64))]


def test_the_young_incident_of_one_of_them_goes_on_in_theirs() -> None:
    cause = Cause(fault_class="compute.slow", verdict="LIKELY", suspects=(5,), scope="rank:5", onset_step=40)
    alone = open_incident(cause, run="train", attempt=0, window=4, steps_done=49, world=RANKS)
    slow = both(throttled(*range(54, 64)), throttled(5, since=ONSET + 20))
    first, second = after(slow, steps=60, known={5: alone}).incidents
    assert first.status == "open" and first.cause.suspects == (5, *range(54, 64))
    assert second.cause.suspects == (5,) and second.ended == NAMED_BETTER


def test_a_device_accused_long_before_keeps_its_own_incident() -> None:
    slow = both(throttled(5), throttled(*range(40, 64), since=ONSET + 50))
    state = after(slow, steps=100)
    assert suspects(state.incidents) == [(5,), tuple(range(40, 64))]
    assert all(incident.status == "open" for incident in state.incidents)


def test_healthy_jobs_open_nothing() -> None:
    for seed in (1, 2, 3):
        assert after(lambda rank, kernel, step: 1.0, seed=seed).incidents == ()
