"""Paper case 2: the transfers of one group of expert replicas are slow from the start, the step time is flat."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_experts
from argus.evals.simulator.groups import layouts, shape_of
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario
from argus.topology.layout import build

KERNELS = 4

MIN_RANKS = 16
"""Of fewer groups than four nobody can say from the start which is the slow one."""


def scenario(*, seed: int = 0, ranks: int = 512, severity: float = 1.5) -> Scenario:
    """One EDP group of link.slow, present since step 0, so that no series shows a change."""
    drawn = draw_experts(seed=seed, ranks=ranks, tells_work=False)
    # Groups of two to eight ranks, one a host: where the path is sick, both ends of it are.
    ep = ranks // 8 if ranks >= 64 else max(ranks // 2, 1)
    job = replace(drawn.job, ep=ep, kernels=KERNELS, steps=80, checkpoint_every=0)
    kind = "edp" if ep > 1 else "dp"
    groups = shape_of(job).groups[kind]
    group = build(layouts(job)).named[drawn.rank, groups.name_of(drawn.rank)]
    fault = Fault(kind="link", group=kind, ranks=group.ranks, severity=1 + (severity - 1) / 2)
    return replace(drawn, job=job).with_fault(
        "link.slow",
        fault,
        scope=f"group:{group.id}",
        onset_step=0,
        end_step=None,
        exonerated=("compute.slow",),
    )
