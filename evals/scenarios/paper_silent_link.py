"""Paper case 2: the transfers of one group of expert replicas are slow from the start, the step time is flat."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw_experts
from argus.evals.simulator.groups import layouts, shape_of
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario
from argus.topology.layout import build

KERNELS = 4


def scenario(*, seed: int = 0, ranks: int = 512, severity: float = 1.5) -> Scenario:
    """One EDP group of link.slow, present since step 0, so that no series shows a change."""
    drawn = draw_experts(seed=seed, ranks=ranks, tells_work=False)
    # Groups of two to eight ranks, one a host: where the path is sick, both ends of it are.
    job = replace(drawn.job, ep=max(ranks // 8, 2) if ranks > 2 else 1, kernels=KERNELS, steps=80)
    job = replace(job, checkpoint_every=0, routing_spread=0.02 if job.ep > 1 else 0.0)
    kind = "edp" if "edp" in shape_of(job).groups else "dp"
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
