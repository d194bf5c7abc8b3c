"""Windows of simulated jobs whose groups of every kind wait for one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from argus.analytics.clocks import align
from argus.analytics.window import Window, assemble
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import Fault, Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import Topology, build

STEPS = 6
"""Steps of a window."""


def mesh(**shape: int) -> Job:
    """A small job without start-up whose hosts are one tensor group each."""
    ranks = shape.pop("ranks")
    return Job(ranks=ranks, ranks_per_host=shape.pop("per_host", 4), steps=STEPS, warmup_steps=0, **shape)  # type: ignore[arg-type]


def windows(job: Job, faults: Sequence[Fault] = (), *, seed: int) -> tuple[Topology, Iterator[Window]]:
    """The job's topology and its windows, aligned."""
    done = simulate(job, tuple(faults), rng=np.random.default_rng(seed))
    topology = build(done.layouts)
    return topology, (align(assemble(one.parts, topology)) for one in done.windows(WindowPlan(first=STEPS)))


def slow(rank: int, factor: float, **when: int) -> Fault:
    """The rank computes so much longer."""
    return Fault(kind="compute", ranks=(rank,), severity=factor, **when)  # type: ignore[arg-type]
