"""What is really wrong in a trial: kept apart from everything a detector sees."""

from __future__ import annotations

from dataclasses import dataclass

from argus.collectors.records.outside_event import OutsideEvent
from argus.evals.simulator.job import Fault, Job


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The fault behind a trial; `fault_class` None = healthy.

    `ranks` are the root ranks, none where no machine is to be accused. `scope` is the node id of the smallest
    object that explains them; for a path it is a group and `ranks` are its members, for a pipeline's cut a stage
    and `ranks` are its ranks. `onset_step` is the first step it can be seen in. `exonerated` are classes that
    must not be named: what the trial tempts to.
    """

    fault_class: str | None = None
    ranks: tuple[int, ...] = ()
    scope: str = ""
    onset_step: int = 0
    end_step: int | None = None
    exonerated: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A trial: what happens and, for the scorer alone, what should be found.

    `also` are further faults of the same trial. `events` are what others say meanwhile, `time_s` counted from
    the job's start.
    """

    job: Job
    faults: tuple[Fault, ...] = ()
    truth: Truth = Truth()
    also: tuple[Truth, ...] = ()
    events: tuple[OutsideEvent, ...] = ()

    @property
    def truths(self) -> tuple[Truth, ...]:
        """Every fault of the trial, the main one first."""
        return (self.truth, *self.also)
