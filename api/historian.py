"""Keeps the history of every GPU: adds an attempt's windows to it, looks for drift once a day."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from argus.analytics.drift import LENGTHS, MIN_SLOPE, Drift, drifts
from argus.analytics.finding import Evidence, Finding
from argus.analytics.history import OWN, Rolling, UnitDays, day_of, kernel_days
from argus.analytics.outside import unit_of
from argus.analytics.store import history, progress
from argus.analytics.store.attempts import kernel_window
from argus.api.analysis import Means
from argus.api.watch import Watch
from argus.collectors.records.errors import WireError
from argus.topology.collect import gpu_id
from argus.topology.layout import Topology

WINDOWS_AT_ONCE = 8
"""Windows added up at a time: of ten thousand ranks one takes 50 ms, and other windows wait meanwhile."""

WRITE_EVERY_S = 3600.0
"""How often the sums are written: rows are many, whatever lies behind them, and a day has one of each."""

KERNELS_EVERY_S = 3600.0
"""How often one window's kernels are added: a day needs no more than 24."""

MAX_SUSPECTS = 500
"""GPUs and subjects looked at closely, those that rose most; the rest only tells the noise."""

NOISE_UNITS = 500
"""GPUs whose days tell the noise of all."""


def roll_up(means: Means, watch: Watch, *, now_s: float, is_last: bool = False) -> None:
    """Add up the attempt's next windows, and write the sums when it is time or nothing more will come.

    What was not written when the service ends is read again: the store remembers how far it was.
    """
    if watch.topology is None:
        return
    if watch.rolling is not None and watch.rolling.topology is not watch.topology:
        _write(means, watch, now_s=now_s)
    if watch.rolling is None:
        with means.store.read() as connection:
            watch.rolled = history.rolled(connection, watch.live.row.id)
        watch.rolling = Rolling(topology=watch.topology)
        watch.write_s = watch.write_s or now_s + WRITE_EVERY_S
    while _fold(means, watch) and is_last:
        pass
    if watch.rolling.totals and (is_last or now_s >= watch.write_s):
        _write(means, watch, now_s=now_s)


def _fold(means: Means, watch: Watch) -> bool:
    """Add a few windows up; whether there were any."""
    assert watch.rolling is not None
    with means.store.read() as connection:
        windows = history.windows_after(
            connection, watch.live.row.id, window=watch.rolled.window, limit=WINDOWS_AT_ONCE
        )
    for window, time_s, numbers in windows:
        watch.rolling.add(numbers, time_s=time_s)
        watch.rolled = replace(watch.rolled, window=window)
    return bool(windows)


def _write(means: Means, watch: Watch, *, now_s: float) -> None:
    assert watch.rolling is not None
    parts, topology = [watch.rolling.rows()], watch.rolling.topology
    mark = watch.rolled
    if now_s - mark.kernels_s >= KERNELS_EVERY_S:
        parts += _kernels(means, watch.live.row.id, topology, now_s=now_s)
        mark = replace(mark, kernels_s=now_s)
    with means.store.write() as connection:
        history.add_days(connection, watch.live.row.id, parts, mark=mark)
    watch.rolling, watch.write_s = None, now_s + WRITE_EVERY_S


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
    watch.drift_day = today
    rank_of = {unit_of(topology, rank): rank for rank in topology.ranks if topology.host_of(rank)}
    days = np.arange(today - max(LENGTHS), today)
    found: list[Finding] = []
    with means.store.read() as connection:
        risen, num_tests = history.risen(
            connection, last_day=today - 1, num_days=min(LENGTHS), least=MIN_SLOPE, limit=MAX_SUSPECTS
        )
        suspects = [row for row in risen if row[:2] in rank_of]
        others = list(rank_of)[:NOISE_UNITS] if suspects else []
        units = list(dict.fromkeys([*(row[:2] for row in suspects), *others]))
        matrices = history.day_matrix(connection, units, last_day=today - 1, num_days=max(LENGTHS))
    place = {unit: index for index, unit in enumerate(units)}
    for subject in sorted({row[2] for row in suspects}):
        wanted = {place[row[:2]] for row in suspects if row[2] == subject}
        for drift in drifts(days, matrices[subject], num_tests=max(num_tests, 1)):
            if drift.unit in wanted:
                rank = rank_of[units[drift.unit]]
                found.append(_finding(watch, topology, rank, subject=subject, drift=drift))
    if found:
        with means.store.write() as connection:
            progress.add_findings(connection, watch.live.row.id, found, now_s=now_s)
    return tuple(found)


def forget(means: Means, *, now_s: float) -> None:
    """Drop what is older than the setting."""
    before_s = now_s - means.settings.keep_history_s
    with means.store.write() as connection:
        history.forget_history(connection, before_s=before_s, before_day=day_of(before_s))


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
        launch=watch.launch,
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
