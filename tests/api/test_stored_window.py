"""What is kept of ten thousand ranks' summaries while their window is judged."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from argus.analytics.store import progress
from argus.analytics.window import Window
from argus.api.stored_window import read_window, without_details
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import PHASE_CELL, RankWindow
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build
from tests.api.kit import FakeClock, beats_body, layouts_body, make_beat, make_window, service_at, upload


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


def _read(folder: Path, *, made: int, at_step: int) -> Window:
    """A window of 40 steps of which the ranks made the first `made`, and say that they are at `at_step`."""
    clock = FakeClock()
    with service_at(folder / "a.sqlite", clock=clock) as service:
        service.receive_layouts(layouts_body())
        whole = [make_window(rank, 0, num_steps=40) for rank in range(4)]
        parts = [replace(part, steps=part.steps[:made], cells=part.cells[: made + 1]) for part in whole]
        service.receive_windows(upload(*parts))
        beats = [make_beat(rank, ts_s=clock.now_s, state="ended", step=at_step) for rank in range(4)]
        service.receive_heartbeats(beats_body(*beats))
        with service.store.read() as connection:
            (live,) = progress.live_attempts(connection)
            (row,) = progress.pending_windows(connection)[live.row.id]
            layouts = progress.layouts_of(connection, live.row.id)
        return read_window(service.store, live.row.id, row, topology=build(layouts))


@pytest.mark.parametrize(
    ("made", "at_step", "num_steps"),
    [(25, 25, 25), (25, 24, 25), (40, 40, 40), (25, 31, 40), (4, 4, 40)],
)
def test_a_window_is_as_long_as_the_run_was_in_it(
    tmp_path: Path, made: int, at_step: int, num_steps: int
) -> None:
    window = _read(tmp_path, made=made, at_step=at_step)
    assert window.num_steps == num_steps
    assert window.coverage.missing_steps == 4 * (num_steps - made)
    assert window.coverage.ratio == pytest.approx(made / num_steps)
