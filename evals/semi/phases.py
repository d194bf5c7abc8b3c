"""Recorded pipeline phases (parquet) in which the compute of one worker takes longer from a step on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from argus.api.offline.files import read_job
from argus.collectors.job import Job
from argus.evals.marks import Mark
from argus.evals.score import Trial
from argus.evals.semi.jobs import cost_ratio, judged, stretches, truth_of
from argus.evals.semi.retime import retimed
from argus.evals.truth import Truth

NAME = "semi_phases"

FIRST_ONSET = 10
"""One window of what was before."""

PHASES = (("forward", "backward"), ("forward",), ("backward",))
"""What takes longer, drawn with the rest."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A file below the data; `accused` and `scopes` are what is wrong in it already, as (class, rank) and (class, node)."""

    path: str
    accused: tuple[tuple[str, int], ...] = ()
    scopes: tuple[tuple[str, str], ...] = ()

    def known(self, run: str, ranks: Sequence[int]) -> tuple[Truth, ...]:
        """The faults it was published with; nothing it says of a stage or of the run may accuse a machine."""
        return (
            *(Truth(fault_class=name, ranks=(rank,), scope=f"rank:{rank}") for name, rank in self.accused),
            *(Truth(fault_class=name, scope=scope.format(run=run)) for name, scope in self.scopes),
        )


RECORDINGS = (
    Recording(
        path="straggler-analysis/trace-SE.parquet",
        scopes=(("pipeline.imbalance", "stage:1"), ("imbalance.sequence", "run:{run}")),
    ),
    Recording(path="straggler-analysis/trace-AR.parquet", accused=(("compute.slow", 0),)),
)
"""SE: lengths differ and the last stage is heavier. AR: one sick worker, 2.27 times its peers in backward."""


def recordings(data: Path) -> tuple[Path, ...]:
    """Its files below the data that are there."""
    return tuple(path for one in RECORDINGS if (path := data / one.path).exists())


@cache
def _job(path: Path) -> Job:
    return read_job([path])[0]


def compare(trial: Trial, *, names: Sequence[str], data: Path) -> list[Mark]:
    """The marks of all systems."""
    there = [one for one in RECORDINGS if (data / one.path).exists()]
    recording = there[trial.seed % len(there)]
    job = _job(data / recording.path)
    rng = np.random.default_rng([trial.seed, 34])
    sick = {rank for _, rank in recording.accused}
    one = [one for one in job.records if one.layout.rank not in sick][
        int(rng.integers(len(job.ranks) - len(sick)))
    ]
    onset = job.first_step + int(rng.integers(FIRST_ONSET, job.num_steps // 2))
    wanted = PHASES[int(rng.integers(len(PHASES)))]
    truth = truth_of(one.layout.rank, onset_step=onset, severity=trial.severity)
    rows = one.phases
    chosen = np.isin(np.array(one.names)[rows["name"]], wanted) & (rows["step"] >= onset)
    slow = stretches(rows, chosen, factor=trial.severity)
    records, _ = retimed(job.records, {one.layout.rank: slow} if truth.fault_class else {})
    return judged(
        trial,
        truth,
        replace(job, records=records),
        names=names,
        known=recording.known(job.records[0].layout.run, job.ranks),
        cost=cost_ratio(job.records, records, onset_step=onset),
    )
