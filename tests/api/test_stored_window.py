"""What is kept of ten thousand ranks' summaries while their window is judged."""

from __future__ import annotations

import numpy as np

from argus.api.stored_window import without_details
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import PHASE_CELL, RankWindow
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate


def test_summaries_share_their_strings_and_keep_nothing_of_their_bodies() -> None:
    done = simulate(Job(ranks=4, steps=5, warmup_steps=0), rng=np.random.default_rng(1))
    (closed,) = done.windows(WindowPlan(first=5))
    sent = closed.parts
    assert len(sent) == 4
    heavy = np.zeros(1000, PHASE_CELL)
    bodies = [_with_details(part, heavy).to_bytes() for part in sent]
    read = without_details(iter(bodies))
    for was, part in zip(sent, read, strict=True):
        assert part.names == was.names and part.names is read[0].names
        assert not len(part.details)
        for name in ("steps", "cells", "collectives", "events"):
            array = getattr(part, name)
            assert array.base is None
            assert array.tolist() == getattr(was, name).tolist()


def _with_details(part: RankWindow, details: np.ndarray) -> RankWindow:
    details = details.copy()
    details["step"] = part.first_step
    return RankWindow(**{**vars(part), "details": details})
