"""The processor's report on itself, made from its counters."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from argus.collectors.host.counters import Counters
from argus.collectors.records.report import MAX_ENTRIES, Report
from argus.collectors.records.upload import WIRE_VERSION

LOSSES = (
    "argus_collector_dropped_events_total",
    "argus_collector_dropped_windows_total",
    "argus_collector_dropped_observations_total",
    "argus_collector_rejected_total",
    "argus_collector_stack_skipped_total",
)
"""Counters of what was lost; a report names each with its reason."""


def make_report(
    counters: Counters, *, host: str, started_s: float, parts: Mapping[str, str], off: Sequence[str]
) -> Report:
    """The state of things now."""
    values = counters.snapshot()
    dropped = {
        f"{name.removeprefix('argus_collector_').removesuffix('_total')} {reason}".strip(): value
        for (name, reason), value in sorted(values.items())
        if name in LOSSES and value
    }
    return Report(
        host=host,
        version=product_version(),
        wire=WIRE_VERSION,
        started_s=started_s,
        cpu_s=time.process_time(),
        num_ranks=int(values.get(("argus_collector_ranks", ""), 0)),
        parts=parts,
        dropped=dict(list(dropped.items())[:MAX_ENTRIES]),
        off=tuple(off[:MAX_ENTRIES]),
        spool_bytes=values.get(("argus_collector_spool_bytes", ""), 0.0),
        ring_bytes=values.get(("argus_collector_ring_bytes", ""), 0.0),
        bytes_per_rank_step=values.get(("argus_collector_ring_bytes_per_rank_step", ""), 0.0),
    )


def product_version() -> str:
    """The installed version, `unknown` in a bare tree."""
    try:
        return version("argus-triage")
    except PackageNotFoundError:
        return "unknown"
