"""What records show of an incident's end: gone by itself, with a restart, with its host, or there again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from argus.analytics.incident import Cause, Cost, Incident
from argus.analytics.lifecycle import ALL_EXITED, NAMED_BETTER, RUN_OVER, SIGNAL_GONE, STEPS_GO_ON
from argus.analytics.outcome import (
    ATTEMPT_OVER,
    CALM_WINDOWS,
    DID_NOT_HELP,
    GONE,
    HOST_LEFT,
    RESTART,
    Follower,
    Outcome,
    seen_in_attempt,
    seen_in_follower,
)

CAUSE = Cause(fault_class="compute.slow", verdict="CONFIRMED", suspects=(3,), scope="rank:3")
COST = Cost(s_per_step=0.1, share_of_step=0.2, gpu_hours_so_far=1.0, gpu_hours_per_day=2.0, method="said")
OVER = Incident(
    run="r", attempt=0, status="resolved", severity="warning", cause=CAUSE, onset_step=40, end_step=99,
    opened_window=4, last_window=9, cost=COST, ended=f"{ATTEMPT_OVER}: crashed",
)  # fmt: skip
CALM = Follower(attempt=1, begun_s=50.0, windows=CALM_WINDOWS, has_hosts=True, is_again=False)


@pytest.mark.parametrize("ended", [SIGNAL_GONE, STEPS_GO_ON])
@pytest.mark.parametrize("came_back", [False, True])
def test_what_goes_while_the_job_runs_went_by_itself(ended: str, came_back: bool) -> None:
    seen = seen_in_attempt(replace(OVER, ended=ended), at_s=9.0, came_back=came_back)
    assert seen is not None and (seen.did, seen.result, seen.by) == ("", GONE, "argus")
    assert seen.text.startswith("by itself after 6 windows") and seen.text.endswith("attempt") == came_back
    assert Outcome.from_json(seen.to_json()) == seen


@pytest.mark.parametrize("ended", [NAMED_BETTER, ALL_EXITED, RUN_OVER, OVER.ended])
def test_what_ended_otherwise_did_not_go_by_itself(ended: str) -> None:
    assert seen_in_attempt(replace(OVER, ended=ended), at_s=9.0, came_back=False) is None
    still = replace(OVER, status="open", ended="")
    assert seen_in_attempt(still, at_s=9.0, came_back=False) is None and seen_in_follower(still, CALM) is None


@pytest.mark.parametrize(
    ("changes", "did", "result"),
    [
        ({}, RESTART, GONE),
        ({"has_hosts": False}, HOST_LEFT, GONE),
        ({"is_again": True}, RESTART, DID_NOT_HELP),
        ({"is_again": True, "windows": 1}, RESTART, DID_NOT_HELP),
    ],
)
def test_a_later_attempt_tells(changes: dict[str, bool], did: str, result: str) -> None:
    seen = seen_in_follower(OVER, replace(CALM, **changes))
    assert seen is not None and (seen.did, seen.result, seen.at_s) == (did, result, 50.0)


def test_a_young_attempt_tells_nothing_yet() -> None:
    assert seen_in_follower(OVER, replace(CALM, windows=CALM_WINDOWS - 1)) is None
    assert seen_in_follower(replace(OVER, ended=NAMED_BETTER), CALM) is None
