"""How the ranks' recordings end: with a goodbye, without one or cut off, and whose ends before the others'."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from argus.agent.wording import counted, ranks
from argus.collectors.job import Job
from argus.collectors.readers import Ending
from argus.collectors.records.events import RankRecords
from argus.topology.layout import Topology

FEW_STEPS = 2
"""Steps end in between the writers' turns: one step more or less tells nobody apart."""

STUCK = 10.0
"""A call or a step of ten medians is one that somebody was missing in. Without it files that end apart may be those of
a running job, copied one after the other."""

COPY_NS = 30_000_000_000
"""Files that end further apart than this were not copied from a running job at one go."""


@dataclass(frozen=True, kw_only=True)
class Ends:
    """How the job's recordings end; `headline` is "" where every rank said goodbye at the same place.

    `first` are the ranks whose records end before the others', `missing` says it beside another verdict.
    """

    headline: str = ""
    missing: tuple[str, ...] = ()
    first: tuple[int, ...] = ()


def ends_of(job: Job, topology: Topology) -> Ends:
    """The ends of the job's recordings; files of other sources do not say how their rank ended."""
    known = {rank: how for rank, how in job.endings.items() if how != Ending.UNTOLD}
    if not known:
        return Ends()
    how, why = _how(job, known)
    first, where = _first(job, topology, known)
    if first:
        records = f"{ranks(first)}'{'' if len(first) > 1 else 's'} records end first ({where})"
        if not how:
            return Ends(headline=records, missing=(records,), first=first)
        return Ends(headline=f"{records}; {how}", missing=(records, f"{how}: {why}"), first=first)
    if not how:
        return Ends()
    last = job.first_step + job.num_steps - 1
    headline = f"{how} ({why}); nobody stands out up to step {last:,}"
    return Ends(headline=headline, missing=(f"what came after step {last:,}: {how}, {why}",))


def _how(job: Job, known: Mapping[int, Ending]) -> tuple[str, str]:
    """What speaks against an end in order and what may be its reason, as phrases; "" if every rank said goodbye."""
    cut = tuple(rank for rank, ending in known.items() if ending == Ending.CUT)
    if cut:
        file = "recording is" if len(cut) == 1 else "recordings are"
        return f"the {file} cut off", f"that of {ranks(cut)}, by a full disk or in copying"
    full = tuple(rank for rank, ending in known.items() if ending == Ending.FULL)
    left = tuple(rank for rank, ending in known.items() if ending == Ending.OPEN)
    parts = [_full(full)] if full else []
    if left:
        who = "no rank said" if len(left) == len(known) else f"{ranks(left)} said no"
        parts.append((f"{who} goodbye", _raised(job) or "killed, failed or still running"))
    return " and ".join(how for how, _ in parts), ", ".join(why for _, why in parts)


def _full(of: Collection[int]) -> tuple[str, str]:
    what = "recording has reached its" if len(of) == 1 else "recordings have reached their"
    return f"the {what} size limit", f"that of {ranks(tuple(of))}, by --record-bytes"


def _raised(job: Job) -> str:
    """What ended the first program that raised anything; the others often fail for its absence. "" if none did."""
    told = [(status.ts_ns, rank, status.raised) for rank, status in job.statuses.items() if status.raised]
    if not told:
        return ""
    _, rank, raised = min(told)
    return f"rank {rank} raised {raised}" + (
        f", {counted(len(told) - 1, 'ranks')} after it" if len(told) > 1 else ""
    )


def _first(job: Job, topology: Topology, known: Mapping[int, Ending]) -> tuple[tuple[int, ...], str]:
    """Ranks whose records end first and where; none where that is the files' fault or may be a copy's."""
    if {Ending.CUT, Ending.FULL} & set(known.values()):
        return (), ""
    records = [one for one in job.records if one.layout.rank in known and len(one.steps)]
    by_calls = _first_by_calls(job, records, topology)
    if by_calls is not None:
        first, where, ahead = by_calls
    else:
        first, where, ahead = _first_by_steps(records)
    may_run = all(ending == Ending.OPEN for ending in known.values())
    if may_run and not any(_is_stuck(one, job) for one in records if one.layout.rank in ahead):
        ends = [_end_ns(one) for one in records]
        return (first, where) if ends and max(ends) - min(ends) > COPY_NS else ((), "")
    return first, where


def _first_by_calls(
    job: Job, records: Collection[RankRecords], topology: Topology
) -> tuple[tuple[int, ...], str, frozenset[int]] | None:
    """Ranks that lack a call of a group of theirs while nobody lacks one that they made, where, and who is ahead.

    A rank that waits for such a rank lacks the calls after it, but has entered one that the first never did.
    """
    behind: dict[int, str] = {}
    ahead: set[int] = set()
    for group, members in _entered(job, records, topology).items():
        furthest, least = max(members.values()), min(members.values())
        for rank, entered in members.items():
            if entered < furthest:
                behind.setdefault(rank, f"after call {entered:,} in {group}, others entered {furthest:,}")
            if entered > least:
                ahead.add(rank)
    first = tuple(sorted(behind.keys() - ahead))
    if not first or 2 * len(first) > len(records):
        return None
    return first, behind[first[0]], frozenset(ahead)


def _entered(job: Job, records: Collection[RankRecords], topology: Topology) -> dict[str, dict[int, int]]:
    """Calls each rank entered by group, for groups with two such ranks or more: as last said, or more by its rows."""
    counts: dict[str, dict[int, int]] = {}
    for one in records:
        rank, rows = one.layout.rank, one.collectives
        status = job.statuses.get(rank)
        mine = {name: pair[0] for name, pair in status.groups.items()} if status else {}
        rows = rows[rows["peer"] < 0]
        for index in np.unique(rows["group"]).tolist():
            name = one.name(index)
            mine[name] = max(mine.get(name, 0), int(rows["seq"][rows["group"] == index].max()) + 1)
        for name, entered in mine.items():
            if (group := topology.named.get((rank, name))) is not None:
                counts.setdefault(group.id, {})[rank] = entered
    return {group: members for group, members in sorted(counts.items()) if len(members) > 1}


def _first_by_steps(records: Collection[RankRecords]) -> tuple[tuple[int, ...], str, frozenset[int]]:
    """Ranks whose last step lies clearly before the others', where, and the others; none if most are like them."""
    steps = {one.layout.rank: int(one.steps["step"].max()) for one in records}
    last, least = max(steps.values(), default=0), min(steps.values(), default=0)
    first = tuple(rank for rank, step in steps.items() if step == least)
    if last - least < FEW_STEPS or 2 * len(first) > len(steps):
        return (), "", frozenset()
    return first, f"after step {least:,}, others went on to {last:,}", frozenset(steps.keys() - set(first))


def _is_stuck(one: RankRecords, job: Job) -> bool:
    """Whether a rank's last call took much longer than its others, or its last step was open for so long."""
    calls = one.collectives[one.collectives["peer"] < 0]
    took = calls["end_ns"] - calls["entry_ns"]
    if len(took) and took[np.argmax(calls["entry_ns"])] > STUCK * np.median(took):
        return True
    status = job.statuses.get(one.layout.rank)
    if status is None or not status.step_p50_ns or not status.step_since_ns:
        return False
    return status.ts_ns - status.step_since_ns > STUCK * status.step_p50_ns


def _end_ns(one: RankRecords) -> int:
    return int(one.steps["end_ns"].max())
