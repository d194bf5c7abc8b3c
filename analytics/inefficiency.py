"""What every step pays although nothing is broken: communication, bubbles, host gaps, imbalance, recompiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.numbers import WindowNumbers
from argus.analytics.whatif.operations import COMMUNICATION, P2P
from argus.analytics.whatif.shares import WhatIf
from argus.analytics.window import Floats
from argus.collectors.records.events import COMM_PHASES

PIPELINE_PHASES = ("pp_recv", "pp_send")

BOUND = "at most: the mean rank's time; what others wait for may take its place"
"""Method where nothing could be replayed: no more than this can be gained."""

REPLAY = "pipeline dependency replay"

CALL_REPLAY = "replay of the calls"

SPREAD = "spread of operations"
"""What a step would gain if every operation took what its like takes; only a replay can tell."""

NAMES = (
    "exposed communication",
    "pipeline bubbles",
    "host gaps",
    "expert imbalance",
    "length imbalance",
    "recompiles",
    "garbage collection",
)


@dataclass(frozen=True, kw_only=True)
class Gain:
    """One sort of cost: its share of the step, and what a step and a day would gain without it."""

    name: str
    share: float
    gain_s_per_step: float
    gpu_hours_per_day: float
    method: str
    note: str = ""


def gains_of(
    numbers: Sequence[WindowNumbers],
    *,
    world_size: int,
    replayed: WhatIf | None = None,
    by_calls: Mapping[str, float] | None = None,
) -> tuple[tuple[Gain, ...], tuple[str, ...]]:
    """Gains in the order of `NAMES`, and what could not be told; `by_calls` are shares by replay of windows' calls."""
    step_s = _typical(numbers)
    if step_s is None:
        return (), tuple(NAMES)
    measured: dict[str, tuple[float | None, str]] = {
        "exposed communication": (_mean_share(numbers, _exposed), "transfers and waits outside pipelines"),
        "pipeline bubbles": (_mean_share(numbers, _bubbles), "waits for the neighbouring stages"),
        "host gaps": (_told(numbers, "host_gap"), "share of the step in which the GPU had nothing to do"),
        "expert imbalance": (_mean_share(numbers, _experts), "waits in the experts' all-to-all"),
        "length imbalance": (_lengths(numbers), "the rank with most work beyond the mean"),
        "recompiles": (_told_s(numbers, "compile_s", step_s), _compiles(numbers)),
        "garbage collection": (_told_s(numbers, "gc_s", step_s), ""),
    }
    by_replay = {name: (share, CALL_REPLAY) for name, share in (by_calls or {}).items()} | _replayed(replayed)
    gains, lacks = [], []
    if SPREAD in by_replay:
        measured = {SPREAD: (None, "every operation at its ideal"), **measured}
    for name, (bound, note) in measured.items():
        share, method = by_replay.get(name, (bound, BOUND))
        if share is None:
            lacks.append(name)
            continue
        gains.append(
            Gain(
                name=name,
                share=share,
                gain_s_per_step=share * step_s,
                gpu_hours_per_day=share * 24.0 * world_size,
                method=method,
                note=note,
            )
        )
    return tuple(gains), tuple(lacks)


def _replayed(replayed: WhatIf | None) -> dict[str, tuple[float | None, str]]:
    """Shares of the step by replay of a pipeline's own timers, which goes before; what lies between pipelines' operations is no part of it."""
    if replayed is None or not replayed.is_close or replayed.sim_s <= 0:
        return {}
    loss = max(replayed.sim_s - replayed.ideal_s, 0.0) / replayed.sim_s
    others = [kind for kind in COMMUNICATION if kind not in P2P]
    communication = loss * sum(replayed.by_op.get(kind, 0.0) for kind in others)
    return {SPREAD: (loss, REPLAY), "exposed communication": (communication, REPLAY)}


def _typical(numbers: Sequence[WindowNumbers]) -> float | None:
    seen = [one.typical_step_s for one in numbers]
    known = [step for step in seen if step is not None]
    return float(np.median(known)) if known else None


def _mean_share(
    numbers: Sequence[WindowNumbers], seconds: Callable[[WindowNumbers], Floats | None]
) -> float | None:
    """Mean over windows and ranks of seconds over the step; None where no window has them."""
    shares = []
    for one in numbers:
        spent = seconds(one)
        if spent is None:
            continue
        ratio = spent / one.step_s
        if np.isfinite(ratio).any():
            shares.append(float(np.nanmean(np.where(np.isfinite(ratio), ratio, np.nan))))
    return float(np.clip(np.mean(shares), 0.0, 1.0)) if shares else None


def _exposed(one: WindowNumbers) -> Floats | None:
    """Communication phases whole, of the others the waiting in them; pipelines have a line of their own."""
    total = np.zeros(len(one.ranks))
    for index, phase in enumerate(one.phases):
        if phase not in PIPELINE_PHASES:
            total = total + (one.phase_s[index] if phase in COMM_PHASES else one.wait_s[index])
    return total if one.phases else None


def _bubbles(one: WindowNumbers) -> Floats | None:
    rows = [one.phase_s[i] for i, phase in enumerate(one.phases) if phase in PIPELINE_PHASES]
    return np.asarray(np.sum(rows, axis=0)) if rows else None


def _experts(one: WindowNumbers) -> Floats | None:
    rows = [one.wait_s[i] for i, phase in enumerate(one.phases) if phase == "ep_comm"]
    return np.asarray(np.sum(rows, axis=0)) if rows else None


def _lengths(numbers: Sequence[WindowNumbers]) -> float | None:
    """What the step is longer by because the rank with most work has more than the mean one."""
    shares = []
    for one in numbers:
        work = one.work
        if not np.isfinite(work).all() or not work.size or work.mean() <= 0:
            continue
        rows = [i for i, phase in enumerate(one.phases) if phase in ("forward", "backward")]
        own = np.maximum(one.phase_s[rows] - one.wait_s[rows], 0.0).sum(axis=0) / one.step_s
        if np.isfinite(own).any():
            shares.append((float(work.max() / work.mean()) - 1.0) * float(np.nanmean(own)))
    return float(np.clip(np.mean(shares), 0.0, 1.0)) if shares else None


def _told(numbers: Sequence[WindowNumbers], name: str) -> float | None:
    seen = [one.told[name] for one in numbers if name in one.told]
    return float(np.mean(seen)) if seen else None


def _told_s(numbers: Sequence[WindowNumbers], name: str, step_s: float) -> float | None:
    """Share of the step; a window without such an event has none of it, if any window has."""
    if not any(name in one.told for one in numbers):
        return None
    return min(float(np.mean([one.told.get(name, 0.0) for one in numbers])) / step_s, 1.0)


def _compiles(numbers: Sequence[WindowNumbers]) -> str:
    count = sum(one.told.get("compiles", 0.0) for one in numbers)
    return f"{count:.0f} compilations in the windows read" if count else ""
