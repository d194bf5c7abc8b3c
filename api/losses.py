"""What a run lost, from the store or from files, ready to be printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from sqlalchemy import Connection

from argus.agent.forward import paragraph
from argus.analytics.call_replay import MAX_RANKS, what_if_gains
from argus.analytics.clocks import align
from argus.analytics.inefficiency import gains_of
from argus.analytics.lost_hours import Attempt, Hours, LostHours, lost_hours, open_s
from argus.analytics.numbers import WindowNumbers, window_numbers
from argus.analytics.store import asked, progress, queries
from argus.analytics.store.attempts import incidents_of, sampled_numbers, sampled_steps
from argus.analytics.waits import waits_of
from argus.analytics.whatif.shares import MAX_ERROR
from argus.analytics.window import Window, assemble
from argus.api.report import Report
from argus.collectors.job import Job
from argus.collectors.readers import Ending
from argus.collectors.records.heartbeat import Status
from argus.collectors.records.layout import MAX_WORLD
from argus.collectors.records.summary import RankWindow
from argus.topology.layout import build

MAX_WINDOWS = 1000
"""Windows of an attempt that are read; of a longer one every second, third, …, each standing for the others."""

REPLAYED_WINDOWS = 3
"""Windows of a recording whose calls are replayed; each takes about as long as it took to judge."""

MAX_ATTEMPTS = 50
"""Attempts of a run that are read, the latest."""

LEFT = "left out, one job is analysed at a time"
"""What is said of files of another attempt or launch."""

GAIN_WINDOWS = 40
"""Windows of an attempt that tell what each step pays for; of ten thousand ranks one is megabytes."""


Item = TypeVar("Item")


def stored_losses(connection: Connection, run: str) -> LostHours | None:
    """What a run of the service lost; None if no step of it is known."""
    attempts: list[Attempt] = []
    numbers: list[WindowNumbers] = []
    lacks: list[str] = []
    rows = queries.attempts(connection, run)
    if len(rows) > MAX_ATTEMPTS:
        lacks.append(f"{len(rows) - MAX_ATTEMPTS} older attempts")
    for row in rows[:MAX_ATTEMPTS]:
        which = queries.attempt_of(connection, run, attempt=row["attempt"])
        assert which is not None
        found, total = sampled_steps(connection, which.id, limit=MAX_WINDOWS)
        if total > len(found):
            lacks.append(
                f"{total - len(found)} of {total} windows of attempt {which.attempt} (sampled evenly)"
            )
        weight = total / len(found) if found else 1.0
        windows = [
            Hours(first_step=first, num_steps=num, job_step_s=steps, weight=weight)
            for first, num, steps in found
        ]
        numbers += sampled_numbers(connection, which.id, limit=GAIN_WINDOWS)
        attempts.append(
            Attempt(
                windows=windows,
                incidents=incidents_of(connection, which.id),
                world_size=row["world_size"] or 1,
                open_s=_stored_open_s(connection, which.id),
            )
        )
    world = max((attempt.world_size for attempt in attempts), default=1)
    by_calls = _by_calls(_stored_windows(connection, run))
    gains, unknown = gains_of(numbers, world_size=world, by_calls=by_calls)
    return lost_hours(run, attempts, gains=gains, lacks=(*lacks, *unknown, *_left_out(attempts)))


def file_losses(report: Report) -> LostHours | None:
    """What a recorded job lost; None if no step of it can be compared."""
    numbers = [window_numbers(window) for window in report.windows]
    windows = [
        Hours(first_step=window.first_step, num_steps=window.num_steps, job_step_s=one.job_step_s)
        for window, one in zip(report.windows, numbers, strict=True)
    ]
    job = report.job
    attempt = Attempt(
        windows=windows, incidents=report.incidents, world_size=job.world_size, open_s=_recorded_open_s(job)
    )
    gains, unknown = gains_of(
        numbers,
        world_size=report.job.world_size,
        replayed=report.what_if,
        by_calls=_by_calls(_some(report.windows)),
    )
    run = report.topology.run or "trace"
    return lost_hours(
        run, [attempt], gains=gains, lacks=(*unknown, *_left_out([attempt]), *_not_read(report))
    )


def _not_read(report: Report) -> tuple[str, ...]:
    """What else the files hold, or should: its hours are in no sum."""
    job = report.job
    absent = (f"{len(job.missing)} of {job.world_size} ranks",) if job.missing else ()
    return (
        *absent,
        *(
            ("other attempts and launches in the files",)
            if any(LEFT in one for one in report.warnings)
            else ()
        ),
    )


def _stored_open_s(connection: Connection, attempt_id: int) -> float:
    beats = queries.heartbeats(connection, attempt_id, limit=MAX_WORLD, offset=0).items
    if any(beat["state"] == "ended" for beat in beats):
        return 0.0
    return open_s([Status.from_json(beat["status"]) for beat in beats])


def _recorded_open_s(job: Job) -> float:
    if Ending.GOODBYE in job.endings.values():
        return 0.0
    last_end_ns = max(int(one.steps["end_ns"].max()) for one in job.records)
    return open_s(list(job.statuses.values()), last_end_ns=last_end_ns)


def _some(windows: Sequence[Item]) -> Sequence[Item]:
    """A few of them, evenly spread."""
    return windows[:: max(len(windows) // REPLAYED_WINDOWS, 1)][:REPLAYED_WINDOWS]


def _stored_windows(connection: Connection, run: str) -> list[Window]:
    """A few of the latest attempt's last windows with their calls; none of a job whose calls are too many to read."""
    which = queries.attempt_of(connection, run, attempt=None)
    layouts = progress.layouts_of(connection, which.id) if which is not None else []
    topology = build(layouts) if layouts else None
    if which is None or topology is None or topology.world_size > MAX_RANKS:
        return []
    found = []
    for row in _some(asked.analysed_windows(connection, which.id, limit=GAIN_WINDOWS, upto=None)):
        bodies = asked.bodies_of_ranks(connection, which.id, row["window"], ranks=topology.ranks)
        if bodies and not row["coverage"]["missing_ranks"]:
            found.append(align(assemble((RankWindow.from_bytes(body) for body in bodies), topology)))
    return found


def _by_calls(windows: Sequence[Window]) -> dict[str, float]:
    """Shares of the step by replay of the calls of windows, as far as these are replayed as they were."""
    found: dict[str, list[float]] = {}
    for window in windows:
        step_s = float(np.nanmedian(window.step_s)) if np.isfinite(window.step_s).any() else 0.0
        for name, gain in what_if_gains(window, waits_of(window)).items():
            if gain.error <= MAX_ERROR and step_s > 0:
                found.setdefault(name, []).append(min(gain.gain_s / step_s, 1.0))
    return {name: float(np.mean(shares)) for name, shares in found.items()}


def losses_json(found: LostHours) -> dict[str, Any]:
    """The JSON form with the paragraph to forward."""
    return {**found.to_json(), "paragraph": paragraph(found)}


def _left_out(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """Steps of the windows read that are no part of comparisons."""
    told = sum(window.num_steps for attempt in attempts for window in attempt.windows)
    used = sum(len(window.job_step_s) for attempt in attempts for window in attempt.windows)
    left = told - used
    return (f"{left} of {told} steps (warm-up, marks, disturbances of our own)",) if left > 0 else ()
