"""Layout records from what a profiler or the flight recorder says of the process groups."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from argus.collectors.records.layout import GroupInfo, Layout
from argus.topology.facts import LoaderError, whole_number

MAX_WORLD = 1 << 20
_RANK_LIST = re.compile(r"(?<![0-9])-?[0-9]{1,9}(?![0-9])")


def layout_from_kineto(
    info: Mapping[str, Any], *, run: str = "", attempt: int = 0, host: str = "", origin: str = ""
) -> tuple[Layout, tuple[str, ...]]:
    """Layout record from a trace's `distributedInfo`, and warnings on what it leaves out.

    Groups whose list of ranks was cut ("...") are left out, with a warning.
    """
    rank = _number(info, "rank", origin=origin or "distributedInfo")
    world = _number(info, "world_size", origin=origin or "distributedInfo")
    if not 0 <= rank < world <= MAX_WORLD:
        raise LoaderError(f"rank {rank} is outside a world of {world}", origin=origin, field="rank")
    groups, warnings = _groups(info.get("pg_config", ()), world=world, origin=origin, field="pg_config")
    return Layout(
        run=run, attempt=attempt, rank=rank, world_size=world, host=host, groups=groups, source="kineto"
    ), warnings


def layout_from_flight_recorder(
    dump: Mapping[str, Any], *, rank: int, run: str = "", attempt: int = 0, host: str = "", origin: str = ""
) -> tuple[Layout, tuple[str, ...]]:
    """Layout record from a parsed dump's `pg_config`; the dump itself does not say its rank.

    The world is the default group's size, else the highest rank named plus one.
    """
    config = dump.get("pg_config")
    if not isinstance(config, Mapping):
        raise LoaderError("has no pg_config", origin=origin, field="pg_config")
    listed = [item for item in config.values() if isinstance(item, Mapping)]
    sets = [(_text(item, "desc", "pg_desc"), ranks_of(item.get("ranks"))) for item in listed]
    world = next((len(ranks) for desc, ranks in sets if desc == "default_pg" and ranks), 0)
    world = world or max((max(ranks) + 1 for _, ranks in sets if ranks), default=0)
    if not 0 <= rank < world <= MAX_WORLD:
        raise LoaderError(
            f"rank {rank} is outside the {world} ranks it names", origin=origin, field="pg_config"
        )
    groups, warnings = _groups(listed, world=world, origin=origin, field="pg_config")
    return Layout(
        run=run,
        attempt=attempt,
        rank=rank,
        world_size=world,
        host=host,
        groups=tuple(group for group in groups if not group.ranks or rank in group.ranks),
        source="flight_recorder",
    ), warnings


def ranks_of(value: object) -> tuple[int, ...] | None:
    """Ranks of a list or of its text form; None if it was cut or is not a list of ranks.

    >>> ranks_of("[0, 1, 5]"), ranks_of("[0, 1, ...]")
    ((0, 1, 5), None)
    """
    if isinstance(value, str):
        if "..." in value:
            return None
        return tuple(int(word) for word in _RANK_LIST.findall(value))
    if isinstance(value, Sequence) and all(isinstance(item, int) for item in value):
        return tuple(value)
    return None


def _groups(
    config: object, *, world: int, origin: str, field: str
) -> tuple[tuple[GroupInfo, ...], tuple[str, ...]]:
    if isinstance(config, str):
        try:
            config = json.loads(config)
        except ValueError:
            return (), (f"{origin}: {field} is not JSON and is left out",)
    items = list(config.values()) if isinstance(config, Mapping) else config
    if not isinstance(items, Sequence):
        return (), (f"{origin}: {field} is not a list of groups and is left out",)
    groups: list[GroupInfo] = []
    warnings: list[str] = []
    for item in items:
        if not isinstance(item, Mapping):
            warnings.append(f"{origin}: {field} holds {item!r:.40}, which is not a group; it is left out")
            continue
        name, desc = _text(item, "pg_name", "name"), _text(item, "pg_desc", "desc")
        ranks = ranks_of(item.get("ranks", ()))
        if desc == "default_pg" and not ranks:
            ranks = tuple(range(world))
        if not ranks or min(ranks) < 0 or max(ranks) >= world:
            warnings.append(f"{origin}: {field}: ranks of group {name!r} ({desc}) are cut or wrong; left out")
            continue
        groups.append(GroupInfo(name=name, desc=desc, ranks=ranks))
    return tuple(groups), tuple(warnings)


def _text(item: Mapping[str, Any], *keys: str) -> str:
    return next((str(item[key])[:256] for key in keys if key in item), "")


def _number(info: Mapping[str, Any], key: str, *, origin: str) -> int:
    value = info.get(key)
    if isinstance(value, str):
        value = whole_number(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise LoaderError(f"{key} must be a number, got {value!r:.40}", origin=origin, field=key)
    return value
