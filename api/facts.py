"""Facts of a run to compare it by, from the store or from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from argus.analytics.numbers import window_numbers
from argus.analytics.run_diff import RunDiff, diff_since_restart
from argus.analytics.run_facts import (
    WHOLE,
    KernelLevel,
    RunFacts,
    facts_of,
    kernel_levels,
    late_levels,
    step_level,
)
from argus.analytics.store import progress
from argus.analytics.store.attempts import attempt_before, kernel_window, numbers_of
from argus.analytics.store.queries import Which
from argus.analytics.window import Window
from argus.collectors.job import Job
from argus.collectors.records.errors import WireError
from argus.topology.layout import Topology, build

COMPARED_WINDOWS = 30
"""Windows of a run that stand for it: enough for a median that one fault of some minutes does not move."""

SETTLED_WINDOWS = 6
"""Windows of a new attempt before it is compared with the one before, less if it is much slower: the first two only
teach."""

START_UP = 2

UNMARKED = "step boundaries:"
"""How the sentence of a file without steps begins."""


def stored_facts(connection: Connection, which: Which) -> RunFacts | None:
    """Facts of an attempt over its last windows; None while no layout came in."""
    numbers = numbers_of(connection, which.id, first=START_UP, limit=COMPARED_WINDOWS) or numbers_of(
        connection, which.id, limit=COMPARED_WINDOWS
    )
    layouts = progress.layouts_of(connection, which.id)
    if not layouts:
        return None
    return facts_of(build(layouts), layouts, numbers, kernels=_stored_kernels(connection, which.id))


def change_since_restart(connection: Connection, which: Which) -> tuple[bool, RunDiff | None]:
    """Whether it can be told, and what the attempt's first windows differ in from the attempt before."""
    before = attempt_before(connection, which)
    if before is None:
        return True, None
    first = numbers_of(connection, which.id, first=START_UP, limit=SETTLED_WINDOWS - START_UP, newest=False)
    layouts = progress.layouts_of(connection, which.id)
    if not first or not layouts:
        return False, None
    old = stored_facts(connection, before)
    if old is None or old.step is None:
        return True, None
    new = facts_of(build(layouts), layouts, first, kernels=_stored_kernels(connection, which.id))
    change = diff_since_restart(old, new, first, enough=SETTLED_WINDOWS - START_UP)
    return change is not None, change


def _stored_kernels(connection: Connection, attempt_id: int) -> Mapping[str, KernelLevel]:
    found = kernel_window(connection, attempt_id)
    if found is None:
        return {}
    return _levels(found.blobs, names=found.names, num_steps=found.num_steps)


def _levels(blobs: Sequence[bytes], *, names: Mapping[int, str], num_steps: int) -> Mapping[str, KernelLevel]:
    try:
        return kernel_levels(blobs, names=names, num_steps=num_steps)
    except WireError:
        return {}  # the facts then say that kernels are lacking


def job_facts(job: Job, topology: Topology, windows: Sequence[Window]) -> RunFacts:
    """Facts of a recorded job."""
    with_kernels = next((window for window in reversed(windows) if window.kernels), None)
    kernels = (
        {}
        if with_kernels is None
        else _levels(with_kernels.kernels, names=with_kernels.kernel_names, num_steps=with_kernels.num_steps)
    )
    numbers = [window_numbers(window) for window in windows]
    layouts = [one.layout for one in job.records]
    facts = facts_of(topology, layouts, numbers, kernels=kernels, late=late_levels(windows))
    is_whole = any(text.startswith(UNMARKED) for one in job.records for text in one.unseen)
    return replace(facts, step=step_level(numbers), lacks=(*facts.lacks, *([WHOLE] if is_whole else ())))
