"""The lines that say why: every class has some, in the order of what speaks most for it."""

from __future__ import annotations

import numpy as np
import pytest

from argus.agent.card import render
from argus.agent.claims import FORMS
from argus.agent.triage import diagnose
from argus.agent.why import reasons, step_of
from argus.analytics.finding import Evidence
from argus.analytics.incident import Cause
from argus.evals.play import Played, play
from argus.evals.restart import facts_before
from argus.evals.score import Trial
from argus.evals.simulator.simulate import simulate
from argus.evals.suites import entropy, made


def seen(
    name: str, value: float, baseline: float | None = None, *, note: str = "", unit: str = "s"
) -> Evidence:
    return Evidence(name=name, value=value, unit=unit, baseline=baseline, note=note)


def cause(
    fault_class: str, *evidence: Evidence, scope: str = "run:r", suspects: tuple[int, ...] = ()
) -> Cause:
    return Cause(
        fault_class=fault_class,
        verdict="LIKELY",
        suspects=suspects,
        scope=scope,
        evidence=evidence,
        share_of_step=0.1,
        s_per_step=0.1,
        onset_step=5,
    )


PAUSES = (seen("pauses", 43.0), seen("paused_ranks", 16.0), seen("longest_pause_s", 1.2))
CHANGES = tuple(seen("changed", 1.0, note=f"image {n} → {n + 1}") for n in range(5))


@pytest.mark.parametrize(
    ("told", "lines"),
    [
        (
            cause("host.gc", seen("pauses", 43.0, note="gc"), *PAUSES[1:], scope="rank:6", suspects=(6,)),
            ["garbage collection held up 43 steps, for up to 1.2 s"],
        ),
        (
            cause("host.jit", seen("pauses", 1.0, note="compile"), *PAUSES[1:]),
            ["compilation held up 1 step on 16 ranks, for up to 1.2 s"],
        ),
        (
            cause(
                "host.filesystem",
                seen("save_s", 6.6, 2.2),
                seen("late_saves", 5.0),
                scope="rank:7",
                suspects=(7,),
            ),
            ["a save 6.6 s vs peers 2.2 s (3.0×)", "the last to end 5 saves in a row"],
        ),
        (
            cause("run.changed", seen("step_s", 2.2, 1.1), *CHANGES[:1]),
            ["a step takes 2.2 s after 1.1 s (2.0×)", "changed since the attempt before: image 0 → 1"],
        ),
        (
            cause("run.changed", *CHANGES),
            ["changed since the attempt before: image 0 → 1; image 1 → 2; image 2 → 3; and 2 more"],
        ),
        (
            cause(
                "step.slower", seen("step_s", 1.2, 1.0), seen("own_s", 0.9, 0.6), seen("step_now_s", 3.3, 1.1)
            ),
            [
                "a step takes 3.3 s after 1.1 s (3.0×)",
                "own work of the median rank 900 ms after 600 ms (1.5×) a step",
            ],
        ),
        (
            cause(
                "imbalance.experts",
                seen("explained", 0.93, unit=""),
                seen("lost_by_unit_s", 0.4, note="expert_tokens"),
            ),
            [
                "the work they had explains 93 % of what makes their times differ",
                "400 ms a step follow expert_tokens",
            ],
        ),
        (
            cause("pipeline.imbalance", seen("stage_compute_s", 0.4, 0.2), scope="stage:3"),
            ["computing 400 ms against the other stages' 200 ms (2.0×) a step"],
        ),
        (
            cause("compute.slow", seen("own_past_s", 0.9, 0.6), seen("slow_ranks", 10.0), suspects=(0, 1)),
            ["their own work 900 ms after 600 ms (1.5×) a step", "10 ranks became slow together"],
        ),
        (
            cause(
                "compute.slow",
                seen("kernel_ratio", 1.7, note="k" * 90),
                seen("kernel_lost_s", 0.1, note="GEMM only"),
            ),
            [f"kernel {'k' * 43}… takes 1.7× its peers' time; slower: GEMM only"],
        ),
        (
            cause(
                "host.cpu_starved",
                seen("throttled_ratio", 0.27, 0.0, unit="ratio"),
                seen("thread_run_delay_ratio", 0.001),
            ),
            ["its cgroup's CPU quota was used up for 27 % of the time, the other ranks' for 0 %"],
        ),
        (cause("host.allocator", seen("alloc_retries", 18.0)), ["it had to retry 18 allocations"]),
    ],
    ids=lambda told: told.fault_class if isinstance(told, Cause) else "",
)
def test_the_evidence_is_said_in_short_lines(told: Cause, lines: list[str]) -> None:
    assert list(reasons(told)) == lines


def test_a_step_is_told_as_it_was_last_seen() -> None:
    old, new = seen("step_s", 1.2, 1.0), seen("step_now_s", 3.3, 1.1)
    assert step_of(cause("step.slower", old)) == old and step_of(cause("step.slower", old, new)) == new


def played(name: str) -> Played:
    trial = Trial(scenario=name, seed=3, ranks=8, severity=1.5)
    one = made(trial)
    done = simulate(one.job, one.faults, rng=np.random.default_rng(entropy(trial)))
    return play(done, events=one.events, before=facts_before(one, entropy=entropy(trial)))


@pytest.mark.parametrize("name", ["changed_code", "gc_pause", "late_save", "long_sequences", "slow_storage"])
def test_what_the_analysis_finds_has_words_and_stands_on_the_card(name: str) -> None:
    """Causes that no rank's own time speaks for: their cards once said nothing of why."""
    found = played(name)
    assert found.incidents
    for incident in found.incidents:
        assert {item.name for item in incident.cause.evidence} <= set(FORMS)
        diagnosis = diagnose(incident, findings=found.findings, topology=found.topology)
        card = render(incident, diagnosis, topology=found.topology)
        assert next(reasons(incident.cause))[:40] in card and "\n Next " in card
