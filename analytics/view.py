"""What a detector sees: the window that just closed, what came before it, and the ranks' heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from argus.analytics.eras import Eras
from argus.analytics.kernels.digest import KernelDigest
from argus.analytics.outside import NOTHING, Outside
from argus.analytics.pauses import Pause
from argus.analytics.saves import Save
from argus.analytics.series.live import Heard, LiveSeries
from argus.analytics.waits import Waits
from argus.analytics.window import Floats, Ints, Window
from argus.analytics.work import Balance
from argus.collectors.records.heartbeat import Heartbeat
from argus.topology.fleet import Fleet
from argus.topology.layout import Topology

PAST_WINDOWS = 60
"""How many digests are kept: enough for a robust spread and for a shift that took half of them."""


@dataclass(frozen=True, kw_only=True)
class Digest:
    """What later windows need of an earlier one. Shapes as in Window; `late_s` (rank,).

    Everything is per usable step; NaN = not observed. (rank,): `step_s`, `own_s` = all self time of a rank
    including what lies outside its phases, `own_peers_s` = median of its peers, `late_s` = seconds the others
    waited on average because the rank was late by its own work, `late_share` = its excess over the peers' as
    share of the step, `waited_s`, `gc_s`. (phase, rank): `self_s`, `cpu_s`, `max_s` = largest step,
    `peers_s`. `dev`, `own_dev` = log of got over peers. `paths` are groups, then pairs of
    ranks as `sender>receiver` (`delays`). (path,): `transfer_s` = median transfer of a call, `transfer_sum_s` =
    transfer time a step. `flagged` ranks and `flagged_paths` say who was
    accused then and must not become part of what is normal; `doubted` and `doubted_paths` say who was
    suspected without an incident, which bars them only while the next windows vote. `kernels` is what L3
    keeps. `odd_hosts` stood out from the others in what their kernel measured. What a rank is compared with (`peers_s`, `own_peers_s`) is what the peers would take for its work, and
    `unsteady_s` (rank,) is the standard error of a rank's own work as its class varies from step to step;
    `late_s` leaves out lateness by more work, as far as the ranks tell their work; `balance` says how uneven it
    was, `pauses` are the long ones the runtime told of, `saves` the checkpoints most ranks wrote, `hiccups` the ranks
    that lost much in one or two steps alone. `amount` is the work of a step with its unit, as far as known, `pieces` the median rank's micro-batches of a step.
    """

    index: int
    first_step: int
    num_steps: int
    ranks: Ints
    steps: Ints
    job_step_s: Floats
    phases: tuple[str, ...]
    self_s: Floats
    late_s: Floats
    paths: tuple[str, ...]
    transfer_s: Floats
    transfer_sum_s: Floats
    step_s: Floats
    cpu_s: Floats
    max_s: Floats
    own_s: Floats
    peers_s: Floats
    own_peers_s: Floats
    dev: Floats
    own_dev: Floats
    late_share: Floats
    gc_s: Floats
    waited_s: Floats
    unsteady_s: Floats
    num_usable: int
    coverage: float
    sees_waits: bool
    flagged: tuple[int, ...] = ()
    flagged_paths: tuple[str, ...] = ()
    doubted: tuple[int, ...] = ()
    doubted_paths: tuple[str, ...] = ()
    kernels: KernelDigest | None = None
    odd_hosts: tuple[str, ...] = ()
    balance: Balance | None = None
    pauses: tuple[Pause, ...] = ()
    saves: tuple[Save, ...] = ()
    hiccups: tuple[int, ...] = ()
    amount: tuple[str, float] | None = None
    pieces: float = 0.0

    @cached_property
    def typical_step_s(self) -> float:
        """Median over ranks of the step time; NaN if no rank was seen."""
        seen = self.step_s[np.isfinite(self.step_s)]
        return float(np.median(seen)) if seen.size else float("nan")

    @property
    def is_clean(self) -> bool:
        """Nobody was suspected in this window."""
        return not self.flagged and not self.flagged_paths


@dataclass(frozen=True, kw_only=True)
class View:
    """One observation. `window` is None between windows, when only heartbeats are new.

    `past` holds the digests of earlier windows of this attempt, oldest first, `eras` what is left of those before; `now_s` is Unix time. `waits` and
    `digest` are those of `window`, made once for all detectors; a detector makes its own if they are None.
    `worth_s` = seconds a step the job would gain if a rank were healthy, by replay of its pipeline, None without
    pipeline records. `is_stopped` = the beats are a watchdog's last words: the job stands still for sure.
    `is_lone` = a recording too short for repetition: what stands out in it is named, and judged with care.
    `fleet` = the job's hardware where a loader told it. `moves` = Unix time by rank at which it last got on.
    `outside` = what others than the ranks told. `launch` is that of the findings.
    """

    run: str
    attempt: int
    topology: Topology
    now_s: float
    window: Window | None = None
    past: tuple[Digest, ...] = ()
    eras: Eras = field(default_factory=Eras)
    beats: tuple[Heartbeat, ...] = ()
    moves: Mapping[int, float] = field(default_factory=dict)
    series: LiveSeries = field(default_factory=LiveSeries)
    heard: Heard | None = None
    waits: Waits | None = None
    digest: Digest | None = None
    is_lone: bool = False
    worth_s: Mapping[int, float] | None = None
    is_stopped: bool = False
    fleet: Fleet | None = None
    outside: Outside = NOTHING
    launch: int = 0
