"""Ranks of traces that all state the same one of themselves, though their names tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from argus.collectors.readers import Reading
from argus.collectors.readers._folders import are_hosts
from argus.collectors.readers._profile import named_rank
from argus.collectors.records.events import empty
from argus.collectors.records.layout import MAX_WORLD

MAX_GAP_NS = 60 * 10**9
"""Traces of one profiled launch lie nearer to one another than this; those of several launches of one rank need not."""

File = tuple[str, Sequence[Reading]]


def told_by_names(files: Sequence[File]) -> tuple[list[File], tuple[str, ...]]:
    """The files with the ranks their names say, and a sentence about that, where what they state cannot be; else as
    they are.

    Only where every trace states one and the same rank, the names say different ones (or each lies in a host's folder
    of its own, as many as the world has ranks), and all were taken at about the same time.
    """
    found = [(Path(name), one) for name, readings in files for one in readings if _states_rank(one)]
    stated = {one.records.layout.rank for _, one in found}
    if len(found) < 2 or len(stated) != 1 or any(len(readings) > 1 for _, readings in files):
        return list(files), ()
    named = [named_rank(path)[0] for path, _ in found]
    ranks = [rank for rank in named if rank is not None]
    if not ranks and _has_folders(found):
        ranks = [0] * len(found)
    elif len(set(ranks)) < 2:
        return list(files), ()
    if len(ranks) < len(found) or max(ranks) >= MAX_WORLD or not _are_of_one_time(found, ranks):
        return list(files), ()
    rank_of = {id(one): rank for (_, one), rank in zip(found, ranks, strict=True)}
    least = max(ranks) + 1
    placed: list[File] = [
        (name, [_named(one, rank_of[id(one)], least) if id(one) in rank_of else one for one in readings])
        for name, readings in files
    ]
    told = f"all {len(found)} traces state rank {stated.pop()} of themselves: which is which is taken from their names"
    return placed, (told,)


def _states_rank(reading: Reading) -> bool:
    return reading.records.layout.source == "kineto" and not reading.is_rank_named


def _has_folders(found: Sequence[tuple[Path, Reading]]) -> bool:
    """Whether each trace lies in a host's folder of its own and they are the whole job."""
    folders = sorted({path.parent for path, _ in found}, key=lambda folder: (len(folder.name), folder.name))
    worlds = {one.records.layout.world_size for _, one in found}
    return len(folders) == len(found) and are_hosts(folders) and worlds == {len(found)}


def _are_of_one_time(found: Sequence[tuple[Path, Reading]], ranks: Sequence[int]) -> bool:
    """Whether no rank's traces all end long before another's begin: they could be one rank's, one launch after another."""
    begins: dict[int, int] = {}
    ends: dict[int, int] = {}
    for (_, one), rank in zip(found, ranks, strict=True):
        steps = one.records.steps
        begins[rank] = min(begins.get(rank, 1 << 62), int(steps["start_ns"].min()))
        ends[rank] = max(ends.get(rank, -(1 << 62)), int(steps["end_ns"].max()))
    return max(begins.values()) - min(ends.values()) < MAX_GAP_NS


def _named(reading: Reading, rank: int, least_world: int) -> Reading:
    """The reading as that rank's; groups that cannot be its own are left out."""
    records, stated = reading.records, reading.records.layout
    world = max(stated.world_size, least_world)
    groups = tuple(group for group in stated.groups if rank in group.ranks)
    if stated.world_size == 1:  # nobody else takes part in its calls
        groups, records = (), replace(records, collectives=empty("collectives"))
    layout = replace(stated, rank=rank, world_size=world, groups=groups)
    return replace(
        reading,
        records=replace(records, layout=layout),
        is_world_known=reading.is_world_known and world == stated.world_size,
        is_rank_named=True,
    )
