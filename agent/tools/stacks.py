"""What the threads of ranks were doing, equal stacks joined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Literal

from argus.agent.context import ToolContext, Unknown, as_of, fleet_of
from argus.agent.evidence import Answer, AsOf, Cut, Json
from argus.agent.rows import DOC_RUN, number
from argus.collectors.records.stacks import StackDump
from argus.collectors.records.text import tame
from argus.topology.words import rank_list

MAX_DUMPS = 256
"""Dumps read for one answer."""

MAX_ROWS = 8
MAX_FRAMES = 8
"""Innermost frames shown: what a thread does is there, how it came there is the same for all."""

MAX_FRAME = 90
MAX_RANKS = 16


def call(
    context: ToolContext,
    *,
    run: Annotated[str | None, DOC_RUN],
    ranks: Annotated[list[int] | None, "name suspects and two peers; null = all with dumps"],
    thread: Annotated[Literal["main", "autograd", "loader", "watchdog", "other"] | None, "null = main"],
) -> Answer:
    """Latest stack of a thread of each rank, ranks with the same stack together, innermost frame first.
    A stack of one rank alone says what it does; the stack all others share is usually waiting for it."""
    facts = context.of_run(run)
    asked = tuple(fleet_of(facts).topology.check_rank(rank) for rank in dict.fromkeys(ranks or ()))
    dumps = facts.stacks(ranks=asked, limit=MAX_DUMPS)
    if dumps is None:
        raise Unknown("no stacks are kept here")
    latest = {dump.rank: dump for dump in reversed(dumps)}
    if not latest:
        return Answer(
            status="gap" if asked else "no_data", note="no stack of these ranks came in", as_of=as_of(facts)
        )
    rows = _rows(latest.values(), kind=thread or "main")
    away = sorted(set(asked) - latest.keys())
    newest = max(latest.values(), key=lambda dump: dump.ts_s)
    return Answer(
        data={"num_ranks": len(latest), "stacks": rows[:MAX_ROWS]},
        status="gap" if away else "ok",
        note=f"no stack came in of ranks {rank_list(away)}" if away else "",
        as_of=AsOf(run=facts.run, attempt=facts.attempt, step=newest.step, time_s=newest.ts_s),
        cut=(Cut(path="/stacks", shown=MAX_ROWS, total=len(rows)),) if len(rows) > MAX_ROWS else (),
    )


Seen = tuple[tuple[str, ...], str, str, str]
"""Frames, state, where it sleeps in the kernel, why it was not seen."""


def _rows(dumps: Iterable[StackDump], *, kind: str) -> list[Json]:
    """Ranks by what the thread does, the rarest first: what one rank does alone is news."""
    same: dict[Seen, list[StackDump]] = defaultdict(list)
    for dump in dumps:
        for key in _seen(dump, kind):
            same[key].append(dump)
    rows = []
    for key, here in same.items():
        frames, state, wchan, error = key
        ranks = sorted({dump.rank for dump in here})
        rows.append(
            {
                "ranks": ranks[:MAX_RANKS],
                "num_ranks": len(ranks),
                "state": state,
                "wchan": wchan,
                "error": error,
                "reasons": sorted({dump.reason for dump in here}),
                "open_s": number(max(dump.open_s for dump in here)),
                "frames": list(frames),
            }
        )
    return sorted(rows, key=lambda row: (row["num_ranks"], row["ranks"]))


def _seen(dump: StackDump, kind: str) -> list[Seen]:
    """What the thread was seen at; why it was not, where the process did not answer."""
    if dump.error:
        return [((), "", "", tame(dump.error, MAX_FRAME))]
    return [
        (_frames(thread.stack), tame(thread.state, 4), tame(thread.wchan, 40), "")
        for thread in dump.threads
        if thread.kind == kind
    ]


def _frames(stack: str) -> tuple[str, ...]:
    frames = [frame for frame in stack.split(";") if frame]
    return tuple(tame(frame, MAX_FRAME) for frame in frames[: -MAX_FRAMES - 1 : -1])
