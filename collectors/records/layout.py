"""The layout record: who a rank is, where it runs and which process groups it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

from argus.collectors.records.errors import WireError
from argus.collectors.records.text import tame

MAX_WORLD = 1 << 20
MAX_MEMBERS = 1 << 22
"""Members of all groups of a rank together: four of the largest world."""

MIN_SPAN = 4
"""Shorter lists of ranks are written out."""


@dataclass(frozen=True, kw_only=True)
class GroupInfo:
    """One process group as its member sees it; `name` is what the runtime calls it on this rank."""

    name: str
    desc: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Identity of one rank in one attempt of one run.

    `began_ns` is when its process began to record, Unix time, 0 if unknown: a program that replaces itself (exec) keeps its
    PID, and counts its steps anew. `env` and `versions` are allow-listed; `source` says where the record came from (`live`, `kineto`, …).
    """

    run: str
    attempt: int
    rank: int
    world_size: int
    local_rank: int = 0
    host: str = ""
    pid: int = 0
    began_ns: int = 0
    device: str = ""  # GPU UUID or PCI bus id, "" on a CPU job
    gpu_model: str = ""
    groups: tuple[GroupInfo, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    source: str = "live"

    def to_json(self) -> dict[str, Any]:
        """The record as JSON-ready dict; ranks that are evenly apart as first, step and number.

        In a job of 10,240 ranks each is in a group of all: written out, the layouts would be 600 MB.
        """
        bare = asdict(replace(self, groups=()))
        groups = [{"name": g.name, "desc": g.desc, "ranks": _ranks_json(g.ranks)} for g in self.groups]
        return bare | {"groups": groups}

    @staticmethod
    def from_json(raw: object) -> Layout:
        """Parse and check what came over the wire. Raises WireError naming the field."""
        if not isinstance(raw, dict):
            raise WireError(f"layout must be an object, got {type(raw).__name__}")
        world = _int(raw, "world_size", 1, MAX_WORLD)
        return Layout(
            run=_name(raw, "run"),
            attempt=_int(raw, "attempt", 0, 1 << 31),
            rank=_int(raw, "rank", 0, world - 1),
            world_size=world,
            local_rank=_int(raw, "local_rank", 0, 1 << 16),
            host=_name(raw, "host"),
            pid=_int(raw, "pid", 0, 1 << 31),
            began_ns=_int(raw, "began_ns", 0, 1 << 62),
            device=_shown(raw, "device", 128),
            gpu_model=_shown(raw, "gpu_model", 128),
            groups=_groups(raw.get("groups", []), world),
            env=_texts(raw.get("env", {}), "env"),
            versions=_texts(raw.get("versions", {}), "versions"),
            source=_text(raw, "source", 32),
        )


def _text(raw: Mapping[str, Any], key: str, limit: int) -> str:
    value = raw.get(key, "")
    if not isinstance(value, str) or len(value) > limit:
        raise WireError(f"layout.{key} must be a string of at most {limit} characters")
    return value


def _shown(raw: Mapping[str, Any], key: str, limit: int) -> str:
    """What pages, metrics and logs show beside a name; half a character in it would fail whoever encodes it."""
    value = _text(raw, key, limit)
    return value if value.isprintable() else tame(value, limit)


def _name(raw: Mapping[str, Any], key: str) -> str:
    """What logs, pages and commands show: two names that differ in what nobody sees would be one there."""
    value = _text(raw, key, 256)
    if not value.isprintable():
        raise WireError(f"layout.{key} must be printable text, got {value!a:.60}")
    return value


def _int(raw: Mapping[str, Any], key: str, low: int, high: int) -> int:
    value = raw.get(key, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise WireError(f"layout.{key} must be an integer in [{low}, {high}], got {value!r:.40}")
    return value


def _texts(raw: object, key: str) -> dict[str, str]:
    if not isinstance(raw, dict) or len(raw) > 256:
        raise WireError(f"layout.{key} must be an object of at most 256 strings")
    if not all(isinstance(k, str) and isinstance(v, str) and len(v) <= 4096 for k, v in raw.items()):
        raise WireError(f"layout.{key} must map strings to strings of at most 4096 characters")
    return dict(raw)


def _groups(raw: object, world: int) -> tuple[GroupInfo, ...]:
    if not isinstance(raw, list | tuple) or len(raw) > 4096:
        raise WireError("layout.groups must be a list of at most 4096 groups")
    groups = []
    for item in raw:
        if not isinstance(item, dict):
            raise WireError("layout.groups must hold objects")
        ranks = _ranks(item.get("ranks", []), world)
        name, desc = (_shown(item, key, 256) for key in ("name", "desc"))
        groups.append(GroupInfo(name=name, desc=desc, ranks=ranks))
    if sum(len(group.ranks) for group in groups) > MAX_MEMBERS:
        raise WireError(f"layout.groups must have at most {MAX_MEMBERS} members in all")
    return tuple(groups)


def _ranks_json(ranks: tuple[int, ...]) -> list[int] | dict[str, int]:
    if len(ranks) < MIN_SPAN or ranks[1] <= ranks[0]:
        return list(ranks)
    step = ranks[1] - ranks[0]
    if ranks != _span(ranks[0], step, len(ranks)):
        return list(ranks)
    return {"first": ranks[0], "step": step, "num": len(ranks)}


def _ranks(raw: object, world: int) -> tuple[int, ...]:
    if isinstance(raw, dict):
        first, num = _int(raw, "first", 0, world - 1), _int(raw, "num", 1, min(world, MAX_MEMBERS))
        step = _int(raw, "step", 1, world)
        if first + step * (num - 1) < world:
            return _span(first, step, num)
    elif isinstance(raw, list | tuple) and all(
        isinstance(r, int) and not isinstance(r, bool) and 0 <= r < world for r in raw
    ):
        return tuple(raw)
    raise WireError(f"layout.groups: ranks must be integers in [0, {world - 1}]")


@lru_cache(maxsize=1 << 14)
def _span(first: int, step: int, num: int) -> tuple[int, ...]:
    """The same tuple for all members of a group: ten thousand of ten thousand would be a gigabyte."""
    return tuple(range(first, first + step * num, step))
