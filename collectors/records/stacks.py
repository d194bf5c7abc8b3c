"""CPU stacks: what the threads of one rank were doing at one moment, seen from its host."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from argus.collectors.records.errors import WireError
from argus.collectors.records.text import tame

THREAD_KINDS = ("main", "autograd", "loader", "watchdog", "argus", "other")

REASONS = ("baseline", "slow_step", "peer", "burst")
"""Why a dump was taken: the steady one, an open slow step, as a peer of such a rank, on request."""

ERRORS = ("", "timeout", "denied", "no_answer", "gone", "not_installed")
"""Why there is none: a process that does not answer is a fact about it."""

MAX_STACK = 8192
"""Characters of one folded stack; the innermost frames are kept."""

MAX_THREADS = 128
MAX_DUMPS = 4096
MAX_STACKS = 65536
MAX_NAME = 64

LONG_OPEN_S = 3.0
"""A slow step still open after this is worth asking other hosts about; a shorter one is over before they hear."""


@dataclass(frozen=True, kw_only=True)
class Thread:
    """One thread. `state` is the letter of /proc/PID/task/TID/stat; `wchan` where it sleeps in the kernel.

    `stack` is folded: frames from the outermost to the innermost, joined by `;`. It is empty for a thread
    that runs no Python.
    """

    kind: str
    name: str = ""
    state: str = ""
    has_gil: bool = False
    is_active: bool = False
    wchan: str = ""
    stack: str = ""


@dataclass(frozen=True, kw_only=True)
class StackDump:
    """All threads of a rank at `ts_s` (Unix seconds of its host), while step `step` was open for `open_s`."""

    run: str
    attempt: int
    rank: int
    host: str
    ts_s: float
    step: int
    open_s: float = 0.0
    reason: str = "baseline"
    is_native: bool = False
    error: str = ""
    detail: str = ""
    threads: tuple[Thread, ...] = ()


def encode_stacks(dumps: Iterable[StackDump]) -> dict[str, Any]:
    """JSON-ready dumps, each distinct stack written once.

    >>> one = StackDump(run="r", attempt=0, rank=0, host="h", ts_s=1.0, step=2)
    >>> decode_stacks(encode_stacks([one])) == (one,)
    True
    """
    numbers: dict[str, int] = {}
    items = [_encode(dump, numbers) for dump in dumps]
    return {"stacks": list(numbers), "dumps": items}


def decode_stacks(raw: object) -> tuple[StackDump, ...]:
    """Inverse of `encode_stacks` for what came over the wire. Raises WireError."""
    table = StackTable.of(_list(raw, "stacks", MAX_STACKS))
    return tuple(table.dump(dump) for dump in _list(raw, "dumps", MAX_DUMPS))


@dataclass(frozen=True, kw_only=True)
class StackTable:
    """The distinct stacks of an upload, made harmless."""

    texts: tuple[str, ...]

    @staticmethod
    def of(stacks: Sequence[object]) -> StackTable:
        """Take an upload's list. Raises WireError if it is too long."""
        if len(stacks) > MAX_STACKS:
            raise WireError(f"stacks must be a list of at most {MAX_STACKS}")
        return StackTable(texts=tuple(tame(text, MAX_STACK) for text in stacks))

    def dump(self, raw: object) -> StackDump:
        """One dump whose threads name stacks of this table. Raises WireError."""
        return _decode(raw, self.texts)


def _encode(dump: StackDump, numbers: dict[str, int]) -> dict[str, Any]:
    threads = [
        {
            "kind": thread.kind,
            "name": thread.name,
            "state": thread.state,
            "gil": thread.has_gil,
            "active": thread.is_active,
            "wchan": thread.wchan,
            "stack": numbers.setdefault(thread.stack, len(numbers)),
        }
        for thread in dump.threads
    ]
    names = ("run", "attempt", "rank", "host", "ts_s", "step", "open_s", "reason", "is_native", "error")
    return {**{name: getattr(dump, name) for name in names}, "detail": dump.detail, "threads": threads}


def _decode(raw: object, texts: Sequence[str]) -> StackDump:
    if not isinstance(raw, dict):
        raise WireError("stacks.dumps must hold objects")
    try:
        dump = StackDump(
            run=tame(raw["run"], 256),
            attempt=int(raw["attempt"]),
            rank=int(raw["rank"]),
            host=tame(raw["host"], 256),
            ts_s=float(raw["ts_s"]),
            step=int(raw["step"]),
            open_s=float(raw.get("open_s", 0.0)),
            reason=str(raw.get("reason", "baseline")),
            is_native=bool(raw.get("is_native", False)),
            error=str(raw.get("error", "")),
            detail=tame(raw.get("detail", ""), 200),
            threads=tuple(_thread(item, texts) for item in _list(raw, "threads", MAX_THREADS)),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(f"stack dump: {error!r:.120}") from None
    _check(dump)
    return dump


def _check(dump: StackDump) -> None:
    if dump.reason not in REASONS or dump.error not in ERRORS:
        raise WireError(f"stack dump: unknown reason {dump.reason!r:.40} or error {dump.error!r:.40}")
    if not (math.isfinite(dump.ts_s) and math.isfinite(dump.open_s)):
        raise WireError("stack dump: times must be finite")
    numbers_fit = 0 <= dump.rank < 1 << 20 and 0 <= dump.attempt < 1 << 31 and -1 <= dump.step < 1 << 53
    if not dump.run or not numbers_fit:
        raise WireError("stack dump: run, attempt, rank or step out of range")


def _thread(raw: object, texts: Sequence[str]) -> Thread:
    if not isinstance(raw, dict):
        raise WireError("stack dump: threads must be objects")
    kind, number = raw.get("kind"), raw.get("stack")
    if kind not in THREAD_KINDS:
        raise WireError(f"stack dump: unknown kind of thread {kind!r:.40}")
    if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(texts):
        raise WireError(f"stack dump: stack {number!r:.40} is not in the table of {len(texts)}")
    return Thread(
        kind=kind,
        name=tame(raw.get("name", ""), MAX_NAME),
        state=tame(raw.get("state", ""), 4),
        has_gil=bool(raw.get("gil", False)),
        is_active=bool(raw.get("active", False)),
        wchan=tame(raw.get("wchan", ""), MAX_NAME),
        stack=texts[number],
    )


def _list(raw: object, key: str, limit: int) -> list[Any]:
    items = raw.get(key) if isinstance(raw, Mapping) else None
    if not isinstance(items, list) or len(items) > limit:
        raise WireError(f"{key} must be a list of at most {limit}")
    return items
