"""Read dumps of PyTorch's flight recorder, one file a rank, pickled or as JSON.

Format: torch/csrc/distributed/c10d/FlightRecorder.hpp, versions 2.x. A pickle from a cluster is untrusted
input: only plain values are loaded. The rank is in the file's name; a dump does not state it. Of gloo it describes no
group: those of its calls are then held to be made of the ranks whose dumps name them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._files import Inflated
from argus.collectors.readers._flight_calls import pending_calls
from argus.collectors.readers._plain_pickle import NotPlain, load_plain
from argus.collectors.records.events import RankRecords
from argus.collectors.records.flight import FlightDump
from argus.collectors.records.layout import MAX_WORLD, GroupInfo, Layout

MAX_BYTES = 1 << 30
MAX_GROUPS = 4096
"""What the layout of a rank may hold at most."""

DEFAULT = ("0", "default_pg")
"""Name and description of the group that holds every rank."""

NOT_LISTED = (
    "the members of its process groups are not listed, and are taken to be the ranks whose dumps name them"
)

_NAMED_RANK = re.compile(r"(?<![a-z])(?<!local[-_])(?<!node[-_])rank[-_.= ]?(\d{1,7})(?!\d)", re.IGNORECASE)
_LAST_NUMBER = re.compile(r"(\d+)(?:\.(?:json|pkl|pickle|pt|gz))*$", re.IGNORECASE)
_PICKLE = re.compile(rb"\A\x80[\x02-\x05]")
_JSON = re.compile(
    rb'\s*\{\s*"(?:version|pg_config|pg_status|entries|nccl_version|comm_lib_version|nccl_comm_state|rank|host_name)"\s*:'
)
"""Traces name their process groups too, but not first."""

MARK_BYTES = 8192
_MARKS = (b"pg_config", b"pg_status", b"nccl_version", b"nccl_comm_state")


def sniff(head: bytes, name: str) -> bool:
    """A pickle that begins with the parts of a dump, or JSON whose first key is one of them."""
    if _PICKLE.match(head):
        return any(mark in head[:MARK_BYTES] for mark in _MARKS) or b"collective_seq_id" in head
    return bool(_JSON.match(head)) and (b"pg_config" in head or b"collective_seq_id" in head)


def read(path: Path) -> Iterator[Reading]:
    """The one rank of the dump. Raises ReaderError."""
    raw = _load(path)
    if str(raw.get("version", "2"))[:2].split(".")[0] != "2":
        raise ReaderError(
            f"{path.name} is a flight-recorder dump of version {str(raw['version'])[:20]}, not 2.x"
        )
    listed = _config(raw.get("pg_config"), path.name)
    rank = _rank(path.name, listed)
    entries = raw.get("entries")
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    found = _undescribed(entries, listed, path.name)
    config = (*(info for info in listed if info.ranks), *(_of_rank(info, rank) for info in found))
    pending, told = pending_calls(entries, _places(config, found))
    counts = _counts(raw.get("pg_status"), entries, config)
    for info in config:
        counts.setdefault(info.name, told.counts.get(info.name))
    dump = FlightDump(
        rank=rank,
        groups=counts,
        p2p_groups=told.p2p_groups,
        pending=pending,
        last_created_ns=told.last_created_ns,
        undescribed=frozenset(info.name for info in found),
    )
    yield Reading(
        records=RankRecords(layout=_layout(raw, config, rank)),
        source=path.name,
        warnings=(f"{path.name}: {NOT_LISTED}",) if found else (),
        dump=dump,
        is_world_known=any(info.ranks for info in listed),
        are_members_known=not found,
    )


def _layout(raw: Mapping[str, Any], config: tuple[GroupInfo, ...], rank: int) -> Layout:
    world = max((max(info.ranks) + 1 for info in config), default=rank + 1)
    return Layout(
        run="dump",
        attempt=0,
        rank=rank,
        world_size=max(world, rank + 1),
        groups=config,
        versions={"nccl": str(raw["nccl_version"])[:40]} if "nccl_version" in raw else {},
        source="flight_recorder",
    )


def _load(path: Path) -> Mapping[str, Any]:
    """The dump as a dictionary."""
    with Inflated(path) as source:
        parts, size = [], 0
        while chunk := source.read():
            parts.append(chunk)
            size += len(chunk)
            if size > MAX_BYTES:
                raise ReaderError(
                    f"{path.name} is a dump of more than {MAX_BYTES >> 20} MiB, which is refused"
                )
        body, cut = b"".join(parts), source.cut
    try:
        raw = load_plain(body) if _PICKLE.match(body) else json.loads(body)
    except NotPlain as error:
        raise ReaderError(f"{path.name} is a pickle that is not loaded: it {error}") from None
    except (ValueError, RecursionError) as error:
        why = cut or str(error)[:80]
        raise ReaderError(f"{path.name} is damaged JSON ({why})") from None
    if not isinstance(raw, dict):
        raise ReaderError(f"{path.name} is no flight-recorder dump: it holds a {type(raw).__name__}")
    return raw


def _config(raw: object, name: str) -> tuple[GroupInfo, ...]:
    """The process groups this rank belongs to."""
    if not isinstance(raw, dict) or not raw:
        raise ReaderError(f"{name} has no pg_config, which says the process groups of its rank")
    if len(raw) > MAX_GROUPS:
        raise ReaderError(f"{name} names more than {MAX_GROUPS} process groups, which is refused")
    groups = []
    for key, item in raw.items():
        if not isinstance(item, dict):
            raise ReaderError(f"{name} has a pg_config in a form that is not known")
        ranks = item.get("ranks", [])
        if isinstance(ranks, str):
            ranks = _list(ranks)
        sound = isinstance(ranks, list) and all(type(r) is int and 0 <= r < MAX_WORLD for r in ranks)
        if not sound:
            raise ReaderError(f"{name} has a process group whose ranks are no list of numbers")
        groups.append(
            GroupInfo(
                name=str(item.get("name", key))[:256],
                desc=str(item.get("desc", ""))[:256],
                ranks=tuple(dict.fromkeys(ranks)),
            )
        )
    return tuple(groups)


def _undescribed(
    entries: list[dict[str, Any]], config: tuple[GroupInfo, ...], name: str
) -> tuple[GroupInfo, ...]:
    """Groups of calls, or of the configuration, whose members nothing lists, without ranks."""
    known = {info.name for info in config if info.ranks}
    found = {info.name: info for info in config if info.name and not info.ranks}
    for entry in entries:
        group = entry.get("process_group")
        if isinstance(group, list | tuple) and group and (called := str(group[0])[:256]) not in known:
            found.setdefault(
                called, GroupInfo(name=called, desc=str(group[1])[:256] if group[1:] else "", ranks=())
            )
    if len(found) > MAX_GROUPS:
        raise ReaderError(f"{name} names more than {MAX_GROUPS} process groups, which is refused")
    return tuple(found.values())


def _of_rank(info: GroupInfo, rank: int) -> GroupInfo:
    """The group with the members one rank knows of: the default one holds every rank up to it."""
    return replace(info, ranks=tuple(range(rank + 1)) if _is_default(info) else (rank,))


def _is_default(info: GroupInfo) -> bool:
    return (info.name, info.desc) == DEFAULT


def _places(config: tuple[GroupInfo, ...], undescribed: tuple[GroupInfo, ...]) -> dict[str, Sequence[int]]:
    """Global rank at each place of a group; none is known where nothing lists the members."""
    places: dict[str, Sequence[int]] = {info.name: info.ranks for info in config}
    for info in undescribed:
        places[info.name] = range(MAX_WORLD) if _is_default(info) else ()
    return places


def _list(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _rank(name: str, config: tuple[GroupInfo, ...]) -> int:
    """The number after `rank` in the file's name, else its last one, that the groups may hold; else the only rank in all of them.

    Behind the rank may stand a host's number or a time. Raises ReaderError.
    """
    members = [set(info.ranks) for info in config if info.ranks]
    able = set.intersection(*members) if members else set()
    for match in (_NAMED_RANK.search(name), _LAST_NUMBER.search(name)):
        stated = int(match.group(1)) if match and len(match.group(1)) < 8 else None
        if stated is not None and stated < MAX_WORLD and (stated in able or not able):
            return stated
    if len(able) == 1:
        return able.pop()
    raise ReaderError(
        f"{name} does not say its rank: a dump has it in its name, as in nccl_trace_rank_3"
        + (f" (it can be one of {len(able)})" if able else "")
    )


def _counts(
    raw: object, entries: list[Any], config: tuple[GroupInfo, ...]
) -> dict[str, tuple[int, int] | None]:
    """(entered, completed) by group name out of pg_status, whose ids are numbers of this rank's own."""
    if not isinstance(raw, dict):
        return {}
    names = _names_of_ids(raw, entries, config)
    counts: dict[str, tuple[int, int] | None] = {}
    for key, status in raw.items():
        name = names.get(str(key))
        if name is None or not isinstance(status, dict):
            continue
        entered, completed = status.get("last_enqueued_collective"), status.get("last_completed_collective")
        if type(entered) is int and type(completed) is int:
            counts[name] = (max(entered, 0), max(completed, 0))
    return counts


def _names_of_ids(
    raw: Mapping[Any, Any], entries: list[Any], config: tuple[GroupInfo, ...]
) -> dict[str, str]:
    """Group name of each id: as calls say, else both in the order they were made in, if that fits the calls."""
    seen: dict[str, str] = {}
    for entry in entries:
        group = entry.get("process_group")
        if isinstance(group, list | tuple) and group:
            seen[str(entry.get("pg_id"))] = str(group[0])[:256]
    ids, names = [str(key) for key in raw], [info.name for info in config]
    if len(ids) == len(names) and all(text.isdecimal() and len(text) < 10 for text in (*ids, *names)):
        paired = dict(zip(sorted(ids, key=int), sorted(names, key=int), strict=True))
        if all(paired.get(key, name) == name for key, name in seen.items()):
            return paired
    return seen | {
        key: key for key in ids if key in names and key not in seen and key not in seen.values() and not seen
    }
