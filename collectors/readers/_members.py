"""Complete the groups of which each file tells one member only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
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


def _completed(reading: Reading, members: dict[str, set[int]], world: int) -> Reading:
    layout = reading.records.layout
    groups = tuple(
        GroupInfo(name=group.name, desc=group.desc, ranks=tuple(sorted(members[group.name])))
        for group in layout.groups
    )
    whole = replace(layout, groups=groups, world_size=max(world, layout.world_size))
    return replace(reading, records=replace(reading.records, layout=whole))
