"""A small published case: of 8 ranks 4 to 7 have slow collectives of every sort from the first step on, and the step is flat."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_cluster
from argus.evals.simulator.groups import layouts, shape_of
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario
from argus.topology.layout import build

TIMES = {"all_reduce": 8.0, "all_gather": 12.0, "reduce_scatter": 20.0}
"""How many times as long the calls of each sort take at the usual severity."""

MIN_RANKS = 8
"""Two groups of four."""

STEPS = 80


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """The last tensor-parallel group of link.slow; no series shows a change."""
    drawn = draw_cluster(seed=seed, ranks=ranks)
    tp = max(ranks // 2, 1)
    job = replace(
        drawn.job,
        tp=tp,
        sequence_parallel=True,
        tp_comm_ratio=0.02,
        steps=STEPS,
        checkpoint_every=0,
        kernels=4,
    )
    kind = "tp" if tp > 1 else "dp"
    members = tuple(range(ranks - tp, ranks)) if tp > 1 else tuple(range(ranks))
    name = shape_of(job).groups[kind].name_of(members[-1])
    group = build(layouts(job)).named[members[-1], name]
    more = (severity - 1) / 0.5
    faults = tuple(
        Fault(kind="link", group=kind, op=op, times=1 + (times - 1) * more, ranks=members, severity=severity)
        for op, times in TIMES.items()
    )
    made = replace(drawn, job=job).with_fault(
        "link.slow",
        faults[0],
        scope=f"group:{group.id}",
        onset_step=0,
        end_step=None,
        exonerated=("compute.slow",),
    )
    return replace(made, faults=faults)
