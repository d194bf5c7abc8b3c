"""The class rules for a slow rank, each against its look-alike."""

from __future__ import annotations

from dataclasses import replace

import pytest

from argus.analytics.classify import classify, shares_of
from argus.analytics.symptom import PhaseExcess, RankSymptom


def part(
    phase: str, self_s: float, peers_s: float, *, cpu_s: float = 0.0, on_gpu: bool = False
) -> PhaseExcess:
    """A phase whose peers compute all the time (or whose CPU time was not recorded if `cpu_s` is 0)."""
    return PhaseExcess(
        phase=phase,
        self_s=self_s,
        peers_s=peers_s,
        cpu_s=cpu_s,
        peers_cpu_s=peers_s if cpu_s else 0.0,
        on_gpu=on_gpu,
    )


def symptom(*phases: PhaseExcess, gc_s: float = 0.0, late_s: float | None = None) -> RankSymptom:
    own, peers = sum(p.self_s for p in phases), sum(p.peers_s or 0.0 for p in phases)
    return RankSymptom(
        rank=3,
        window=7,
        first_step=70,
        onset_step=70,
        signals=frozenset({"self_time", "wait"}),
        is_vote=True,
        phases=tuple(sorted(phases, key=lambda p: -p.excess_s)),
        own_s=own,
        own_peers_s=peers,
        gc_s=gc_s,
        peers_gc_s=0.0,
        late_s=own - peers if late_s is None else late_s,
        late_usual_s=0.0,
        last_share=0.9,
        sees_waits=True,
        victims=(0, 1),
        victims_wait_s=own - peers,
        group="dp/0",
        step_s=own,
        findings=("f-1",),
    )


FORWARD = part("forward", 0.2, 0.1, cpu_s=0.1)
BUSY = part("forward", 0.2, 0.1, cpu_s=0.2)


@pytest.mark.parametrize(
    ("seen", "fault_class", "phase"),
    [
        (symptom(FORWARD), "host.cpu_starved", "forward"),
        (symptom(BUSY), "compute.slow", "forward"),
        (symptom(part("forward", 0.2, 0.1, on_gpu=True)), "compute.slow", "forward"),
        (symptom(part("forward", 0.2, 0.1)), "unknown", "forward"),
        (symptom(part("data", 0.2, 0.01), FORWARD), "data.slow_loader", "data"),
        (symptom(part("data", 0.02, 0.01), FORWARD), "host.cpu_starved", "forward"),
        (symptom(BUSY, gc_s=0.09), "host.gc", "forward"),
        (symptom(FORWARD, gc_s=0.01), "host.cpu_starved", "forward"),
        (symptom(part("other", 0.3, 0.01, cpu_s=0.3), gc_s=0.28), "host.gc", "other"),
    ],
)
def test_the_rule_that_fits_names_the_class(seen: RankSymptom, fault_class: str, phase: str) -> None:
    decided = classify([seen])
    assert (decided.fault_class, decided.phase) == (fault_class, phase)
    assert decided.fault_class not in {item.fault_class for item in decided.ruled_out}


@pytest.mark.parametrize(
    ("seen", "second"),
    [
        (symptom(part("forward", 0.2, 0.1, on_gpu=True)), None),
        (symptom(BUSY), None),
        (symptom(part("data", 0.2, 0.01), FORWARD), "host.cpu_starved"),
        (symptom(part("data", 0.05, 0.01), FORWARD), "data.slow_loader"),
        (symptom(part("data", 0.015, 0.01), FORWARD), None),
        (symptom(part("forward", 0.2, 0.1)), "host.cpu_starved"),
    ],
)
def test_a_second_best_holds_some_of_the_lost_time(seen: RankSymptom, second: str | None) -> None:
    assert classify([seen]).second_best == second


def test_lateness_without_own_work_stays_unknown() -> None:
    decided = classify([symptom(part("forward", 0.101, 0.1, cpu_s=0.1), late_s=0.2)])
    assert decided.fault_class == "unknown" and not decided.is_clear and decided.ruled_out == ()


def test_a_close_call_is_not_clear() -> None:
    close = symptom(part("forward", 0.2, 0.1, cpu_s=0.145))
    assert classify([close]).fault_class == "host.cpu_starved" and not classify([close]).is_clear
    assert classify([symptom(FORWARD)]).is_clear


def test_windows_are_weighed_together() -> None:
    """One window in which collections hide the cause does not turn the class of three."""
    quiet = symptom(FORWARD)
    mixed = [quiet, quiet, symptom(FORWARD, gc_s=0.09)]
    assert classify(mixed).fault_class == "host.cpu_starved"
    assert shares_of(mixed).gc == pytest.approx(0.3)


def test_faster_phases_do_not_count_against_slower_ones() -> None:
    faster = replace(FORWARD, phase="optimizer", self_s=0.01, peers_s=0.05)
    assert shares_of([symptom(FORWARD, faster)]).excess_s == pytest.approx(0.1)
