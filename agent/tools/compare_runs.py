"""What differs between two runs: environment, layout, hosts, step, phases, kernels."""

from __future__ import annotations

from typing import Annotated

from argus.agent.context import ToolContext, Unknown
from argus.agent.evidence import Answer, AsOf
from argus.agent.rows import DOC_RUN
from argus.agent.schema import ArgumentError


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    other: Annotated[str, "the run to compare with"],
) -> Answer:
    """Differences between two runs: versions, settings, layout, hosts, step and phase times, kernels.
    For a job that is slower on all ranks since a restart or a change."""
    first, second = context.of_run(run), context.of_run(other)
    if first.run == second.run:
        raise ArgumentError(f"run and other are the same run, {first.run[:80]!r}")
    found = context.facts.compare_runs(first.run, second.run)
    if found is None:
        raise Unknown("runs cannot be compared here: nothing of a run's environment is kept")
    return Answer(data=found, as_of=AsOf(run=first.run, attempt=first.attempt))
