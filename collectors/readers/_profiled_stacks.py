"""Counted stacks of one process as the dumps a processor would have taken of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from argus.collectors.readers import ReaderError, Reading
from argus.collectors.readers._profile import named_rank
from argus.collectors.records.events import RankRecords
from argus.collectors.records.layout import MAX_WORLD, Layout
from argus.collectors.records.stacks import MAX_STACK, StackDump, Thread
from argus.collectors.records.text import tame

MAX_DUMPS = 200
"""Dumps a profile is turned into, each for an equal share of its samples: enough for shares of half a percent."""

MAX_STACKS = 1_000_000
Stack = tuple[str, str]
"""Thread and folded frames, outermost first."""

_THREAD = re.compile(r"^thread \((?P<id>\w{1,20})\)(?:: (?P<name>.{1,64}))?$", re.IGNORECASE)
_PROCESS = re.compile(r"^process (?P<pid>\d{1,10}):")
_BEGUN = re.compile(r"^(?:Thread\.)?_bootstrap(?:_inner)? \(.*threading\.py")
_MAIN = re.compile(r"main ?thread", re.IGNORECASE)
_AUTOGRAD = re.compile(r"pt_autograd|autograd", re.IGNORECASE)
_LOADER = re.compile(r"loader|QueueFeeder|pin_memory", re.IGNORECASE)


def stack_of(frames: Sequence[str], *, thread: str = "") -> Stack:
    """Thread and frames, outermost first; py-spy names process and thread in the first frames if it is asked to.

    >>> stack_of(["process 7:python", "thread (7)", "main (a.py:1)"])
    ('MainThread', 'main (a.py:1)')
    """
    pid = _PROCESS.match(frames[0]) if frames else None
    frames = frames[1:] if pid else frames
    named = _THREAD.match(frames[0]) if frames else None
    if named:
        frames = frames[1:]
        is_first = pid is not None and named["id"] == pid["pid"]
        thread = named["name"] or thread or ("MainThread" if is_first else f"thread {named['id']}")
    if frames and not thread and _BEGUN.match(frames[0]):
        thread = "a thread it began"
    return thread, ";".join(frames)


def reading_of(counts: Mapping[Stack, float], path: Path, *, warnings: tuple[str, ...] = ()) -> Reading:
    """The one rank of a profile. Raises ReaderError."""
    rank, origin = named_rank(path)
    if rank is None or rank >= MAX_WORLD:
        raise ReaderError(
            f"{path.name}: the rank is missing: a profile has it in its name, like stacks-rank-3"
        )
    total = sum(counts.values())
    if not total > 0:
        raise ReaderError(f"{path.name} holds no sample of a stack")
    layout = Layout(run="trace", attempt=0, rank=rank, world_size=rank + 1, source="stacks")
    told = f"{path.name}: rank {rank} is inferred from the {origin} name"
    return Reading(
        records=RankRecords(layout=layout),
        source=path.name,
        warnings=(told, *warnings),
        is_world_known=False,
        is_time_known=False,
        stacks=_dumps(counts, rank=rank, total=total),
    )


def _dumps(counts: Mapping[Stack, float], *, rank: int, total: float) -> tuple[StackDump, ...]:
    has_main = any(_MAIN.search(thread) for thread, _ in counts)
    return tuple(
        StackDump(
            run="trace",
            attempt=0,
            rank=rank,
            host="",
            ts_s=0.0,
            step=0,
            reason="burst",
            threads=(
                Thread(
                    kind=_kind(thread, has_main=has_main),
                    name=tame(thread, 64),
                    is_active=True,
                    stack=tame(stack, 1 << 20)[-MAX_STACK:],
                ),
            ),
        )
        for (thread, stack), num in _shares(counts, total).items()
        for _ in range(num)
    )


def _shares(counts: Mapping[Stack, float], total: float) -> Counter[Stack]:
    """Dumps of each stack, the most frequent first; a stack too rare for one is left out."""
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shares = Counter({stack: round(MAX_DUMPS * count / total) for stack, count in ranked})
    return +shares or Counter({ranked[0][0]: 1})


def _kind(thread: str, *, has_main: bool) -> str:
    """Kind of a thread by its name; a profile that names no threads is of the main one."""
    if _MAIN.search(thread) or (not thread and not has_main):
        return "main"
    if _AUTOGRAD.search(thread):
        return "autograd"
    return "loader" if _LOADER.search(thread) else "other"
