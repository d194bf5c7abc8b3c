"""Play a simulated job through the one path, in the order a service would see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.clocks import align
from argus.analytics.incident import Incident
from argus.analytics.outside import Outside
from argus.analytics.window import assemble
from argus.collectors.records.outside_event import OutsideEvent
from argus.evals.moments import moments
from argus.evals.simulator.simulate import Simulation
from argus.topology.layout import build


@dataclass(frozen=True, kw_only=True)
class Played:
    """The incidents of a job in their last state, in order of opening, and when each was first told."""

    incidents: tuple[Incident, ...]
    told_s: tuple[float, ...]
    num_findings: int
    num_windows: int


def play(simulation: Simulation, *, events: Sequence[OutsideEvent] = ()) -> Played:
    """Everything the analysis says of `simulation`, from its start to some time after its end.

    `events` are what others say meanwhile, `time_s` counted from the job's start.
    """
    start_s = simulation.job.start_s
    outside = [replace(event, time_s=start_s + event.time_s) for event in events]
    topology = build(simulation.layouts)
    state = AttemptState.start(simulation.job.run, simulation.job.attempt)
    last: dict[str, Incident] = {}
    told: dict[str, float] = {}
    num_findings = num_windows = 0
    for moment in moments(simulation):
        window = align(assemble(moment.parts, topology)) if moment.parts else None
        told_by_others = [event for event in outside if event.time_s <= moment.now_s]
        step = advance(
            state,
            topology=topology,
            now_s=moment.now_s,
            window=window,
            beats=moment.beats,
            outside=Outside(events=tuple(told_by_others)),
        )
        state = step.state
        num_findings += len(step.findings)
        num_windows += window is not None
        for incident in step.incidents:
            last[incident.id] = incident
            told.setdefault(incident.id, moment.now_s)
    return Played(
        incidents=tuple(last.values()),
        told_s=tuple(told.values()),
        num_findings=num_findings,
        num_windows=num_windows,
    )
