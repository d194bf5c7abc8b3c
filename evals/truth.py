"""What is really wrong in a trial: kept apart from everything a detector sees."""

from __future__ import annotations

from dataclasses import dataclass

from argus.evals.simulator.job import Fault, Job


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The fault behind a trial; `fault_class` None = healthy.

    `ranks` are the root ranks. `scope` is the node id of the smallest object that explains them; for a
    path it is a group and `ranks` are its members. `onset_step` is the first step it can be seen in.
    """

    fault_class: str | None = None
    ranks: tuple[int, ...] = ()
    scope: str = ""
    onset_step: int = 0
    end_step: int | None = None


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A trial: what happens and, for the scorer alone, what should be found."""

    job: Job
    faults: tuple[Fault, ...] = ()
    truth: Truth = Truth()
