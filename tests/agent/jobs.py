"""Simulated jobs, triaged, as the facts that tools read."""

from __future__ import annotations

from functools import cache

import numpy as np

from argus.agent.held_facts import HeldFacts, HeldRun
from argus.api.offline import analyse
from argus.collectors.job import Job, join
from argus.collectors.readers import Reading
from argus.evals.scenarios import scenarios
from argus.evals.simulator.simulate import simulate


@cache
def facts_of(scenario: str, *, ranks: int = 8, seed: int = 0, severity: float = 1.5) -> HeldFacts:
    """The facts of one simulated job that was triaged as a recording is."""
    made = scenarios()[scenario](seed=seed, ranks=ranks, severity=severity)
    done = simulate(made.job, made.faults, rng=np.random.default_rng(seed))
    job: Job = join([Reading(records=one, source="simulated") for one in done.records], run="job")
    report = analyse(job, now_s=done.last_end_s)
    held = HeldRun(
        topology=report.topology,
        windows_held=report.windows,
        findings_held=report.findings,
        incidents=report.incidents,
    )
    return HeldFacts(held=(held,))
