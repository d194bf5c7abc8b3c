"""Ways in which a window's summaries may arrive damaged; each keeps what is left well-formed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from argus.collectors.records.summary import RankWindow


def _without_rank(parts: tuple[RankWindow, ...]) -> tuple[RankWindow, ...]:
    return parts[1:]


def _one_rank(parts: tuple[RankWindow, ...]) -> tuple[RankWindow, ...]:
    return parts[:1]


def _without_calls(parts: tuple[RankWindow, ...]) -> tuple[RankWindow, ...]:
    return tuple(replace(part, collectives=part.collectives[:0]) for part in parts)


def _without_phases(parts: tuple[RankWindow, ...]) -> tuple[RankWindow, ...]:
    return tuple(replace(part, cells=part.cells[:0]) for part in parts)


def _without_steps(parts: tuple[RankWindow, ...]) -> tuple[RankWindow, ...]:
    return tuple(replace(part, steps=part.steps[:0], cells=part.cells[:0]) for part in parts)


def _half_the_calls(parts: tuple[RankWindow, ...]) -> tuple[RankWindow, ...]:
    return tuple(replace(part, collectives=part.collectives[part.rank % 2 :: 2]) for part in parts)


DAMAGE: Mapping[str, Callable[[tuple[RankWindow, ...]], tuple[RankWindow, ...]]] = {
    "without_rank": _without_rank,
    "one_rank": _one_rank,
    "without_calls": _without_calls,
    "without_phases": _without_phases,
    "without_steps": _without_steps,
    "half_the_calls": _half_the_calls,
}
