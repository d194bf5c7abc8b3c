"""What crosses the border between two pipeline stages is slow in every replica: both sit behind one uplink."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import END_STEP, draw_pipeline
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

MIN_RANKS = 8


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """All pairs over one border of link.slow, the twin of slow_pair; no one object of the layout is the uplink."""
    drawn = draw_pipeline(seed=seed, ranks=ranks)
    size = ranks // drawn.job.pp
    border = drawn.rank % (drawn.job.pp - 1)
    pairs = [(border * size + row, (border + 1) * size + row) for row in range(size)]
    made = drawn.with_fault(
        "link.slow",
        Fault(kind="link", group="pp", ranks=pairs[0], severity=severity),
        scope=f"run:{drawn.job.run}",
        ranks=tuple(sorted(rank for pair in pairs for rank in pair)),
        exonerated=("compute.slow", "pipeline.imbalance"),
    )
    faults = tuple(
        Fault(
            kind="link",
            group="pp",
            ranks=pair,
            severity=severity,
            start_step=drawn.onset_step,
            end_step=END_STEP,
        )
        for pair in pairs
    )
    return replace(made, faults=faults)
