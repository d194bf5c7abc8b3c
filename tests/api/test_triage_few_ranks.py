"""`argus triage` of a few ranks of a huge job: what a header states costs no memory, and proves nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from argus.api.offline.files import analyse
from argus.api.report import Report
from argus.collectors.job import join
from argus.collectors.readers import Reading
from argus.collectors.records.events import RankRecords
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate

SLOW = Fault(kind="compute", ranks=(2,), start_step=0, severity=2.0)


@pytest.fixture(scope="module")
def recorded() -> Sequence[RankRecords]:
    job = Job(run="job", ranks=4, steps=60)
    return simulate(job, (SLOW,), rng=np.random.default_rng(0)).records


def report_of(recorded: Sequence[RankRecords], *, world: int) -> Report:
    readings = [
        Reading(
            source=str(one.layout.rank), records=replace(one, layout=replace(one.layout, world_size=world))
        )
        for one in recorded
    ]
    return analyse(join(readings), now_s=0.0)


def test_ranks_of_which_nothing_was_read_take_no_room(recorded: Sequence[RankRecords]) -> None:
    world = 1 << 14
    report = report_of(recorded, world=world)
    window = report.windows[0]
    assert window.ranks.tolist() == [0, 1, 2, 3] and window.self_s.shape[1] == 4
    seen = window.coverage
    assert seen.ratio == pytest.approx(4 / world) and len(seen.missing_ranks) == world - 4
    assert seen.missing_steps == (world - 4) * window.num_steps
    assert (report.diagnosis["verdict"], report.incidents) == ("INCONCLUSIVE", ())
    assert "only 4 of 16384 ranks were read" in report.diagnosis["headline"]


def test_where_half_was_read_the_others_are_rows_without_values(recorded: Sequence[RankRecords]) -> None:
    window = report_of(recorded, world=8).windows[0]
    assert len(window.ranks) == 8 and np.isnan(window.step_s[4:]).all()
