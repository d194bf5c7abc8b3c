"""Play a simulated job through the one path, in the order a service would see it."""

from __future__ import annotations

from dataclasses import dataclass, field

from argus.analytics.attempt import AttemptState, advance
from argus.analytics.clocks import align
from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.window import Window, assemble
from argus.evals.moments import moments
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

    @property
    def num_findings(self) -> int:
        """How many findings there were."""
        return len(self.findings)

    @property
    def num_windows(self) -> int:
        """How many windows closed."""
        return len(self.windows)


def play(simulation: Simulation) -> Played:
    """Everything the analysis says of `simulation`, from its start to some time after its end."""
    topology = build(simulation.layouts)
    state = AttemptState.start(simulation.job.run, simulation.job.attempt)
    last: dict[str, Incident] = {}
    told: dict[str, float] = {}
    findings: list[Finding] = []
    windows: list[Window] = []
    for moment in moments(simulation):
        window = align(assemble(moment.parts, topology)) if moment.parts else None
        step = advance(state, topology=topology, now_s=moment.now_s, window=window, beats=moment.beats)
        state = step.state
        findings += step.findings
        windows += [window] if window is not None else []
        for incident in step.incidents:
            last[incident.id] = incident
            told.setdefault(incident.id, moment.now_s)
    return Played(
        incidents=tuple(last.values()),
        told_s=tuple(told.values()),
        topology=topology,
        windows=tuple(windows),
        findings=tuple({finding.id: finding for finding in findings}.values()),
    )
