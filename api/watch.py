"""One live attempt in the memory of the analysis thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from argus.analytics.incident import Incident
from argus.analytics.store.numbers import WindowNumbers
from argus.analytics.store.progress import HeardBeat, LiveAttempt
from argus.api.course import Course
from argus.topology.layout import Topology


@dataclass(kw_only=True)
class Watch:
    """What is known of a live attempt between two looks.

    `kept` holds the incidents that are open in the store, by fingerprint: an incident goes on under the
    identity it was opened with, also when a restart rebuilt the analysis from a later window.
    """

    live: LiveAttempt
    course: Course
    topology: Topology | None = None
    layouts_version: int = -1
    heard: dict[int, HeardBeat] = field(default_factory=dict)
    hosts: dict[str, float] = field(default_factory=dict)
    kept: dict[str, Incident] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    numbers: WindowNumbers | None = None
    coverage_ratio: float | None = None
    ranks_lost: int = 0
    trouble: str = ""


def same_opening(incident: Incident, kept: Mapping[str, Incident]) -> Incident:
    """`incident` under the identity of the open one with its fingerprint, if there is one."""
    before = kept.get(incident.fingerprint)
    if before is None or before.id == incident.id:
        return incident
    return replace(
        incident,
        attempt=before.attempt,
        opened_window=before.opened_window,
        onset_step=min(before.onset_step, incident.onset_step),
    )
