"""Keeps the history of every GPU: adds an attempt's windows to it, looks for drift once a day."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from argus.analytics.drift import LENGTHS, Drift, drifts
from argus.analytics.finding import Evidence, Finding
from argus.analytics.history import OWN, UnitDays, day_of, days_of, kernel_days
from argus.analytics.outside import unit_of
from argus.analytics.store import history, progress
from argus.analytics.store.attempts import kernel_window
from argus.analytics.store.history import Unit
from argus.api.analysis import Means
from argus.api.watch import Watch
from argus.collectors.records.errors import WireError
from argus.topology.collect import gpu_id
from argus.topology.layout import Topology

WINDOWS_AT_ONCE = 60
"""Windows read at once: ten minutes of ten thousand ranks are a hundred megabytes."""

KERNELS_EVERY_S = 3600.0
"""How often one window's kernels are added: a day needs no more than 24."""

HOSTS_AT_ONCE = 500
"""Hosts whose days are looked at together: their noise is pooled, and memory stays bounded."""


def roll_up(means: Means, watch: Watch, *, now_s: float) -> None:
    """Add the attempt's windows that are not in the history yet."""
    topology, attempt_id = watch.topology, watch.live.row.id
    if topology is None:
        return
    while True:
        with means.store.read() as connection:
            mark = history.rolled(connection, attempt_id)
            windows = history.windows_after(connection, attempt_id, window=mark.window, limit=WINDOWS_AT_ONCE)
        if not windows:
            return
        parts = [days_of(topology, [(time_s, numbers) for _, time_s, numbers in windows])]
        mark = replace(mark, window=windows[-1][0])
        if now_s - mark.kernels_s >= KERNELS_EVERY_S:
            parts += _kernels(means, attempt_id, topology, now_s=now_s)
            mark = replace(mark, kernels_s=now_s)
        with means.store.write() as connection:
            history.add_days(connection, attempt_id, parts, mark=mark)
        if len(windows) < WINDOWS_AT_ONCE:
            return


def _kernels(means: Means, attempt_id: int, topology: Topology, *, now_s: float) -> list[UnitDays]:
    with means.store.read() as connection:
        found = kernel_window(connection, attempt_id)
    if found is None:
        return []
    try:
        return [kernel_days(topology, found.blobs, names=found.names, time_s=now_s)]
    except WireError:
        means.metrics.errors.labels(part="history").inc()
        return []


def look_for_drift(means: Means, watch: Watch, *, now_s: float) -> tuple[Finding, ...]:
    """Once a UTC day: GPUs of the attempt that have become slower day by day, saved as findings."""
    today, topology = day_of(now_s), watch.topology
    if topology is None or watch.drift_day >= today:
        return ()
    found: list[Finding] = []
    with means.store.read() as connection:
        rank_of = {unit_of(topology, rank): rank for rank in topology.ranks if topology.host_of(rank)}
        for units in _chunks(list(rank_of)):
            matrices = history.day_matrix(connection, units, last_day=today - 1, num_days=max(LENGTHS))
            days = np.arange(today - max(LENGTHS), today)
            for subject, values in sorted(matrices.items()):
                for drift in drifts(days, values, num_tests=len(rank_of) * len(matrices)):
                    rank = rank_of[units[drift.unit]]
                    found.append(_finding(watch, topology, rank, subject=subject, drift=drift))
    if found:
        with means.store.write() as connection:
            progress.add_findings(connection, watch.live.row.id, found, now_s=now_s)
    watch.drift_day = today
    return tuple(found)


def forget(means: Means, *, now_s: float) -> None:
    """Drop what is older than the setting."""
    before_s = now_s - means.settings.keep_history_s
    with means.store.write() as connection:
        history.forget_history(connection, before_s=before_s, before_day=day_of(before_s))


def _chunks(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    hosts = list(dict.fromkeys(host for host, _ in units))
    for start in range(0, len(hosts), HOSTS_AT_ONCE):
        part = set(hosts[start : start + HOSTS_AT_ONCE])
        yield [unit for unit in units if unit[0] in part]


def _finding(watch: Watch, topology: Topology, rank: int, *, subject: str, drift: Drift) -> Finding:
    """A notice, never more: a drift of weeks wakes nobody up."""
    row = watch.live.row
    kind, _, name = subject.partition(":")
    device = topology.devices.get(rank, "")
    host = topology.host_of(rank)
    return Finding(
        run=row.run,
        attempt=row.attempt,
        window=max(row.closed_window, 0),
        level="L3" if kind == "kernel" else "L2",
        detector="history",
        kind="drift",
        role="notice",
        ranks=(rank,),
        nodes=(*((gpu_id(host, device),) if device else ()), f"host:{host}"),
        phase=name if kind == "phase" else None,
        kernel=name if kind == "kernel" else None,
        ratio=float(np.exp(drift.level)),
        significance=drift.significance,
        evidence=(
            Evidence(
                name="drift_per_day",
                value=drift.slope,
                unit="share",
                note=f"{'all own work' if subject == OWN else name}, {drift.days} of {drift.length} days, "
                f"between {drift.low:.2%} and {drift.high:.2%}",
            ),
        ),
    )
