"""Tell the launches of one job apart when their files lie together: one of them is analysed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from argus.collectors.readers import Reading

Source = tuple[str, int]
"""What wrote the files, and the rank they are of: clocks and process ids are only compared within it."""

Span = tuple[int, int]
"""First start and last end, ns."""

CLEARLY_NEARER = 10
"""A launch whose files lie beside all of the yardstick's belongs to the nearest only if that is as many times nearer
than the next: hosts' clocks differ, but not by the time between two launches."""


PROFILED = frozenset({"kineto", "nsight"})
"""Sources whose steps each rank's own profiler numbers, in files that a person collects."""

FAR_NS = 120 * 10**9
"""Hosts' clocks that differ by two minutes are as rare as two launches within them."""

YEAR_2000_NS = 946_684_800 * 10**9


def one_job(readings: Sequence[Reading], warnings: list[str]) -> list[Reading]:
    """Readings of the job that most ranks belong to, the latest of equals, where profiles state numbers of ranks that
    differ and tell of one rank twice: they are of several jobs, which are named in `warnings`.
    """
    by_world: dict[int, list[Reading]] = defaultdict(list)
    for reading in readings:
        if reading.is_world_known and reading.records.layout.source in PROFILED:
            by_world[reading.records.layout.world_size].append(reading)
    ranks = {world: {one.records.layout.rank for one in of} for world, of in by_world.items()}
    if sum(map(len, ranks.values())) == len(set[int]().union(*ranks.values())):
        return list(readings)
    best = max(by_world, key=lambda world: (len(ranks[world]), _span(by_world[world])[0]))
    for world, of in sorted(by_world.items()):
        if world != best:
            named = _named([one.source for one in of])
            warnings.append(f"{named} of a job of {world} ranks and left out, one job is analysed at a time")
    others = {id(one) for world, of in by_world.items() if world != best for one in of}
    return [reading for reading in readings if id(reading) not in others]


def one_launch(readings: Sequence[Reading], warnings: list[str]) -> list[Reading]:
    """Readings of the launch that most ranks belong to, the latest of equals; the others are named in `warnings`.

    All of a rank's files are of one launch if its process and host are one and its steps go on from file to file.
    A file without a time that can be compared is kept: nothing speaks against it.
    """
    by_source: dict[Source, list[Reading]] = defaultdict(list)
    for reading in readings:
        if reading.is_time_known and len(reading.records.steps):
            by_source[reading.records.layout.source, reading.records.layout.rank].append(reading)
    launches = {source: _launches(of) for source, of in by_source.items()}
    most = max(map(len, launches.values()), default=0)
    if most < 2:
        return list(readings)
    placed = _placed(launches, most=most)
    num_ranks = Counter(at for at, _ in {(at, r.records.layout.rank) for at, r in placed})
    best = max(range(most), key=lambda at: (num_ranks[at], at))
    at_of = {id(reading): at for at, reading in placed}
    for at in (*range(most), -1):
        if at != best and (out := [r.source for found, r in placed if found == at]):
            warnings.append(_left_out(out, at=at, best=best))
    return [reading for reading in readings if at_of.get(id(reading), best) == best]


def of_other_times(by_rank: Mapping[int, Reading]) -> list[str]:
    """A sentence about profiles that were taken long before or after those of most ranks: their calls are matched all
    the same, for hosts' clocks may be wrong.

    Only times since 1970 are compared: a clock that counts from the host's start says nothing.
    """
    spans = {
        rank: _span([reading])
        for rank, reading in by_rank.items()
        if reading.is_time_known and reading.records.layout.source in PROFILED
    }
    spans = {rank: span for rank, span in spans.items() if span[0] > YEAR_2000_NS}
    if len(spans) < 3:
        return []
    middle = int(np.median([start for start, _ in spans.values()]))
    longest = max(end - start for start, end in spans.values())
    far = {
        rank: start - middle for rank, (start, _) in spans.items() if abs(start - middle) > FAR_NS + longest
    }
    if not far or 2 * len(far) >= len(spans):
        return []
    rank, by = next(iter(far.items()))
    when = "before" if by < 0 else "after"
    others = f" (and of {len(far) - 1} more ranks)" if len(far) > 1 else ""
    which = f"{by_rank[rank].source}, the profile of rank {rank}{others}"
    away = f"is of {abs(by) / 60e9:.0f} minutes {when} most ranks'"
    return [f"{which}, {away}: it may be of another launch, or its host's clock is off"]


def _launches(readings: Sequence[Reading]) -> list[list[Reading]]:
    """The readings of one rank by launch, the earliest first."""
    hosts = [reading.records.layout.host for reading in readings]
    pids = [reading.records.layout.pid for reading in readings]
    by_process: dict[tuple[str, int], list[Reading]] = defaultdict(list)
    for reading, host, pid in zip(readings, hosts, pids, strict=True):
        by_process[host if all(hosts) else "", pid if all(pids) else 0].append(reading)
    return sorted(
        (part for same in by_process.values() for part in _begun_anew(same)), key=lambda part: _span(part)[0]
    )


def _begun_anew(readings: Sequence[Reading]) -> list[list[Reading]]:
    """Parted where the counted steps begin again later: in containers every process may have the same id.

    Files that overlap in time are of one launch: they are copies or parts of each other.
    """
    parts: list[list[Reading]] = []
    for reading in sorted(readings, key=lambda one: _span([one])):
        if parts and not _goes_back(reading, parts[-1]):
            parts[-1].append(reading)
        else:
            parts.append([reading])
    return parts


def _goes_back(reading: Reading, known: Sequence[Reading]) -> bool:
    """Whether a reading begins after the known ones ended, at a step no later than their last."""
    if not all(map(_is_marked, [reading, *known])) or _span([reading])[0] < _span(known)[1]:
        return False
    return int(reading.records.steps["step"].min()) <= max(int(r.records.steps["step"].max()) for r in known)


def _placed(launches: Mapping[Source, Sequence[list[Reading]]], *, most: int) -> list[tuple[int, Reading]]:
    """Each reading with the number of its launch, -1 where it belongs to none of the yardstick's."""
    yardstick = [_span(part) for part in next(of for _, of in sorted(launches.items()) if len(of) == most)]
    placed = []
    for _, of in sorted(launches.items()):
        at = [_nearest(_span(part), yardstick) for part in of]
        if len(of) == most and max(at) < 0:
            at = list(range(most))  # its clock is far off, but it was launched as often
        for number, (where, part) in enumerate(zip(at, of, strict=True)):
            where = -1 if where in at[number + 1 :] else where
            placed += [(where, reading) for reading in part]
    return placed


def _nearest(span: Span, yardstick: Sequence[Span]) -> int:
    """Number of the span that this one overlaps most, or is by far nearest to; -1 if that is none."""
    apart = [max(span[0], one[0]) - min(span[1], one[1]) for one in yardstick]
    first, second = np.argsort(apart, kind="stable")[:2].tolist()
    is_told = apart[first] <= 0 or apart[first] * CLEARLY_NEARER <= apart[second]
    return first if is_told else -1


def _left_out(names: Sequence[str], *, at: int, best: int) -> str:
    which = "another" if at < 0 else "an earlier" if at < best else "a later"
    why = " on fewer ranks" if at > best else ""
    return f"{_named(names)} of {which} launch{why} and left out, one job is analysed at a time"


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


def _span(readings: Sequence[Reading]) -> Span:
    steps = [reading.records.steps for reading in readings]
    return min(int(one["start_ns"].min()) for one in steps), max(int(one["end_ns"].max()) for one in steps)


def _is_marked(reading: Reading) -> bool:
    """Whether its steps have numbers of their own, not those this file's reader gave them."""
    return bool((reading.records.steps["user_step"] >= 0).all())
