"""Ask the hosts of a few ranks for their raw windows: the one tool with an effect."""

from __future__ import annotations

from typing import Annotated

from argus.agent.context import Denied, ToolContext, as_of, fleet_of
from argus.agent.evidence import Answer
from argus.agent.rows import DOC_RUN
from argus.agent.schema import ArgumentError

READ_ONLY = False
SCOPE = "capture"

MAX_RANKS = 8
"""Ranks of one order: suspects and a few peers."""

MAX_WINDOWS = 3


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    ranks: Annotated[list[int], "suspects and two peers, at most 8"],
    windows: Annotated[int | None, "last windows, at most 3; null = 1"],
) -> Answer:
    """Order the raw records of ranks over their last windows for a person to open in Perfetto. Returns at
    once with the capture's id; each host grants only a few an hour. Changes nothing of the training."""
    facts = context.of_run(run)
    fleet = fleet_of(facts)
    asked = tuple(sorted({fleet.topology.check_rank(rank) for rank in ranks}))
    if not 1 <= len(asked) <= MAX_RANKS:
        raise ArgumentError(f"ranks must name 1 to {MAX_RANKS} ranks, got {len(asked)}")
    if context.capture is None:
        return Answer(status="denied", note="no processors can be asked from here: this is a recording")
    last = max(1, min(windows or 1, MAX_WINDOWS))
    try:
        ordered = context.capture(facts.run, facts.attempt, asked, last)
    except Denied as error:
        return Answer(status="denied", note=str(error)[:300], as_of=as_of(facts))
    return Answer(data=ordered, as_of=as_of(facts))
