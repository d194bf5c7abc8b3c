"""What a host measured of itself over some seconds: pressure, throttling, run queues, GPUs, links, kernel log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from argus.collectors.records.errors import WireError
from argus.collectors.records.number import finite
from argus.collectors.records.text import tame

MAX_NUMBERS = 256
MAX_PARTS = 4096
MAX_EVENTS = 256
MAX_TEXTS = 64
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


@dataclass(frozen=True, kw_only=True)
class RankUse:
    """What the host's kernel says of one rank's process between two looks; steps as known at the end."""

    run: str
    attempt: int
    rank: int
    first_step: int
    last_step: int
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PartState:
    """One GPU (named by UUID) or one port (`mlx5_0/1`); `flags` are words such as throttle reasons."""

    name: str
    numbers: Mapping[str, float] = field(default_factory=dict)
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class KernelEvent:
    """One line of the kernel log that says something about hardware; `kind` is xid, sxid, aer or oom."""

    ts_s: float
    kind: str
    code: int = 0
    device: str = ""
    text: str = ""


KERNEL_EVENTS = ("xid", "sxid", "aer", "oom")


@dataclass(frozen=True, kw_only=True)
class HostSample:
    """Everything between `start_s` and `end_s` (Unix seconds of the host); counters are differences.

    Names carry their unit (`cpu_some_s`). What could not be read is missing, and `unseen` says why.
    """

    host: str
    start_s: float
    end_s: float
    numbers: Mapping[str, float] = field(default_factory=dict)
    ranks: tuple[RankUse, ...] = ()
    gpus: tuple[PartState, ...] = ()
    ports: tuple[PartState, ...] = ()
    events: tuple[KernelEvent, ...] = ()
    unseen: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The sample as JSON-ready dict."""
        return asdict(self)

    @staticmethod
    def from_json(raw: object) -> HostSample:
        """Parse and check. Raises WireError."""
        raw = _object(raw, "host sample")
        try:
            sample = HostSample(
                host=tame(raw["host"], 256),
                start_s=_finite(raw["start_s"]),
                end_s=_finite(raw["end_s"]),
                numbers=_numbers(raw.get("numbers", {})),
                ranks=tuple(_rank(item) for item in _list(raw, "ranks", MAX_PARTS)),
                gpus=tuple(_part(item) for item in _list(raw, "gpus", MAX_PARTS)),
                ports=tuple(_part(item) for item in _list(raw, "ports", MAX_PARTS)),
                events=tuple(_event(item) for item in _list(raw, "events", MAX_EVENTS)),
                unseen=tuple(tame(text, 200) for text in _list(raw, "unseen", MAX_TEXTS)),
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, WireError):
                raise
            raise WireError(f"host sample: {error!r:.120}") from None
        if not sample.host or not sample.start_s <= sample.end_s:
            raise WireError("host sample: it needs a host, and an end not before its start")
        return sample


def _rank(raw: object) -> RankUse:
    raw = _object(raw, "ranks")
    use = RankUse(
        run=tame(raw["run"], 256),
        attempt=int(raw["attempt"]),
        rank=int(raw["rank"]),
        first_step=int(raw["first_step"]),
        last_step=int(raw["last_step"]),
        numbers=_numbers(raw.get("numbers", {})),
    )
    if not (0 <= use.rank < 1 << 20 and 0 <= use.attempt < 1 << 31):
        raise WireError("host sample: rank or attempt out of range")
    return use


def _part(raw: object) -> PartState:
    raw = _object(raw, "part")
    flags = tuple(tame(flag, 64) for flag in _list(raw, "flags", MAX_TEXTS))
    return PartState(name=tame(raw["name"], 128), numbers=_numbers(raw.get("numbers", {})), flags=flags)


def _event(raw: object) -> KernelEvent:
    raw = _object(raw, "event")
    if raw.get("kind") not in KERNEL_EVENTS:
        raise WireError(f"host sample: unknown kind of event {raw.get('kind')!r:.40}")
    return KernelEvent(
        ts_s=_finite(raw["ts_s"]),
        kind=raw["kind"],
        code=int(raw.get("code", 0)),
        device=tame(raw.get("device", ""), 64),
        text=tame(raw.get("text", ""), 300),
    )


def _numbers(raw: object) -> dict[str, float]:
    raw = _object(raw, "numbers")
    if len(raw) > MAX_NUMBERS:
        raise WireError(f"host sample: more than {MAX_NUMBERS} numbers")
    for name in raw:
        if not _NAME.fullmatch(name):
            raise WireError(f"host sample: {name!r:.70} is no name of a number")
    return {name: _finite(value) for name, value in raw.items()}


def _finite(value: object) -> float:
    number = finite(value)
    if number is None:
        raise WireError(f"host sample: expected a finite number, got {value!r:.40}")
    return number


def _object(raw: object, key: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise WireError(f"{key} must be an object")
    return raw


def _list(raw: Mapping[str, Any], key: str, limit: int) -> list[Any]:
    items = raw.get(key, [])
    if not isinstance(items, list | tuple) or len(items) > limit:
        raise WireError(f"host sample: {key} must be a list of at most {limit}")
    return list(items)
