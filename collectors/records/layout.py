"""The layout record: who a rank is, where it runs and which process groups it belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from argus.collectors.records.errors import WireError

MAX_WORLD = 1 << 20


@dataclass(frozen=True, kw_only=True)
class GroupInfo:
    """One process group as its member sees it; `name` is what the runtime calls it on this rank."""

    name: str
    desc: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Identity of one rank in one attempt of one run.

    `env` and `versions` are allow-listed; `source` says where the record came from (`live`, `kineto`, …).
    """

    run: str
    attempt: int
    rank: int
    world_size: int
    local_rank: int = 0
    host: str = ""
    pid: int = 0
    device: str = ""  # GPU UUID or PCI bus id, "" on a CPU job
    gpu_model: str = ""
    groups: tuple[GroupInfo, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    source: str = "live"

    def to_json(self) -> dict[str, Any]:
        """The record as JSON-ready dict."""
        return asdict(self)

    @staticmethod
    def from_json(raw: object) -> Layout:
        """Parse and check what came over the wire. Raises WireError naming the field."""
        if not isinstance(raw, dict):
            raise WireError(f"layout must be an object, got {type(raw).__name__}")
        world = _int(raw, "world_size", 1, MAX_WORLD)
        return Layout(
            run=_text(raw, "run", 256),
            attempt=_int(raw, "attempt", 0, 1 << 31),
            rank=_int(raw, "rank", 0, world - 1),
            world_size=world,
            local_rank=_int(raw, "local_rank", 0, 1 << 16),
            host=_text(raw, "host", 256),
            pid=_int(raw, "pid", 0, 1 << 31),
            device=_text(raw, "device", 128),
            gpu_model=_text(raw, "gpu_model", 128),
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
        ranks = item.get("ranks", [])
        if not isinstance(ranks, list | tuple) or not all(
            isinstance(r, int) and not isinstance(r, bool) and 0 <= r < world for r in ranks
        ):
            raise WireError(f"layout.groups: ranks must be integers in [0, {world - 1}]")
        groups.append(
            GroupInfo(name=_text(item, "name", 256), desc=_text(item, "desc", 256), ranks=tuple(ranks))
        )
    return tuple(groups)
