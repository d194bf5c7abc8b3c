"""Complete what a file alone does not tell: the members of its groups, the ranks of its processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from argus.collectors.readers import Reading
from argus.collectors.records.layout import GroupInfo


def completed(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """The readings; a group of a name holds every rank that names it, in all files that do not know better."""
    readings = tuple(readings)
    members: dict[str, set[int]] = defaultdict(set)
    world = 0
    for reading in readings:
        if not reading.are_members_known:
            world = max(world, reading.records.layout.world_size)
            for group in reading.records.layout.groups:
                members[group.name] |= set(group.ranks)
    if not members:
        return readings
    return tuple(one if one.are_members_known else _completed(one, members, world) for one in readings)


def numbered(
    files: Iterable[tuple[str, Sequence[Reading]]],
) -> tuple[tuple[Reading, ...], tuple[str, ...]]:
    """All readings of named files, those that only count their processes numbered file after file; sentences."""
    placed, told, base = list[Reading](), list[str](), 0
    for name, readings in files:
        counted = [one for one in readings if not one.is_rank_known]
        placed += [one if one.is_rank_known else _moved(one, base) for one in readings]
        size = max((one.records.layout.rank + 1 for one in counted), default=0)
        if size:
            ranks = f"ranks {base} to {base + size - 1} are" if size > 1 else f"rank {base} is"
            told.append(f"{name}: {ranks} inferred from the order of the files and of their processes' GPUs")
        base += size
    return tuple(placed), tuple(told)


def _moved(reading: Reading, base: int) -> Reading:
    layout = reading.records.layout
    world = layout.world_size + base
    groups = tuple(
        replace(group, ranks=tuple(range(world)))
        if group.ranks == tuple(range(layout.world_size))
        else replace(group, ranks=tuple(rank + base for rank in group.ranks))
        for group in layout.groups
    )
    layout = replace(layout, rank=layout.rank + base, world_size=world, groups=groups)
    return replace(reading, records=replace(reading.records, layout=layout), is_rank_known=True)


def _completed(reading: Reading, members: dict[str, set[int]], world: int) -> Reading:
    layout = reading.records.layout
    groups = tuple(
        GroupInfo(name=group.name, desc=group.desc, ranks=tuple(sorted(members[group.name])))
        for group in layout.groups
    )
    whole = replace(layout, groups=groups, world_size=max(world, layout.world_size))
    return replace(reading, records=replace(reading.records, layout=whole))
