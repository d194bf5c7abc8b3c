"""One live attempt in the memory of the analysis thread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from argus.analytics.history import Rolling
from argus.analytics.incident import Incident
from argus.analytics.kernels.tops import KernelTop
from argus.analytics.numbers import WindowNumbers
from argus.analytics.recurrence import Bout
from argus.analytics.run_diff import RunDiff
from argus.analytics.store.history import Rolled
from argus.analytics.store.progress import HeardBeat, LiveAttempt
from argus.api.claims import Claims
from argus.api.closing import Growth
from argus.api.course import Course
from argus.collectors.host.stepping import Level
from argus.topology.layout import Topology


@dataclass(kw_only=True)
class Watch:
    """What is known of a live attempt between two looks; `kept` holds its open incidents by id.

    `change` is what it differs in from the attempt before, `is_compared` whether that is known. `bouts` are those
    of its devices in the day before it, `other_runs` counts by rank the other runs its device was bad in. `past`
    holds by id of each open incident what earlier ones tell. `mixed` says that it is two jobs, "" while it is one.
    """

    live: LiveAttempt
    course: Course
    topology: Topology | None = None
    layouts_version: int = -1
    rebuild_s: float = 0.0
    heard: dict[int, HeardBeat] = field(default_factory=dict)
    hosts: dict[str, float] = field(default_factory=dict)
    kept: dict[str, Incident] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    numbers: WindowNumbers | None = None
    coverage_ratio: float | None = None
    overhead: Mapping[str, float] = field(default_factory=dict)
    dropped: int = 0
    scores: Mapping[tuple[int, str], float] = field(default_factory=dict)
    host_gaps: Mapping[int, float] = field(default_factory=dict)
    kernels: tuple[KernelTop, ...] = ()
    ranks_lost: int = 0
    missing: tuple[str, ...] = ()
    level: Level = field(default_factory=Level)
    trouble: str = ""
    claims: Claims = field(default_factory=Claims)
    mixed: str = ""
    launch: int = 0
    change: RunDiff | None = None
    is_compared: bool = False
    has_begun: bool = False
    bouts: tuple[Bout, ...] = ()
    drift_day: int = -1
    roll_s: float = 0.0
    write_s: float = 0.0
    growth: Growth = field(default_factory=Growth)
    rolled: Rolled = field(default_factory=Rolled)
    rolling: Rolling | None = None
    other_runs: Mapping[int, int] = field(default_factory=dict)
    past: dict[str, list[dict[str, object]]] = field(default_factory=dict)
