"""Read dumps of PyTorch's flight recorder, one file a rank, pickled or as JSON.

Format: torch/csrc/distributed/c10d/FlightRecorder.hpp, versions 2.x. A pickle from a cluster is untrusted
input: only plain values are loaded. The rank is in the file's name; a dump does not state it.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._files import Inflated
from argus.collectors.readers._flight_calls import group_of, pending_calls
from argus.collectors.readers._plain_pickle import NotPlain, load_plain
from argus.collectors.records.events import RankRecords
from argus.collectors.records.flight import FlightDump
from argus.collectors.records.layout import MAX_WORLD, GroupInfo, Layout

MAX_BYTES = 1 << 30
MAX_GROUPS = 4096
"""What the layout of a rank may hold at most."""

_RANK_IN_NAME = re.compile(r"(\d+)(?:\.(?:json|pkl|pickle|pt|gz))*$", re.IGNORECASE)
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
    config = _config(raw.get("pg_config"), path.name)
    rank = _rank(path.name, config)
    entries = raw.get("entries")
    entries = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    groups = {info.name: info for info in config}
    pending, told = pending_calls(entries, groups)
    counts = _counts(raw.get("pg_status"), entries, config)
    for name in groups:
        counts.setdefault(name, told.counts.get(name))
    world = max((max(info.ranks) + 1 for info in config if info.ranks), default=rank + 1)
    dump = FlightDump(
        rank=rank,
        groups=counts,
        p2p_groups=told.p2p_groups,
        pending=pending,
        last_created_ns=told.last_created_ns,
    )
    versions = {"nccl": str(raw["nccl_version"])[:40]} if "nccl_version" in raw else {}
    layout = Layout(
        run="dump",
        attempt=0,
        rank=rank,
        world_size=max(world, rank + 1),
        groups=config,
        versions=versions,
        source="flight_recorder",
    )
    yield Reading(
        records=RankRecords(layout=layout),
        source=path.name,
        dump=dump,
        warnings=_undescribed(entries, groups, path.name),
    )


def _undescribed(entries: list[Any], groups: Mapping[str, GroupInfo], name: str) -> tuple[str, ...]:
    """A sentence where calls are of groups that pg_config does not have, as in dumps of Gloo."""
    num = sum(group_of(entry) not in groups for entry in entries)
    if not num:
        return ()
    return (
        f"{name} does not describe the process groups of {num} of its {len(entries)} calls (pg_config): they are left out",
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


def _list(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _rank(name: str, config: tuple[GroupInfo, ...]) -> int:
    """The number in the file's name if the groups may hold it, else the only rank that is in all of them."""
    held = [set(info.ranks) for info in config if info.ranks]
    able = set.intersection(*held) if held else set()
    match = _RANK_IN_NAME.search(name)
    stated = int(match.group(1)) if match and len(match.group(1)) < 8 else None
    if stated is not None and (stated in able or not able):
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
