"""Process groups as a kineto trace describes them, in each of the forms seen so far."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping
from typing import Any

from argus.collectors.records.layout import MAX_WORLD, GroupInfo

MAX_GROUPS = 4096
WORLD = "world"
_DEFAULT_DESCS = frozenset({"default_pg", "default"})


def literal(value: object) -> object:
    """The value behind a string that holds JSON or a Python literal, else the value itself."""
    if not isinstance(value, str) or len(value) > 8 << 20:
        return value
    for parse in (json.loads, ast.literal_eval):
        try:
            return parse(value)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return value


def count(value: object) -> int | None:
    """A whole number that may have come as text, else None."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 12:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def declared(info: Mapping[str, Any], world: int) -> dict[str, GroupInfo]:
    """Groups of `distributedInfo.pg_config` by name."""
    config = literal(info.get("pg_config"))
    groups: dict[str, GroupInfo] = {}
    for raw in config[:MAX_GROUPS] if isinstance(config, list) else []:
        item = literal(raw)
        if not isinstance(item, dict):
            continue
        name = str(item.get("pg_name", ""))[:256]
        ranks = _ranks(item.get("ranks"), world)
        size = count(item.get("pg_size"))
        if not ranks and size == world:
            ranks = tuple(range(world))
        if ranks:
            desc = str(item.get("pg_desc", ""))[:256]
            groups[name] = GroupInfo(name=name, desc=desc, ranks=ranks)
    return groups


def world_of_calls(calls: Iterable[Mapping[str, Any]]) -> int:
    """The least world size that holds every rank the calls' groups name, 0 if they name none."""
    told = {str(args["Process Group Ranks"]) for args in calls if "Process Group Ranks" in args}
    return max((max(_ranks(text, MAX_WORLD), default=-1) + 1 for text in told), default=0)


def of_call(args: Mapping[str, Any], world: int) -> GroupInfo | None:
    """The group a communication event names, None if it names none or does not say its ranks."""
    name = args.get("Process Group Name")
    if name is None or name == "":
        return None
    ranks = _ranks(args.get("Process Group Ranks"), world) or _strided(args, world)
    desc = str(args.get("Process Group Description", ""))[:256]
    return GroupInfo(name=str(name)[:256], desc=desc, ranks=ranks) if ranks else None


def default_name(groups: Mapping[str, GroupInfo], world: int) -> str | None:
    """Group of a call that names none: the default group, if no smaller one could be meant."""
    if not groups:
        return WORLD
    if any(len(group.ranks) != world for group in groups.values()):
        return None
    named = [name for name, group in groups.items() if group.desc in _DEFAULT_DESCS]
    return named[0] if named else min(groups)


def world_group(world: int) -> GroupInfo:
    """The group of all ranks, for traces that describe none."""
    return GroupInfo(name=WORLD, desc="default_pg", ranks=tuple(range(world)))


def _ranks(raw: object, world: int) -> tuple[int, ...]:
    """Ranks of a list, a mapping's keys or their text; () unless every one is a rank."""
    value = literal(raw)
    items = list(value) if isinstance(value, list | dict) else []
    ranks = [count(item) for item in items[:MAX_WORLD]]
    if any(rank is None or not 0 <= rank < world for rank in ranks):
        return ()
    return tuple(rank for rank in ranks if rank is not None)


def _strided(args: Mapping[str, Any], world: int) -> tuple[int, ...]:
    """Ranks from start, stride and size: what is left when a long list was cut."""
    start, stride, size = (
        count(args.get(key)) for key in ("Global rank start", "Global rank stride", "Group size")
    )
    if start is None or stride is None or size is None or stride < 1 or not 0 < size <= world:
        return ()
    ranks = tuple(range(start, start + stride * size, stride))
    return ranks if ranks[0] >= 0 and ranks[-1] < world else ()
