"""Missing ranks are said in every answer they concern: not to have looked is not to have found nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from argus.agent.evidence import Answer
from argus.agent.facts import WindowFact
from argus.topology.words import rank_list


def with_gaps(answer: Answer, window: WindowFact, *, asked: Sequence[int], world_size: int) -> Answer:
    """The answer as a `gap` if ranks it was asked about, or any rank where none is named, were not observed."""
    missing = set(window.missing_ranks)
    if asked and (away := sorted(missing & set(asked))):
        note = f"not observed in window {window.index}: ranks {rank_list(away)}"
    elif not asked and missing:
        note = f"not observed in window {window.index}: {len(missing)} of {world_size} ranks ({rank_list(missing)})"
    else:
        return answer
    note = f"{answer.note}; {note}" if answer.note else note
    return replace(answer, status="gap", note=note)
