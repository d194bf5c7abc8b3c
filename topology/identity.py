"""Who the ranks are, from records of several sources: the most trusted is used, contradictions are told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from argus.collectors.records.layout import Layout
from argus.topology.parallel import Parallel

SOURCES = ("live", "flight_recorder", "kineto", "recording", "arguments", "file")
"""Order of trust for groups and ranks: what the runtime itself holds comes before what was asked for."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A layout somebody computed: from framework arguments in a log, or from a file."""

    parallel: Parallel
    source: str = "arguments"
    origin: str = ""

    @property
    def label(self) -> str:
        """Source and place for a sentence."""
        return f"{self.source} ({self.origin})" if self.origin else self.source


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Who the ranks are; `records` holds each rank's records, most trusted first."""

    run: str
    attempt: int
    world_size: int
    records: Mapping[int, tuple[Layout, ...]]
    hosts: Mapping[int, str]
    devices: Mapping[int, str]
    gpu_models: Mapping[int, str]
    local_ranks: Mapping[int, int]
    sources: Mapping[str, str]


def trust(source: str) -> int:
    """Place in the order of trust, 0 is best; an unknown source stands before what was only asked for."""
    return SOURCES.index(source) if source in SOURCES else SOURCES.index("recording")


def merge_identity(
    layouts: Iterable[Layout], *, declared: Sequence[Declared], conflicts: list[str]
) -> Identity:
    """One identity per rank; ValueError if there is neither a record nor a declared layout."""
    records = _by_rank(layouts, conflicts)
    if not records and not declared:
        raise ValueError("no layout record: nothing is known of the ranks")
    best = {rank: rows[0] for rank, rows in records.items()}
    some = best[min(best)] if best else Layout(run="", attempt=0, rank=0, world_size=1)
    for text in sorted({f"run {row.run!r} attempt {row.attempt}" for row in best.values()})[1:]:
        conflicts.append(f"records of another {text} are mixed in; run {some.run!r} is shown")
    world = _agreed_world(records, declared, conflicts)
    sources = {f"rank {rank}": row.source for rank, row in best.items() if row.source != some.source}
    return Identity(
        run=some.run,
        attempt=some.attempt,
        world_size=world,
        records=records,
        hosts=_first(records, "host"),
        devices=_first(records, "device"),
        gpu_models=_first(records, "gpu_model"),
        local_ranks={rank: row.local_rank for rank, row in best.items()},
        sources={"ranks": some.source if best else declared[0].source, **sources},
    )


def _by_rank(layouts: Iterable[Layout], conflicts: list[str]) -> dict[int, tuple[Layout, ...]]:
    latest: dict[int, dict[str, Layout]] = defaultdict(dict)
    for layout in layouts:
        for other in latest[layout.rank].values():
            if other.host and layout.host and other.host != layout.host:
                conflicts.append(
                    f"rank {layout.rank} is on host {other.host!r} ({other.source}) and on host "
                    f"{layout.host!r} ({layout.source})"
                )
            elif other.device and layout.device and other.device != layout.device:
                conflicts.append(
                    f"rank {layout.rank} uses device {other.device!r} ({other.source}) and "
                    f"{layout.device!r} ({layout.source})"
                )
        latest[layout.rank][layout.source] = newer(latest[layout.rank].get(layout.source), layout)
    return {
        rank: tuple(sorted(rows.values(), key=lambda row: trust(row.source)))
        for rank, rows in sorted(latest.items())
    }


def newer(known: Layout | None, layout: Layout) -> Layout:
    """The later of two records of a rank; an orderly end destroys the groups, what was known of them stays."""
    gone = known is not None and known.groups and not layout.groups
    return replace(layout, groups=known.groups) if known is not None and gone else layout


def _first(records: Mapping[int, tuple[Layout, ...]], name: str) -> dict[int, str]:
    """The most trusted nonempty value of a field; a rank nobody knows it of keeps ""."""
    return {
        rank: next((value for row in rows if (value := str(getattr(row, name)))), "")
        for rank, rows in records.items()
    }


def _agreed_world(
    records: Mapping[int, tuple[Layout, ...]], declared: Sequence[Declared], conflicts: list[str]
) -> int:
    sizes = sorted({row.world_size for rows in records.values() for row in rows})
    if len(sizes) > 1:
        conflicts.append(
            f"ranks disagree on the world size: {', '.join(map(str, sizes))}; {sizes[-1]} is used"
        )
    world = sizes[-1] if sizes else declared[0].parallel.world_size
    for item in declared:
        if item.parallel.world_size != world:
            conflicts.append(
                f"{item.label} gives a world of {item.parallel.world_size} ranks, "
                f"{'the ranks' if sizes else declared[0].label} {world}; {world} is used"
            )
    return world
