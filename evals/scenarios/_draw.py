"""What every scenario draws alike: the kind of job, the culprit, the onset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.evals.simulator.job import QUIET, SHARED, Fault, Job
from argus.evals.truth import Scenario, Truth

STEPS = 200
ONSET = (60, 120)
"""After a baseline of some windows of 10 steps, with more than 10 windows left."""

END_STEP = 180
"""The last two windows are healthy again."""

SHARED_SEVERITY = 1.4
"""On shared CPU cores a smaller fault is inside the natural spread, so those trials get quiet GPUs."""

SHARED_RANKS = 8
"""More ranks than this do not share a machine's cores."""


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A job with one rank and one onset picked from it."""

    job: Job
    rank: int
    onset_step: int

    def scenario(
        self, fault_class: str, *, kind: str, severity: float, end_step: int | None = END_STEP
    ) -> Scenario:
        """The trial in which that rank has a fault of `kind` from the onset on."""
        ranks = (self.rank,)
        fault = Fault(
            kind=kind, ranks=ranks, start_step=self.onset_step, end_step=end_step, severity=severity
        )
        truth = Truth(
            fault_class=fault_class,
            ranks=ranks,
            scope=f"rank:{self.rank}",
            onset_step=self.onset_step,
            end_step=end_step,
        )
        return Scenario(job=self.job, faults=(fault,), truth=truth)


def draw(*, seed: int, ranks: int, severity: float, wall_clock: bool = False) -> Draw:
    """A job of `ranks`: GPUs on hosts of 8, or CPU ranks that share one host if the fault is large enough."""
    rng = np.random.default_rng([seed, ranks])
    on_shared = ranks <= SHARED_RANKS and severity >= SHARED_SEVERITY and bool(rng.random() < 0.5)
    job = _shared(ranks) if on_shared else _cluster(rng, ranks, wall_clock=wall_clock)
    return Draw(job=job, rank=int(rng.integers(ranks)), onset_step=int(rng.integers(*ONSET)))


def _shared(ranks: int) -> Job:
    return Job(
        ranks=ranks, ranks_per_host=ranks, steps=STEPS, step_s=0.06, gpu=False, noise=SHARED, comm_ratio=0.25
    )


def _cluster(rng: np.random.Generator, ranks: int, *, wall_clock: bool) -> Job:
    return Job(
        ranks=ranks,
        tp=2 if ranks >= 8 and ranks % 2 == 0 and rng.random() < 0.3 else 1,
        steps=STEPS,
        step_s=float(rng.uniform(0.2, 1.5)),
        gpu=not wall_clock and bool(rng.random() < 0.7),
        noise=QUIET,
        checkpoint_every=int(rng.choice([0, 50])),
        clock_offset_s=0.001,
    )
