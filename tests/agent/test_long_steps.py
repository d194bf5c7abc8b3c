"""A run in which one step takes very long is not one without a fault, whoever is asked about it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from argus.agent.case import case_of
from argus.agent.held_facts import HeldRun
from argus.analytics.window import Window, assemble
from argus.collectors.host.window import cut
from argus.collectors.records.heartbeat import Heartbeat, Status
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import QUIET, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build

RANKS, NOW_S, STEP_S = 4, 1000.0, 0.4


@cache
def quiet() -> HeldRun:
    """Ten windows of a healthy job."""
    job = Job(ranks=RANKS, steps=100, step_s=STEP_S, gpu=False, noise=QUIET)
    done = simulate(job, (), rng=np.random.default_rng(2))
    topology = build(done.layouts)
    parts = zip(*(cut(records, WindowPlan()) for records in done.records), strict=True)
    return HeldRun(topology=topology, windows_held=tuple(assemble(some, topology) for some in parts))


def verdict(run: HeldRun) -> tuple[str, str]:
    told = case_of(run, None).diagnosis
    return told["verdict"], told["headline"]


def held_up(window: Window, *, rank: int, step: int, by_s: float) -> Window:
    """All ranks' step is longer by so much; that one rank worked, the others waited."""
    at = step - window.first_step
    step_s, dur_s, wait_s = window.step_s.copy(), window.dur_s.copy(), window.wait_s.copy()
    step_s[:, at] += by_s
    dur_s[0, :, at] += by_s
    wait_s[0, np.arange(RANKS) != rank, at] += by_s
    return replace(window, step_s=step_s, dur_s=dur_s, wait_s=wait_s)


def beats(
    *, open_s: float, letters: str = "SSSS", in_mark: str = "", state: str = "running", exit_reason: str = ""
) -> HeldRun:
    """The run with its ranks in a step that is open for so long; rank 1 has not entered the call of the others."""
    heard = tuple(
        Heartbeat(
            run="job",
            attempt=0,
            rank=rank,
            host="h",
            ts_s=NOW_S,
            state=state,
            exit_reason=exit_reason,
            process_state=letters[rank],
            status=Status(
                ts_ns=int(NOW_S * 1e9),
                step=100,
                step_since_ns=int((NOW_S - open_s) * 1e9),
                step_p50_ns=int(STEP_S * 1e9),
                in_mark=in_mark,
                groups={"0": (200 + (rank != 1), 200)},
            ),
        )
        for rank in range(RANKS)
    )
    return replace(quiet(), heard=heard)


def test_a_healthy_run_has_no_fault() -> None:
    assert verdict(quiet())[0] == "NO_FAULT"
    assert verdict(beats(open_s=0.3))[0] == "NO_FAULT"


@pytest.mark.parametrize("letters", ["STSS", "SSSS"])
def test_a_step_that_is_open_for_long_is_told_with_who_holds_it(letters: str) -> None:
    named, headline = verdict(beats(open_s=29.0, letters=letters))
    assert named == "INCONCLUSIVE"
    assert "step 100" in headline and ("rank 1" in headline or letters == "SSSS")


@pytest.mark.parametrize("exit_reason", ["signal 15", "code 143"])
def test_a_job_that_stood_still_until_it_was_told_to_stop_did_not_end_well(exit_reason: str) -> None:
    named, headline = verdict(beats(open_s=43.0, letters="ZZZZ", state="exited", exit_reason=exit_reason))
    assert named == "INCONCLUSIVE"
    assert "step 100 was open for 43 s when a signal ended the job" in headline
    assert "the others waited for rank 1" in headline
    assert (
        verdict(beats(open_s=0.3, letters="ZZZZ", state="exited", exit_reason=exit_reason))[0] == "NO_FAULT"
    )


@pytest.mark.parametrize(("open_s", "state"), [(3.0, "running"), (29.0, "ended")])
def test_a_step_that_may_be_over_is_none(open_s: float, state: str) -> None:
    assert verdict(beats(open_s=open_s, state=state))[0] == "NO_FAULT"


def test_a_step_that_is_marked_may_take_long() -> None:
    assert verdict(beats(open_s=60.0, in_mark="checkpoint"))[0] == "NO_FAULT"


def test_one_step_that_took_most_of_what_was_lost_is_told_with_its_rank() -> None:
    windows = list(quiet().windows_held)
    windows[4] = held_up(windows[4], rank=2, step=47, by_s=30.0)
    named, headline = verdict(replace(quiet(), windows_held=tuple(windows)))
    assert named == "INCONCLUSIVE"
    assert "step 47 of rank 2 took" in headline


def test_a_short_hiccup_is_no_reason_to_doubt() -> None:
    windows = list(quiet().windows_held)
    windows[4] = held_up(windows[4], rank=2, step=47, by_s=2 * STEP_S)
    assert verdict(replace(quiet(), windows_held=tuple(windows)))[0] == "NO_FAULT"
