"""What offline triage found, in the form that is printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.outside import NOTHING, Outside
from argus.analytics.whatif.shares import Replayer, WhatIf
from argus.analytics.whatif.timeline import trace_of
from argus.analytics.window import Window
from argus.api.offline.series import SeriesReport
from argus.collectors.job import Job
from argus.topology.layout import Topology


class NothingUsable(ValueError):
    """No file behind the paths could be analysed; one sentence a line."""


@dataclass(frozen=True, kw_only=True)
class Stack:
    """What some ranks were doing when the job stood still; `frames` innermost first."""

    what: str
    ranks: tuple[int, ...]
    frames: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Report:
    """What offline triage found; `diagnosis` is that of the costliest incident, or says there is none.

    `seen` is what others than the ranks told, `witnesses` the same as the analysis takes it, `series` what bare step times beside the ranks showed, `stop` is
    the incident of a job that stands still after its steps; where `is_end_first`, the diagnosis is of how a rank ended
    and no incident's. `what` says what was read where there are no windows.
    """

    job: Job
    topology: Topology
    windows: tuple[Window, ...]
    collectives: tuple[dict[str, Any], ...]
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]
    diagnosis: dict[str, Any]
    warnings: tuple[str, ...]
    what_if: WhatIf | None = None
    replayer: Replayer | None = None
    stacks: tuple[Stack, ...] = ()
    seen: Sequence[Mapping[str, Any]] = ()
    series: SeriesReport | None = None
    stop: Incident | None = None
    witnesses: Outside = NOTHING
    is_end_first: bool = False
    what: str = "flight-recorder dumps"

    def ideal_timeline(self) -> dict[str, Any] | None:
        """The ideal steps as a trace for Perfetto, None without pipeline records."""
        if self.replayer is None:
            return None
        return trace_of(self.replayer.operations, self.replayer.ideal, title="every operation at its ideal")

    @property
    def incident(self) -> Incident | None:
        """The incident of the diagnosis: the costliest; a job that stands still costs all of its ranks."""
        return self.stop or (None if self.is_end_first else costliest(self.incidents))

    def to_json(self) -> dict[str, Any]:
        """The object `argus triage --json` prints."""
        residual = max((window.clock_residual_s for window in self.windows), default=float("inf"))
        return {
            "world_size": self.job.world_size,
            "ranks_seen": list(self.job.ranks),
            "alignment": {
                "method": self.windows[-1].clock_method if self.windows else "durations",
                "residual_us": round(residual * 1e6, 3) if np.isfinite(residual) else None,
            },
            "collectives": list(self.collectives),
            "findings": [finding.to_json() for finding in self.findings],
            "incidents": [incident.to_json() for incident in self.incidents],
            "diagnosis": self.diagnosis,
            "warnings": list(self.warnings),
            **({"what_if": self.what_if.to_json()} if self.what_if else {}),
            **({"stacks": [asdict(stack) for stack in self.stacks]} if self.stacks else {}),
            **({"seen": list(self.seen)} if self.seen else {}),
            **({"series": self.series.to_json()["series"]} if self.series else {}),
        }


def costliest(incidents: Sequence[Incident]) -> Incident | None:
    """The incident that costs most a step, the first of equals; None without any."""
    order = sorted(incidents, key=lambda i: (-i.cost.s_per_step, i.opened_window, i.id))
    return order[0] if order else None
