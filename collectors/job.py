"""Join what many files say into one job: each rank once, its calls numbered alike on all ranks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from argus.collectors.call_order import numbered
from argus.collectors.launches import of_other_times, one_job, one_launch
from argus.collectors.readers import Ending, Reading
from argus.collectors.records.events import DTYPES, STRING_COLUMNS, RankRecords, Rows
from argus.collectors.records.heartbeat import Status
from argus.collectors.records.layout import GroupInfo, Layout
from argus.collectors.step_numbers import in_one_count

Ints = NDArray[np.int64]

_ROWS = tuple(DTYPES)

_UNNAMED = frozenset({"kineto", "nsight", "nccl_inspector", "training_log"})
"""Sources whose files do not say the name of their run."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One attempt of one run; `records` are in rank order.

    `num_steps` counts the steps any rank recorded; a profiler's schedule leaves holes between them. `missing` are ranks
    of the world no file was given for. Each recorded rank `stands_for` that many from it on. `num_unmatched` calls were
    left out because the ranks' records disagree on them. `endings` says by rank how its last file ends,
    `statuses` what the rank last said of itself in it.
    """

    records: tuple[RankRecords, ...]
    world_size: int
    first_step: int
    num_steps: int
    warnings: tuple[str, ...]
    stands_for: int = 1
    num_unmatched: int = 0
    endings: Mapping[int, Ending] = field(default_factory=dict)
    statuses: Mapping[int, Status] = field(default_factory=dict)

    @property
    def steps(self) -> Ints:
        """Numbers of the steps any rank recorded, in order. (step,)"""
        return np.unique(
            np.concatenate([np.empty(0, np.int64), *(one.steps["step"] for one in self.records)])
        )

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that were read."""
        return tuple(one.layout.rank for one in self.records)

    @property
    def missing(self) -> tuple[int, ...]:
        """Ranks of the world that were not."""
        seen = {rank + i for rank in self.ranks for i in range(self.stands_for)}
        return tuple(sorted(set(range(self.world_size)) - seen))


def join(readings: Sequence[Reading], *, run: str = "") -> Job:
    """The job most ranks belong to; `run` names it if the files do not.

    ValueError without a reading that holds a step.
    """
    warnings: list[str] = []
    chosen = _one_attempt([r for r in readings if len(r.records.steps)], warnings)
    if not chosen:
        raise ValueError("no file holds a step of a rank")
    by_rank = _by_rank(one_launch(one_job(chosen, warnings), warnings), warnings)
    warnings += of_other_times(by_rank)
    by_rank = in_one_count(by_rank, warnings)
    world = _world(by_rank, warnings)
    records, unmatched = [_placed(reading, world=world, run=run) for _, reading in sorted(by_rank.items())], 0
    if not all(reading.is_seq_known for reading in by_rank.values()):
        records, unmatched = numbered(records, warnings)
    job = Job(
        records=tuple(records),
        world_size=world,
        first_step=min(int(one.steps["step"].min()) for one in records),
        num_steps=0,
        warnings=(),
        stands_for=min(reading.stands_for for reading in by_rank.values()),
        num_unmatched=unmatched,
        endings={rank: reading.ending for rank, reading in sorted(by_rank.items())},
        statuses={rank: one.status for rank, one in sorted(by_rank.items()) if one.status is not None},
    )
    return replace(job, num_steps=len(job.steps), warnings=(*warnings, *_coverage(job)))


def without_holes(job: Job) -> Job:
    """The job with its steps counted on from the first without the holes: the n-th recorded one is `first_step` + n.

    What lies in a hole has no step it could be compared in and is left out; stacks seen there are of the step before.
    """
    steps = job.steps
    if len(steps) < 2 or int(steps[-1]) - int(steps[0]) + 1 == len(steps):
        return job
    return replace(job, records=tuple(_closed_up(one, steps) for one in job.records))


def _closed_up(records: RankRecords, steps: Ints) -> RankRecords:
    moved: dict[str, Rows] = {}
    for kind in _ROWS:
        rows = getattr(records, kind)
        rows = rows[np.isin(rows["step"], steps)]
        rows["step"] = steps[0] + np.searchsorted(steps, rows["step"])
        moved[kind] = rows
    before = np.searchsorted(steps, [dump.step for dump in records.stacks], side="right") - 1
    stacks = tuple(
        replace(dump, step=int(steps[0] + place)) if place >= 0 else dump
        for dump, place in zip(records.stacks, before.tolist(), strict=True)
    )
    return replace(_with(records, moved), stacks=stacks)


def _one_attempt(readings: Sequence[Reading], warnings: list[str]) -> list[Reading]:
    """Readings of the attempt that most ranks belong to; the latest of equals."""
    by_attempt: dict[tuple[str, int], list[Reading]] = defaultdict(list)
    for reading in readings:
        by_attempt[reading.records.layout.run, reading.records.layout.attempt].append(reading)
    if not by_attempt:
        return []
    best = max(
        by_attempt, key=lambda key: (len({r.records.layout.rank for r in by_attempt[key]}), key[1], key)
    )
    for key in sorted(by_attempt):
        if key != best:
            names = ", ".join(reading.source for reading in by_attempt[key][:3])
            warnings.append(
                f"run {key[0]!r} attempt {key[1]} is left out, one job is analysed at a time ({names})"
            )
    return by_attempt[best]


def _by_rank(readings: Sequence[Reading], warnings: list[str]) -> dict[int, Reading]:
    """One reading a rank; further files add the steps the first does not hold."""
    by_rank: dict[int, Reading] = {}
    for reading in readings:
        rank = reading.records.layout.rank
        known = by_rank.get(rank)
        if known is None:
            by_rank[rank] = reading
            continue
        fresh = np.setdiff1d(reading.records.steps["step"], known.records.steps["step"])
        if len(fresh) < len(reading.records.steps):
            warnings.append(
                f"{reading.source} repeats steps of rank {rank} that {known.source} holds; the latter is used"
            )
        if len(fresh):
            joined = append(known.records, _only(reading.records, fresh))
            last = reading if fresh[-1] > known.records.steps["step"].max() else known
            by_rank[rank] = replace(
                known,
                records=joined,
                is_seq_known=known.is_seq_known and reading.is_seq_known,
                ending=last.ending,
                status=last.status,
            )
    return by_rank


def append(one: RankRecords, other: RankRecords) -> RankRecords:
    """Rows of both, the second's strings moved into the first's table, and groups that only the second names."""
    numbers = {name: i for i, name in enumerate(one.names)}
    move = np.array([numbers.setdefault(name, len(numbers)) for name in other.names], np.uint32)
    rows: dict[str, Rows] = {}
    for kind in _ROWS:
        theirs = getattr(other, kind).copy()
        for column in STRING_COLUMNS[kind]:
            theirs[column] = move[np.minimum(theirs[column], len(move) - 1)]
        rows[kind] = np.concatenate([getattr(one, kind), theirs])
    return replace(
        _with(one, rows),
        layout=_with_groups(one.layout, other.layout),
        names=tuple(numbers),
        dropped=Counter(one.dropped) + Counter(other.dropped),
        unseen=tuple(dict.fromkeys([*one.unseen, *other.unseen])),
        looks=tuple(sorted([*one.looks, *other.looks], key=lambda look: look.ts_s)),
        stacks=(*one.stacks, *other.stacks),
    )


def _with_groups(one: Layout, other: Layout) -> Layout:
    """The first layout with the groups whose calls began later: a profile names those of its own calls."""
    known = {group.name for group in one.groups}
    return replace(one, groups=(*one.groups, *(group for group in other.groups if group.name not in known)))


def _only(records: RankRecords, steps: Ints) -> RankRecords:
    rows = {kind: getattr(records, kind) for kind in _ROWS}
    return _with(records, {kind: part[np.isin(part["step"], steps)] for kind, part in rows.items()})


def _with(records: RankRecords, rows: Mapping[str, Rows]) -> RankRecords:
    return replace(
        records,
        steps=rows["steps"],
        phases=rows["phases"],
        collectives=rows["collectives"],
        kernels=rows["kernels"],
        events=rows["events"],
    )


def _world(by_rank: Mapping[int, Reading], warnings: list[str]) -> int:
    stated = Counter(r.records.layout.world_size for r in by_rank.values() if r.is_world_known)
    at_least = max(by_rank) + 1
    if not stated:
        # A file's own least is that of the ranks its calls name.
        at_least = max(at_least, *(r.records.layout.world_size for r in by_rank.values()))
        if len(by_rank) > 1 or at_least > 1:
            warnings.append(f"no file says how many ranks the job has; {at_least} is the least it can be")
        return at_least
    if len(stated) > 1:
        sizes = ", ".join(str(size) for size in sorted(stated))
        warnings.append(f"the files state different world sizes ({sizes}); they may be of different jobs")
    return max(at_least, stated.most_common(1)[0][0])


def _placed(reading: Reading, *, world: int, run: str) -> RankRecords:
    """The reading with the job's world and name; a clock of its own where the file's is not absolute."""
    layout = reading.records.layout
    everyone = tuple(range(layout.world_size))
    groups = tuple(
        GroupInfo(name=g.name, desc=g.desc, ranks=tuple(range(world)))
        if g.ranks == everyone and not reading.is_world_known
        else g
        for g in layout.groups
    )
    named = replace(
        layout,
        world_size=world,
        groups=groups,
        run=run if run and layout.source in _UNNAMED else layout.run,
        host=layout.host if reading.is_time_known else "",
    )
    return replace(reading.records, layout=named)


def _coverage(job: Job) -> list[str]:
    missing = job.missing
    if not missing:
        return []
    shown = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
    noun = "rank is" if len(missing) == 1 else "ranks are"
    return [f"{len(missing)} of {job.world_size} {noun} missing: {shown}"]
