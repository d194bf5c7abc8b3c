"""What a detector sees: the window that just closed, what came before it, and the ranks' heartbeats."""

from __future__ import annotations

from dataclasses import dataclass

from argus.analytics.window import Floats, Ints, Window
from argus.collectors.records.heartbeat import Heartbeat
from argus.topology.layout import Topology

PAST_WINDOWS = 60
"""How many digests are kept: enough for a robust spread and for a shift that took half of them."""


@dataclass(frozen=True, kw_only=True)
class Digest:
    """What later windows need of an earlier one. Shapes as in Window; `late_s` (rank,).

    `late_s[r]` = seconds per usable step that others waited because rank r entered last.
    `self_s` (phase, rank) = self time per usable step. `transfer_s` (group,) = median transfer.
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
    groups: tuple[str, ...]
    transfer_s: Floats


@dataclass(frozen=True, kw_only=True)
class View:
    """One observation. `window` is None between windows, when only heartbeats are new.

    `past` holds the digests of earlier windows of this attempt, oldest first; `now_s` is Unix time.
    """

    run: str
    attempt: int
    topology: Topology
    now_s: float
    window: Window | None = None
    past: tuple[Digest, ...] = ()
    beats: tuple[Heartbeat, ...] = ()
