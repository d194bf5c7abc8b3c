"""Paper case 5: all GPUs of one host compute slower while an alert says "port down" about the same host."""

from __future__ import annotations

from dataclasses import replace

from argus.collectors.records.outside_event import OutsideEvent
from argus.evals.scenarios._draw import draw_experts
from argus.evals.simulator.job import Fault
from argus.evals.truth import Scenario

EXPERT_RANKS = 32
"""The paper's expert-parallel size."""


def scenario(*, seed: int = 0, ranks: int = 12_960, severity: float = 1.5) -> Scenario:
    """One host of compute.slow; the network is innocent, whatever the alert says."""
    drawn = draw_experts(seed=seed, ranks=ranks, tells_work=False)
    ep = EXPERT_RANKS if ranks % EXPERT_RANKS == 0 and ranks > EXPERT_RANKS else drawn.job.ep
    size = min(8, max(ranks // 4, 1))
    job = replace(drawn.job, ep=ep, ranks_per_host=size, steps=100, checkpoint_every=0)
    first = drawn.rank // size * size
    members = tuple(range(first, min(first + size, ranks)))
    fault = Fault(kind="compute", ranks=members, severity=severity)
    onset = 50
    made = replace(drawn, job=job, onset_step=onset).with_fault(
        "compute.slow",
        fault,
        scope=f"host:{job.host(first)}" if len(members) > 1 else f"rank:{first}",
        end_step=None,
        exonerated=("link.slow",),
    )
    alert = OutsideEvent(
        time_s=onset * job.step_s,
        node=f"host:{job.host(first)}",
        source="alertmanager",
        text=f"NIC port down on {job.host(first)}",
        kind="port_down",
    )
    return replace(made, events=(alert,))
