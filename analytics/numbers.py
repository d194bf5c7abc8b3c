"""The numbers of a window that outlive its rank windows: per rank, what a chart or a scrape needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from argus.analytics.eras import Stretch
from argus.analytics.robust import middle
from argus.analytics.window import Bools, Floats, Ints, Window
from argus.analytics.work import WORK, amount
from argus.collectors.records.errors import WireError
from argus.collectors.records.pack import pack, unpack

_DTYPES: Mapping[str, np.dtype[Any]] = {
    "<i8": np.dtype("<i8"),
    "<f8": np.dtype("<f8"),
    "<f4": np.dtype("<f4"),
}


REACH = 1.25
"""How far back of an onset windows are shown, in parts of what came since: enough to see what was before."""


@dataclass(frozen=True, kw_only=True)
class WindowNumbers:
    """Seconds per usable step, NaN = not observed (means over the window's usable steps).

    Shapes: `ranks`, `step_s` (rank,), `phase_s`, `wait_s`, `cpu_s` (phase, rank), `job_step_s` (step,) =
    the slowest rank of each usable step. `work` (rank,) = units of work of a usable step as the job told them
    (tokens, else samples), NaN where it told none; `amount` that of the mean rank with its unit, `work.amount`. `told` are figures of the whole window from the runtime's own
    events: `compiles` (number), `compile_s` and `gc_s` (seconds a step of the mean rank), `host_gap` (mean share
    of a step in which a GPU had nothing to do), and of the hosts' clocks: `clock_residual_s`, `clock_offset_s`,
    `clock_drift`, `clocks_unusable` (ranks); what nobody told is missing.
    """

    ranks: Ints
    phases: tuple[str, ...]
    clocks: tuple[str, ...]
    step_s: Floats
    phase_s: Floats
    wait_s: Floats
    cpu_s: Floats
    job_step_s: Floats
    work: Floats
    told: Mapping[str, float] = field(default_factory=dict)
    amount: tuple[str, float] | None = None

    @property
    def typical_step_s(self) -> float | None:
        """Median step of the job; None if no step was seen."""
        seen = self.job_step_s[np.isfinite(self.job_step_s)]
        return float(np.median(seen)) if len(seen) else None

    def to_bytes(self) -> bytes:
        """Packed, readable alone."""
        arrays = {
            "ranks": ("<i8", self.ranks),
            "step_s": ("<f8", self.step_s),
            "job_step_s": ("<f8", self.job_step_s),
            "work": ("<f8", self.work),
            "phase_s": ("<f4", self.phase_s.astype("<f4").reshape(-1)),
            "wait_s": ("<f4", self.wait_s.astype("<f4").reshape(-1)),
            "cpu_s": ("<f4", self.cpu_s.astype("<f4").reshape(-1)),
        }
        meta = {
            "phases": list(self.phases),
            "clocks": list(self.clocks),
            "told": dict(self.told),
            "amount": self.amount,
        }
        return pack(meta, arrays)

    @staticmethod
    def from_bytes(payload: bytes) -> WindowNumbers:
        """Inverse of `to_bytes`. Raises WireError."""
        meta, arrays = unpack(payload, _DTYPES)
        try:
            return WindowNumbers._read(meta, arrays)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise WireError(f"no numbers of a window: {type(error).__name__}") from None

    @staticmethod
    def _read(meta: Mapping[str, Any], arrays: Mapping[str, Any]) -> WindowNumbers:
        phases = tuple(str(name) for name in meta["phases"])
        shape = (len(phases), len(arrays["ranks"]))
        square = {name: np.asarray(arrays[name], np.float64).reshape(shape) for name in _SQUARE}
        return WindowNumbers(
            ranks=np.asarray(arrays["ranks"], np.int64),
            phases=phases,
            clocks=tuple(str(clock) for clock in meta["clocks"]),
            step_s=np.asarray(arrays["step_s"], np.float64),
            job_step_s=np.asarray(arrays["job_step_s"], np.float64),
            phase_s=square["phase_s"],
            wait_s=square["wait_s"],
            cpu_s=square["cpu_s"],
            told={str(name): float(value) for name, value in meta.get("told", {}).items()},
            amount=_amount(meta.get("amount")),
            work=np.asarray(arrays.get("work", np.full(shape[1], np.nan)), np.float64),
        )


def apart(num: int, *, limit: int) -> int:
    """Every how many of the windows since an onset, `num` of them, `limit` reach back to before it.

    >>> apart(50, limit=120), apart(2500, limit=120)
    (1, 27)
    """
    return max(-(-round(num * REACH) // limit), 1)


def job_times(numbers: WindowNumbers, *, first_step: int, num_steps: int) -> Stretch | None:
    """What the whole job did in a window, of its numbers alone; None where no step was seen."""
    typical_s = numbers.typical_step_s
    if typical_s is None:
        return None
    own = numbers.phase_s - np.nan_to_num(numbers.wait_s)
    in_waits = np.nansum(numbers.wait_s, axis=0) if len(numbers.phases) else 0.0
    return Stretch(
        first_step=first_step,
        num_steps=num_steps,
        steps=np.array([first_step]),
        job_step_s=np.array([typical_s]),
        typical_step_s=middle(numbers.step_s),
        own_s=np.array([middle(numbers.step_s - in_waits)]),
        phases=numbers.phases,
        self_s=np.array([[middle(row)] for row in own]).reshape(len(numbers.phases), 1),
        amount=numbers.amount,
    )


def _amount(raw: Any) -> tuple[str, float] | None:
    return None if raw is None else (str(raw[0]), float(raw[1]))


def read_steps(payload: bytes) -> tuple[Ints, Floats, Floats]:
    """`ranks`, `step_s` and `job_step_s` of packed numbers, without the phases."""
    _, arrays = unpack(payload, _DTYPES)
    return (
        np.asarray(arrays["ranks"], np.int64),
        np.asarray(arrays["step_s"], np.float64),
        np.asarray(arrays["job_step_s"], np.float64),
    )


_SQUARE = ("phase_s", "wait_s", "cpu_s")


def window_numbers(window: Window) -> WindowNumbers:
    """Means of a window; all its steps where none is usable."""
    usable = window.usable if window.usable.any() else np.ones_like(window.usable)
    return WindowNumbers(
        ranks=window.ranks,
        phases=window.phases,
        clocks=tuple("gpu" if gpu else "wall" for gpu in window.clock_gpu),
        step_s=_mean(window.step_s[:, usable]),
        job_step_s=_slowest(window.step_s[:, usable]),
        phase_s=_mean(window.dur_s[:, :, usable]),
        wait_s=_mean(window.wait_s[:, :, usable]),
        cpu_s=_mean(window.cpu_s[:, :, usable]),
        work=_work(window, usable),
        told=_told(window, usable) | _clocks(window),
        amount=amount(window),
    )


def _clocks(window: Window) -> dict[str, float]:
    """What was found out about the hosts' clocks: the error that is left, the largest offset and drift that were
    taken out, and the ranks whose clock cannot be compared. Nothing for one host."""
    if window.clocks is None:
        return {}
    return {
        "clock_residual_s": window.clock_residual_s,
        "clock_offset_s": float(np.abs(window.clocks.offset_s).max(initial=0.0)),
        "clock_drift": float(np.abs(window.clocks.drift).max(initial=0.0)),
        "clocks_unusable": float((~np.isfinite(window.clocks.error_s)).sum()),
    }


def _told(window: Window, usable: Bools) -> dict[str, float]:
    """Figures from the runtime's events in usable steps."""
    kinds = {kind: window.events.of_kind(kind) for kind in ("compile", "gc", "host_gap")}
    here = {kind: np.isin(told.step, window.steps[usable]) for kind, told in kinds.items()}
    rank_steps = max(int(np.isfinite(window.step_s[:, usable]).sum()), 1)
    found: dict[str, float] = {}
    for kind, name in (("compile", "compile_s"), ("gc", "gc_s")):
        times = kinds[kind].dur_s[here[kind]]
        if np.isfinite(times).any():
            found[name] = float(times[np.isfinite(times)].sum()) / rank_steps
    if "compile_s" in found:
        found["compiles"] = float(here["compile"].sum())
    gaps = kinds["host_gap"].value[here["host_gap"]]
    if np.isfinite(gaps).any():
        found["host_gap"] = float(gaps[np.isfinite(gaps)].mean())
    return found


def _work(window: Window, usable: Bools) -> Floats:
    """Units a usable step, NaN where the rank told none. (rank,)"""
    events = window.events.of_kind(next((name for name in WORK if name in window.events.by_kind), ""))
    total = np.zeros(len(window.ranks))
    steps = window.steps[usable]
    counts = np.isin(events.step, steps)
    np.add.at(total, np.searchsorted(window.ranks, events.rank[counts]), events.value[counts])
    return np.where(total > 0, total / max(len(steps), 1), np.nan)


def _mean(values: Floats) -> Floats:
    """Over the last axis, of what was observed; NaN where nothing was."""
    count = np.isfinite(values).sum(axis=-1)
    total = np.nansum(values, axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _slowest(step_s: Floats) -> Floats:
    """Per step; NaN where no rank was observed."""
    slowest = np.where(np.isnan(step_s), -np.inf, step_s).max(axis=0, initial=-np.inf)
    return np.where(np.isfinite(slowest), slowest, np.nan)
