"""Play a simulated job through the one path, in the order a service would see it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.clocks import align
from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.outside import Outside
from argus.analytics.run_diff import RunDiff
from argus.analytics.run_facts import RunFacts
from argus.analytics.window import Window, assemble
from argus.collectors.records.outside_event import OutsideEvent
from argus.evals.moments import Moment, moments
from argus.evals.restart import Restart
from argus.evals.simulator.simulate import Simulation
from argus.topology.layout import Topology, build


@dataclass(frozen=True, kw_only=True)
class Played:
    """The incidents of a job in their last state, in order of opening, when each was first told, and what they rest on."""

    incidents: tuple[Incident, ...]
    told_s: tuple[float, ...]
    topology: Topology = field(compare=False)
    windows: tuple[Window, ...] = field(compare=False, repr=False)
    findings: tuple[Finding, ...]
    num_windows: int


def play(
    simulation: Simulation,
    *,
    events: Sequence[OutsideEvent] = (),
    before: RunFacts | None = None,
    keeps_windows: bool = False,
    heard: Iterable[Moment] | None = None,
) -> Played:
    """Everything the analysis says of `simulation`, from its start to some time after its end.

    `events` are what others say meanwhile, `time_s` counted from the job's start, `before` the facts of the run's
    attempt before. Windows are in the answer if `keeps_windows`, `heard` are the job's moments where they are known.
    """
    topology = build(simulation.layouts)
    state = AttemptState.start(simulation.job.run, simulation.job.attempt)
    last, told = dict[str, Incident](), dict[str, float]()
    findings, windows = list[Finding](), list[Window]()
    restart = Restart(before=before, topology=topology, layouts=simulation.layouts)
    num_windows = 0
    for moment in moments(simulation) if heard is None else heard:
        window = align(assemble(moment.parts, topology)) if moment.parts else None
        outside = _heard(events, simulation, now_s=moment.now_s, change=restart.hear(window))
        step = advance(
            state, topology=topology, now_s=moment.now_s, window=window, beats=moment.beats, outside=outside
        )
        state = step.state
        findings += step.findings
        num_windows += window is not None
        windows += [window] if window is not None and keeps_windows else []
        for incident in step.incidents:
            last[incident.id] = incident
            told.setdefault(incident.id, moment.now_s)
    return Played(
        incidents=tuple(last.values()),
        told_s=tuple(told.values()),
        topology=topology,
        windows=tuple(windows),
        num_windows=num_windows,
        findings=tuple({finding.id: finding for finding in findings}.values()),
    )


def _heard(
    events: Sequence[OutsideEvent], simulation: Simulation, *, now_s: float, change: RunDiff | None
) -> Outside:
    """What others have said by now, in Unix time."""
    begun_s = simulation.job.start_s
    timed = (replace(event, time_s=begun_s + event.time_s) for event in events)
    return Outside(events=tuple(event for event in timed if event.time_s <= now_s), change=change)
