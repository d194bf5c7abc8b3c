"""The four syndromes: by class, and for a hang by whether the rank behind ever came to the call."""

from __future__ import annotations

import pytest

from argus.analytics.classes import cause_classes
from argus.analytics.finding import Evidence
from argus.analytics.syndrome import syndrome_of

FOUR = {"communication hang", "communication slow", "non-communication hang", "non-communication slow"}


def hang(entered: float, completed: float) -> str | None:
    evidence = (
        Evidence(name="entered", value=entered, baseline=9.0),
        Evidence(name="completed", value=completed, baseline=9.0),
    )
    return syndrome_of("stop.hang", evidence=evidence, group="dp/0")


def test_every_class_has_one_of_the_four_or_says_it_is_not_decided() -> None:
    named = {name: syndrome_of(name) for name in cause_classes()}
    assert set(named.values()) - {None} <= FOUR
    undecided = {name for name, syndrome in named.items() if syndrome is None}
    assert undecided == {"unknown", "step.slower", "run.changed", "stop.hang"}
    assert [name for name, syndrome in named.items() if syndrome == "communication slow"] == ["link.slow"]


@pytest.mark.parametrize(
    ("counts", "syndrome"), [((8, 8), "non-communication hang"), ((9, 8), "communication hang")]
)
def test_a_rank_that_never_came_hangs_outside_of_the_call(counts: tuple[float, float], syndrome: str) -> None:
    assert hang(*counts) == syndrome


def test_a_group_in_which_all_came_and_nobody_left_hangs_in_communication() -> None:
    assert syndrome_of("stop.hang", group="tp/3") == "communication hang"
