"""What a host's processor says of itself with each upload of heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from argus.collectors.records.errors import WireError
from argus.collectors.records.number import finite
from argus.collectors.records.text import tame
from argus.collectors.records.upload import OLDEST_WIRE

MAX_ENTRIES = 128


@dataclass(frozen=True, kw_only=True)
class Report:
    """`parts` says of each part `ok` or why it sees nothing; `dropped` counts losses since the start.

    `wire` is the version of its uploads, the oldest that is read where it does not say. `bytes_per_rank_step` is what the raw ring takes for
    one step of one rank, 0 until known.
    """

    host: str
    version: str = ""
    wire: int = OLDEST_WIRE
    started_s: float = 0.0
    cpu_s: float = 0.0
    num_ranks: int = 0
    parts: Mapping[str, str] = field(default_factory=dict)
    dropped: Mapping[str, float] = field(default_factory=dict)
    off: tuple[str, ...] = ()
    spool_bytes: float = 0.0
    ring_bytes: float = 0.0
    bytes_per_rank_step: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """The report as JSON-ready dict."""
        # By hand: a service writes down hundreds a second, and asdict copies everything inside, deeply.
        told = {item.name: getattr(self, item.name) for item in fields(self)}
        return told | {"parts": dict(self.parts), "dropped": dict(self.dropped), "off": list(self.off)}

    @staticmethod
    def from_json(raw: object) -> Report:
        """Parse and check. Raises WireError."""
        if not isinstance(raw, dict):
            raise WireError("processor must be an object")
        numbers = ("started_s", "cpu_s", "spool_bytes", "ring_bytes", "bytes_per_rank_step")
        return Report(
            host=tame(raw.get("host", ""), 256),
            version=tame(raw.get("version", ""), 64),
            wire=int(_finite(raw.get("wire", OLDEST_WIRE))),
            num_ranks=int(_finite(raw.get("num_ranks", 0))),
            parts={tame(k, 64): tame(v, 300) for k, v in _entries(raw, "parts").items()},
            dropped={tame(k, 64): _finite(v) for k, v in _entries(raw, "dropped").items()},
            off=tuple(tame(run, 256) for run in _runs(raw.get("off", []))),
            **{name: _finite(raw.get(name, 0.0)) for name in numbers},
        )


def _entries(raw: Mapping[str, Any], key: str) -> dict[str, Any]:
    entries = raw.get(key, {})
    if not isinstance(entries, dict) or len(entries) > MAX_ENTRIES:
        raise WireError(f"processor.{key} must be an object of at most {MAX_ENTRIES} entries")
    return entries


def _runs(raw: object) -> list[object]:
    if not isinstance(raw, list | tuple) or len(raw) > MAX_ENTRIES:
        raise WireError(f"processor.off must be a list of at most {MAX_ENTRIES} runs")
    return list(raw)


def _finite(value: object) -> float:
    number = finite(value)
    if number is None:
        raise WireError(f"processor: expected a finite number, got {value!r:.40}")
    return number
