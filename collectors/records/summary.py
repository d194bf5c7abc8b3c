"""A rank's window: what one rank did over N whole steps, as its host uploads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from argus.collectors.records.cost import Cost, costs_from_json, costs_to_json
from argus.collectors.records.errors import NewerError, WireError
from argus.collectors.records.events import COLLECTIVE, EVENT, STEP, Rows, empty
from argus.collectors.records.kernel_blob import MAX_KERNEL_BYTES
from argus.collectors.records.number import finite
from argus.collectors.records.pack import pack, unpack
from argus.collectors.records.plan import MAX_STEPS
from argus.collectors.records.text import tame

SUMMARY_VERSION = 2
READABLE = (1, 2)
"""Versions this side reads: its own and the one before, which had no kernels."""

MAX_REASONS = 64
"""Reasons for losses that one window tells."""

MAX_USE = 64
MAX_MARKS = 64
"""What a host says of one rank's window: a few numbers and words."""

PHASE_CELL = np.dtype(
    [
        ("phase", "<u4"),  # canonical name, index into `names`
        ("native", "<u4"),  # the native name that took most of it
        ("step", "<i8"),
        ("count", "<u4"),
        ("clock", "u1"),
        ("sum_ns", "<i8"),
        ("max_ns", "<i8"),
        ("wait_ns", "<i8"),  # part of sum_ns blocked in communication
        ("cpu_ns", "<i8"),
    ]
)
"""Outermost phases of one name in one step, added up."""

_KERNELS = np.dtype("u1")
_DTYPES = {"steps": STEP, "cells": PHASE_CELL, "collectives": COLLECTIVE, "events": EVENT}
_LATER: dict[str, np.dtype[Any]] = {"details": PHASE_CELL}
"""Arrays that senders of the first release did not have."""


@dataclass(frozen=True, kw_only=True)
class RankWindow:
    """Steps [first_step, first_step + num_steps) of one rank; `steps` may hold fewer if some were lost.

    `dropped` counts records lost in this window by reason, `unseen` says what was not observable. `kernels`
    is a `kernel_blob` of this rank, or of several ranks of its host and this window; empty if there is none.
    `details` are phases inside the outermost ones, one cell per (phase, native, step): never add them up.
    `overhead` is what Argus costs by channel, as measured in the run so far. `use` is what the kernel did to
    the rank and its host in the window's time, per second of it (names of `host.use_track`), and `marks` what
    its GPU, ports and kernel log stated in words; both are empty where nobody looked.
    """

    run: str
    attempt: int
    rank: int
    window: int
    first_step: int
    num_steps: int
    host: str = ""
    names: tuple[str, ...] = ("",)
    steps: Rows = field(default_factory=lambda: empty("steps"))
    cells: Rows = field(default_factory=lambda: np.empty(0, PHASE_CELL))
    collectives: Rows = field(default_factory=lambda: empty("collectives"))
    events: Rows = field(default_factory=lambda: empty("events"))
    details: Rows = field(default_factory=lambda: np.empty(0, PHASE_CELL))
    overhead: Mapping[str, Cost] = field(default_factory=dict)
    channels_off: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    unseen: tuple[str, ...] = ()
    kernels: bytes = b""
    use: Mapping[str, float] = field(default_factory=dict)
    marks: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, int, int, int]:
        """What makes an upload of this window idempotent."""
        return (self.run, self.attempt, self.rank, self.window)

    def name(self, index: int) -> str:
        """The string behind a string column's value; "?" if out of the table."""
        return self.names[index] if 0 <= index < len(self.names) else "?"

    def with_loss(self, reason: str, num: int) -> RankWindow:
        """With records lost for one more reason; of so many that no more are read, one gives way."""
        others = {key: lost for key, lost in self.dropped.items() if key != reason}
        told = dict([*list(others.items())[: MAX_REASONS - 1], (reason, self.dropped.get(reason, 0) + num)])
        return replace(self, dropped=told)

    def to_bytes(self) -> bytes:
        """Versioned bytes that decode alone."""
        meta = {
            "version": SUMMARY_VERSION,
            "run": self.run,
            "attempt": self.attempt,
            "rank": self.rank,
            "window": self.window,
            "first_step": self.first_step,
            "num_steps": self.num_steps,
            "host": self.host,
            "names": list(self.names),
            "dropped": dict(self.dropped),
            "unseen": list(self.unseen),
            "overhead": costs_to_json(self.overhead),
            "channels_off": list(self.channels_off),
            "use": dict(self.use),
            "marks": list(self.marks[:MAX_MARKS]),
        }
        arrays = {name: (name, getattr(self, name)) for name in (*_DTYPES, *_LATER)}
        if self.kernels:
            arrays["kernels"] = ("kernels", np.frombuffer(self.kernels, _KERNELS))
        return pack(meta, arrays)

    @staticmethod
    def from_bytes(payload: bytes) -> RankWindow:
        """Parse and check what came over the wire. Raises WireError."""
        meta, arrays = unpack(payload, {**_DTYPES, **_LATER, "kernels": _KERNELS})
        _check_version(meta.get("version"))
        missing = [name for name in _DTYPES if name not in arrays]
        if missing:
            raise WireError(f"window lacks {', '.join(missing)}")
        num_steps = _count(meta, "num_steps")
        if not 1 <= num_steps <= MAX_STEPS:
            raise WireError(f"window.num_steps must be in [1, {MAX_STEPS}], got {num_steps}")
        window = RankWindow(
            run=_text(meta, "run"),
            attempt=_count(meta, "attempt"),
            rank=_count(meta, "rank"),
            window=_count(meta, "window"),
            first_step=_count(meta, "first_step"),
            num_steps=num_steps,
            host=_text(meta, "host"),
            names=_names(meta),
            unseen=_texts(meta, "unseen"),
            dropped=_counts(meta.get("dropped")),
            steps=arrays["steps"],
            cells=arrays["cells"],
            collectives=arrays["collectives"],
            events=arrays["events"],
            details=arrays.get("details", np.empty(0, PHASE_CELL)),
            overhead=costs_from_json(meta.get("overhead")),
            channels_off=_texts({"channels_off": [], **meta}, "channels_off"),
            # What is longer is refused by whoever opens it: its end is not worth a copy.
            kernels=arrays.get("kernels", np.empty(0, _KERNELS))[: MAX_KERNEL_BYTES + 1].tobytes(),
            use=_use(meta.get("use", {})),
            marks=tuple(tame(text, 200) for text in _texts({"marks": [], **meta}, "marks")[:MAX_MARKS]),
        )
        _check_steps(window)
        return window


def _check_version(version: object) -> None:
    text = f"window of version {version!r:.20}, this side reads {', '.join(map(str, READABLE))}"
    if isinstance(version, int) and not isinstance(version, bool) and version > max(READABLE):
        raise NewerError(f"{text}: upgrade this side before its senders")
    if version not in READABLE:
        raise WireError(text)


def _use(raw: object) -> dict[str, float]:
    if not isinstance(raw, dict) or len(raw) > MAX_USE:
        raise WireError(f"window.use must be an object of at most {MAX_USE} numbers")
    for name, value in raw.items():
        number = finite(value)
        if number is None or not 0 <= number <= 1e15 or len(name) > 64:
            raise WireError(
                f"window.use.{name!s:.64} must be a finite number of at least 0, got {value!r:.40}"
            )
    return {name: float(value) for name, value in raw.items()}


def _check_steps(window: RankWindow) -> None:
    low, high = window.first_step, window.first_step + window.num_steps
    steps = window.steps["step"].tolist()
    if steps and (min(steps) < low or max(steps) >= high or len(set(steps)) != len(steps)):
        raise WireError(f"window {window.window} of rank {window.rank} holds steps outside [{low}, {high})")
    for cells in (window.cells["step"], window.details["step"]):
        if len(cells) and (cells.min() < low or cells.max() >= high):
            raise WireError(
                f"window {window.window} of rank {window.rank} holds phases outside [{low}, {high})"
            )


def _count(meta: Mapping[str, Any], key: str) -> int:
    value = meta.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise WireError(f"window.{key} must be a count, got {value!r:.40}")
    return value


def _text(meta: Mapping[str, Any], key: str) -> str:
    value = meta.get(key)
    if not isinstance(value, str) or len(value) > 256:
        raise WireError(f"window.{key} must be a string of at most 256 characters")
    return value


def _texts(meta: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = meta.get(key)
    if not isinstance(value, list) or len(value) > 65536 or set(map(type, value)) - {str}:
        raise WireError(f"window.{key} must be a list of strings")
    return tuple(value) if max(map(len, value), default=0) <= 1024 else tuple(v[:1024] for v in value)


def _names(meta: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of phases and kernels come from whoever trains; /metrics and cards show them on terminals."""
    names = _texts(meta, "names")
    return names if all(map(str.isprintable, names)) else tuple(tame(name, 1024) for name in names)


def _counts(raw: object) -> dict[str, int]:
    if not isinstance(raw, dict) or len(raw) > MAX_REASONS:
        raise WireError(f"window.dropped must be an object of at most {MAX_REASONS} counts")
    if not all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in raw.values()):
        raise WireError("window.dropped must map reasons to counts")
    return {str(k)[:64]: v for k, v in raw.items()}
