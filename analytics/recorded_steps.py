"""The steps of an analysis without holes by the numbers the ranks gave them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.analytics.whatif.shares import WhatIf
from argus.analytics.window import Ints


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """`steps` are the recorded ones in order (step,); the analysis counts on from the first.

    >>> Numbers(steps=np.array([3, 4, 9, 10])).of(5)
    9
    """

    steps: Ints

    def of(self, place: int) -> int:
        """The rank's own number of a step; what lies outside the recorded ones goes on from the nearest."""
        at = place - int(self.steps[0])
        nearest = min(max(at, 0), len(self.steps) - 1)
        return int(self.steps[nearest]) + at - nearest

    def counted(self, told: WhatIf) -> WhatIf:
        """A replay of the records as they are, by the numbers of the analysis."""
        return replace(told, steps=int(self.steps[0]) + np.searchsorted(self.steps, told.steps))

    def told(
        self, findings: tuple[Finding, ...], incidents: tuple[Incident, ...]
    ) -> tuple[tuple[Finding, ...], tuple[Incident, ...]]:
        """What was found by the ranks' own numbers; a finding's id follows its step."""
        moved = tuple(
            replace(one, start_step=self._if_any(one.start_step), end_step=self._if_any(one.end_step))
            for one in findings
        )
        names = {old.id: new.id for old, new in zip(findings, moved, strict=True)}
        return moved, tuple(self._incident(one, names) for one in incidents)

    def _incident(self, incident: Incident, names: dict[str, str]) -> Incident:
        cause = replace(
            incident.cause,
            onset_step=self.of(incident.cause.onset_step),
            findings=tuple(names.get(one, one) for one in incident.cause.findings),
        )
        return replace(
            incident,
            cause=cause,
            onset_step=self.of(incident.onset_step),
            end_step=self._if_any(incident.end_step),
        )

    def _if_any(self, place: int | None) -> int | None:
        return None if place is None else self.of(place)
