"""A closed window read back from the store, and what of it is missing."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from argus.agent.wording import counted
from argus.analytics.clocks import align
from argus.analytics.store import kernels as kernel_store
from argus.analytics.store import progress
from argus.analytics.store.engine import Store
from argus.analytics.store.progress import WindowRow
from argus.analytics.window import Window, assemble
from argus.collectors.records.plan import DEFAULT_STEPS
from argus.collectors.records.summary import RankWindow
from argus.topology.layout import Topology

MAX_CELLS = 50_000_000
"""Rank × step × phase cells of one window: 10,240 ranks × 200 steps × 20 phases, 0.4 GB an array."""


def read_window(
    store: Store, attempt_id: int, row: WindowRow, *, topology: Topology, with_late: bool = False
) -> Window:
    """All that came in of a window before it closed, or at all, with what of it cannot be read.

    A window that the run ended in is as long as the run was in it: steps that never were are not missing.
    Raises ValueError if it is too large.
    """
    with store.read() as connection:
        bodies = progress.each_body(connection, attempt_id, row.window, with_late=with_late)
        stored = kernel_store.blobs_of(connection, attempt_id, row.window)
        blobs, refused = kernel_store.readable(stored)
        names = kernel_store.used_names(connection, blobs)
    parts = without_details(bodies)
    if not parts:
        raise ValueError("its records are not kept any more")
    parts = _as_far_as_run(store, attempt_id, row, parts)
    phases = {part.name(int(index)) for part in parts for index in set(part.cells["phase"].tolist())}
    cells = topology.world_size * row.num_steps * (len(phases) + 2)
    if cells > MAX_CELLS:
        raise ValueError(
            f"{topology.world_size} ranks × {row.num_steps} steps × {len(phases)} phases are {cells} cells, "
            f"the limit is {MAX_CELLS}"
        )
    window = replace(align(assemble(parts, topology)), kernels=blobs, kernel_names=names)
    unread = tuple(f"kernel summaries of {number} hosts: {reason}" for reason, number in refused.items())
    return replace(window, coverage=replace(window.coverage, unseen=(*window.coverage.unseen, *unread)))


def _as_far_as_run(
    store: Store, attempt_id: int, row: WindowRow, parts: list[RankWindow]
) -> list[RankWindow]:
    """The parts without the steps planned after the run's last: those of which nobody has one or is heard of in one.

    An end after fewer steps than the shortest window has stays a window that was mostly not seen: so few compare badly.
    """
    last = max((int(part.steps["step"].max()) for part in parts if len(part.steps)), default=-1)
    num_steps = last + 1 - row.first_step
    if not DEFAULT_STEPS <= num_steps < row.num_steps:
        return parts
    with store.read() as connection:
        heard = progress.beats_of(connection, attempt_id)
    if not heard or any(one.beat.status.step > last + 1 for one in heard):
        return parts
    return [_first_steps(part, num_steps) for part in parts]


def _first_steps(part: RankWindow, num_steps: int) -> RankWindow:
    """The summary of its first steps, without what began in the one after them."""
    end = part.first_step + num_steps
    return replace(
        part,
        num_steps=num_steps,
        cells=part.cells[part.cells["step"] < end],
        collectives=part.collectives[part.collectives["step"] < end],
        events=part.events[part.events["step"] < end],
    )


def without_details(bodies: Iterable[bytes]) -> list[RankWindow]:
    """The summaries without the phases inside modules, which are most of their bytes and nobody's here, and with one table
    of strings for all that have the same."""
    known: dict[tuple[str, ...], tuple[str, ...]] = {}
    return [_light(RankWindow.from_bytes(body), known) for body in bodies]


def _light(part: RankWindow, known: dict[tuple[str, ...], tuple[str, ...]]) -> RankWindow:
    return replace(
        part,
        names=known.setdefault(part.names, part.names),
        # Copies, for the arrays as they are read keep the whole body.
        steps=part.steps.copy(),
        cells=part.cells.copy(),
        collectives=part.collectives.copy(),
        events=part.events.copy(),
        details=part.details[:0].copy(),
    )


def missing_evidence(window: Window) -> tuple[str, ...]:
    """What a verdict on the window has to do without, as phrases."""
    coverage, missing = window.coverage, []
    if coverage.missing_ranks:
        missing.append(f"{len(coverage.missing_ranks)} of {len(window.ranks)} ranks")
    if not math.isfinite(window.clock_residual_s):
        missing.append("a common clock: no collective ties the ranks' clocks together")
    if dropped := sum(coverage.dropped.values()):
        missing.append(f"{counted(dropped, 'records')} the collectors dropped")
    return (*missing, *coverage.unseen)
