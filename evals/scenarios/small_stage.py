"""A small published case: of four stages the last has a backward of 1.9 times the others', and all totals are equal."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_pipeline
from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Fault
from argus.evals.simulator.segments import BACKWARD_SHARE
from argus.evals.truth import Scenario

STAGE = 3
MIN_RANKS = 4

MORE = 0.9
"""Of the backward, at the usual severity."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """The last stage of pipeline.imbalance, from the first step on."""
    drawn = draw_pipeline(seed=seed, ranks=ranks)
    job = replace(drawn.job, schedule="1f1b", virtual=1, steps=80, checkpoint_every=0)
    stage = min(STAGE, job.pp - 1)
    members = tuple(range(*shape_of(job).stages[stage]))
    more = MORE * BACKWARD_SHARE * (severity - 1) / 0.5
    fault = Fault(kind="compute", phase="backward", ranks=members, severity=1 + more)
    return replace(drawn, job=job).with_fault(
        "pipeline.imbalance",
        fault,
        scope=f"stage:{stage}",
        onset_step=0,
        end_step=None,
        exonerated=("link.slow",),
    )
