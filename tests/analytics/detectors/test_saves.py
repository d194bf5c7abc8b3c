"""Whose storage is accused of late checkpoints: one that became late, again and again; never one that always was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from argus.analytics.detectors.l2_saves import detect
from argus.analytics.digest import observed
from argus.analytics.saves import Save, saves_of
from argus.analytics.view import Digest, View
from argus.analytics.window import Window
from argus.evals.moments import moments
from argus.evals.play import play
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.evals.views import views
from argus.topology.layout import build

JOB = Job(ranks=4, steps=100, checkpoint_every=6, checkpoint_s=0.1)
EVERY = 10


@cache
def last_view() -> tuple[View, tuple[Digest, ...]]:
    """The last window of a healthy job that saves nothing, and the digests of all."""
    done = simulate(replace(JOB, checkpoint_every=0), (), rng=np.random.default_rng(1))
    seen = [view for view in views(moments(done), build(done.layouts)) if view.window is not None]
    return seen[-1], tuple(digest for view in seen if (digest := observed(view)) is not None)


def suspects(*saves: tuple[int, float]) -> list[tuple[int, ...]]:
    """Who is accused after saves of (last rank, its seconds beside 0.1 s of the others), one a window."""
    view, digests = last_view()
    told = [Save(step=EVERY * n, rank=rank, dur_s=s, others_s=0.1) for n, (rank, s) in enumerate(saves)]
    *past, now = (replace(d, saves=(save,)) for d, save in zip(digests[: len(told)], told, strict=True))
    return [finding.ranks for finding in detect(replace(view, past=tuple(past), digest=now))]


CALM = ((0, 0.11), (2, 0.12), (1, 0.11))
LATE = (3, 1.5)


def test_a_rank_that_became_late_is_accused() -> None:
    assert suspects(*CALM, LATE, LATE, LATE) == [(3,)]


@pytest.mark.parametrize("num_others", [0, 1])
def test_a_rank_that_was_last_before_and_became_late_is_accused(num_others: int) -> None:
    before = [(3, s) for s in (0.12, 0.11, 0.13)]
    assert suspects(*CALM[:num_others], *before, LATE, LATE, LATE) == [(3,)]
    assert suspects(*CALM[:num_others], *before, *before) == []


def test_a_rank_that_is_a_little_late_is_accused_once_chance_would_not_bring_it() -> None:
    little = [(3, s) for s in (0.16, 0.17, 0.16, 0.18, 0.17)]
    assert suspects(*CALM, *little[:3]) == []  # one time in three hundred
    assert suspects(*CALM, *little) == [(3,)]
    assert suspects(*CALM, (3, 0.11), *little) == [(3,)]  # it was last by chance before
    assert suspects(*CALM, *little[:3], (1, 0.12), *little[:3]) == []  # it is last as often as it was
    assert suspects(*((3, 0.16), (1, 0.11)) * 2, *little) == []  # it holds more, and always did


@pytest.mark.parametrize(
    "saves",
    [
        (*CALM, LATE, LATE),  # a coincidence
        (LATE,) * 6,  # it always was
        ((3, 1.4), (2, 0.15), (2, 1.3), LATE, LATE, LATE),  # somebody was as late before
        (*CALM, (3, 1.5), (2, 1.5), (1, 1.5)),  # shared storage is slow for whoever comes last
        (*CALM, LATE, LATE, LATE, (0, 0.11)),  # it is over
        (*CALM, (3, 0.15), (3, 0.15), (3, 0.15)),  # nobody waits long enough to care
    ],
    ids=["twice", "always", "as before", "by turns", "over", "tiny"],
)
def test_nobody_is_accused(saves: Sequence[tuple[int, float]]) -> None:
    assert suspects(*saves) == []


def test_a_rank_that_saves_for_all_is_no_late_one() -> None:
    window = simulated_window()
    times = window.dur_s.copy()
    times[window.phases.index("checkpoint"), 1:] = 0.0
    assert len(saves_of(window)) == 1 and saves_of(replace(window, dur_s=times)) == ()


def simulated_window() -> Window:
    done = simulate(JOB, (), rng=np.random.default_rng(1))
    return next(v.window for v in views(moments(done), build(done.layouts)) if v.window is not None)


def test_the_incident_names_the_storage_of_the_rank() -> None:
    fault = Fault(kind="save", ranks=(2,), severity=1.3, start_step=50)
    (incident,) = play(simulate(JOB, (fault,), rng=np.random.default_rng(2))).incidents
    cause = incident.cause
    assert (cause.fault_class, cause.suspects, cause.verdict) == ("host.filesystem", (2,), "LIKELY")
    assert 50 <= cause.onset_step < 60
