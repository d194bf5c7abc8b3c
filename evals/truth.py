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

    The rest follows from class and layout unless a scenario says otherwise (`expected.completed`): `coarser` are
    larger objects that are no wrong answer; `path` leads from the scope over the groups that pass the lateness on to
    the run; `best_verdict` is the firmest word the data supports ("" = not filled in yet); `acceptable` and
    `forbidden` are ids of the catalogue of actions, of which those in neither are neither right nor wrong.
    """

    fault_class: str | None = None
    ranks: tuple[int, ...] = ()
    scope: str = ""
    onset_step: int = 0
    end_step: int | None = None
    exonerated: tuple[str, ...] = ()
    coarser: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    best_verdict: str = ""
    acceptable: tuple[str, ...] = ()
    forbidden: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A trial: what happens and, for the scorer alone, what should be found.

    `faults` of a healthy trial are what nobody has to be told of. `also` are further faults of the same trial.
    `events` are what others say meanwhile, `time_s` counted from the job's start. `before` is the run's attempt
    before this one, which was well.
    """

    job: Job
    faults: tuple[Fault, ...] = ()
    truth: Truth = Truth()
    also: tuple[Truth, ...] = ()
    events: tuple[OutsideEvent, ...] = ()
    before: Job | None = None

    @property
    def truths(self) -> tuple[Truth, ...]:
        """Every fault of the trial, the main one first."""
        return (self.truth, *self.also)
