"""What a host saw of one of its ranks at one moment, as a recording keeps it beside the rank's own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from argus.collectors.records.errors import WireError
from argus.collectors.records.host_sample import HostSample

MAX_NUMBERS = 64
MAX_THREADS = 4096
MAX_VALUE = 1e15


@dataclass(frozen=True, kw_only=True)
class HostLook:
    """Counters of the kernel at `ts_s` (Unix seconds of the host): what lies between two looks is their difference.

    `host` counts for the whole host, `whole` for the rank's process `pid`, `run_delay_s` by its threads.
    `sample` is what the host's devices and kernel log said lately, without its ranks.
    """

    ts_s: float
    pid: int
    host: Mapping[str, float] = field(default_factory=dict)
    whole: Mapping[str, float] = field(default_factory=dict)
    run_delay_s: Mapping[int, float] = field(default_factory=dict)
    sample: HostSample | None = None

    def to_json(self) -> dict[str, Any]:
        """The look as JSON-ready dict."""
        return {
            "ts_s": self.ts_s,
            "pid": self.pid,
            "host": dict(self.host),
            "whole": dict(self.whole),
            "run_delay_s": {str(tid): delay_s for tid, delay_s in self.run_delay_s.items()},
            "sample": None if self.sample is None else self.sample.to_json(),
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> HostLook:
        """Parse and check. Raises WireError."""
        pid, sample = raw.get("pid"), raw.get("sample")
        if not isinstance(pid, int) or isinstance(pid, bool) or not 0 <= pid < 1 << 31:
            raise WireError(f"host look: pid must be a process number, got {pid!r:.40}")
        threads = _numbers(raw, "run_delay_s", MAX_THREADS)
        if not all(tid.isdecimal() and len(tid) <= 10 for tid in threads):
            raise WireError("host look: run_delay_s must map thread numbers")
        return HostLook(
            ts_s=_finite(raw.get("ts_s"), "ts_s"),
            pid=pid,
            host=_numbers(raw, "host", MAX_NUMBERS),
            whole=_numbers(raw, "whole", MAX_NUMBERS),
            run_delay_s={int(tid): delay_s for tid, delay_s in threads.items()},
            sample=None if sample is None else HostSample.from_json(sample),
        )


def _numbers(raw: Mapping[str, Any], key: str, limit: int) -> dict[str, float]:
    items = raw.get(key)
    if not isinstance(items, dict) or len(items) > limit:
        raise WireError(f"host look: {key} must be an object of at most {limit} numbers")
    return {str(name)[:64]: _finite(value, key) for name, value in items.items()}


def _finite(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_VALUE:
        raise WireError(f"host look: {key} must be a finite number of at least 0, got {value!r:.40}")
    return float(value)
