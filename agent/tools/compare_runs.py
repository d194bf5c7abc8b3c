"""What differs between two runs: environment, layout, hosts, step, phases, kernels."""

from __future__ import annotations

from typing import Annotated

from argus.agent.context import ToolContext, Unknown, as_of
from argus.agent.evidence import Answer, Cut, Json
from argus.agent.rows import DOC_RUN, number
from argus.agent.schema import ArgumentError
from argus.analytics.run_diff import Change, diff
from argus.collectors.records.text import tame

MAX_ROWS = 20
MAX_LACKS = 8


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    other: Annotated[str, "the run or attempt before, NAME or NAME#ATTEMPT"],
) -> Answer:
    """What changed from another run or attempt to this one: versions, settings, layout, hosts, step and phase
    times, kernels, the costliest first. For a job that is slower on all ranks since a restart or a change."""
    first, second = context.of_run(run), context.of_run(other)
    if (first.run, first.attempt) == (second.run, second.attempt):
        raise ArgumentError(f"run and other are the same: {first.run[:80]!r}, attempt {first.attempt}")
    after, before = first.compared(), second.compared()
    if after is None or before is None:
        raise Unknown("nothing of the environment of one of the runs is kept here")
    found = diff(before, after)
    rows = [_row(change) for change in found.changes]
    data = {"before": found.before, "after": found.after, "lacks": list(found.lacks[:MAX_LACKS])}
    cut = (Cut(path="/changes", shown=MAX_ROWS, total=len(rows)),) if len(rows) > MAX_ROWS else ()
    note = "nothing differs beyond its noise" if not rows else ""
    return Answer(
        data={**data, "changes": rows[:MAX_ROWS]},
        status="gap" if found.lacks else "ok",
        note="; ".join(
            filter(None, [note, "not compared: " + ", ".join(found.lacks[:4]) if found.lacks else ""])
        ),
        as_of=as_of(first),
        cut=cut,
    )


def _row(change: Change) -> Json:
    return {
        "section": change.section,
        "name": tame(change.name, 80),
        "before": _shown(change.before),
        "after": _shown(change.after),
        "ratio": number(change.ratio),
        "effect_s": number(change.effect_s),
    }


def _shown(value: str | float | None) -> str | float | None:
    return tame(value, 80) if isinstance(value, str) else number(value)
