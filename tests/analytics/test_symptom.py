"""What a window says against its suspects: the same of each, and what they share is worked out once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.digest import digest_of
from argus.analytics.peers import peer_medians
from argus.analytics.symptom import RankSymptom, measure
from argus.analytics.waits import waits_of
from argus.analytics.window import Floats, Ints, Window, assemble
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import QUIET, Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build

SUSPECT, ONSET = 5, 14
JOB = Job(ranks=8, steps=20, step_s=0.4, noise=QUIET)


def window(job: Job = JOB) -> Window:
    fault = Fault(kind="compute", ranks=(SUSPECT,), severity=1.5, start_step=ONSET)
    done = simulate(job, [fault], rng=np.random.default_rng(0))
    return assemble([closed.parts for closed in done.windows(WindowPlan())][1], build(done.layouts))


def measured(seen: Window) -> list[RankSymptom]:
    waits = waits_of(seen)
    digest = digest_of(seen, lambda: waits)
    return [measure(seen, waits, digest, rank=rank) for rank in seen.ranks.tolist()]


def test_what_suspects_are_compared_with_is_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Floats] = []

    def counted(values: Floats, classes: Ints) -> Floats:
        asked.append(values)
        return peer_medians(values, classes)

    monkeypatch.setattr("argus.analytics.symptom.peer_medians", counted)
    found = measured(window())
    assert len(found) == JOB.ranks and len(asked) == 1


def test_the_onset_is_the_step_from_which_the_rank_stands_out_also_where_another_lacks_a_step() -> None:
    whole = window()
    assert measured(whole)[SUSPECT].onset_step == ONSET
    step_s = whole.step_s.copy()
    step_s[0, 2] = np.nan
    assert measured(replace(whole, step_s=step_s))[SUSPECT].onset_step == ONSET
