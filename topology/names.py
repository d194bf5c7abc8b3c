"""Asking for something that is not there: the error, with the names that come close."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_SUGGESTIONS = 5
MAX_COMPARED = 20_000
"""Names looked at for likeness: fuzzy matching is linear and must not outlast a query."""


class NotInTopology(LookupError):
    """The rank, host or element asked for is unknown; `close` holds names that resemble it."""

    def __init__(self, asked: str, *, close: tuple[str, ...], known: str) -> None:
        hint = f"; close: {', '.join(close)}" if close else ""
        super().__init__(f"{asked} is not in topology{hint}; {known}")
        self.asked = asked
        self.close = close


def close_names(asked: str, names: Iterable[str]) -> tuple[str, ...]:
    """Names that resemble what was asked, best first.

    >>> close_names("h-231", ["h-0231", "spine-2"])
    ('h-0231',)
    """
    pool = sorted(set(names))
    if len(pool) > MAX_COMPARED:
        tail = asked[-3:]
        pool = [name for name in pool if tail in name][:MAX_COMPARED] or pool[:MAX_COMPARED]
    near = [name for name in pool if asked.lower() in name.lower() or name.lower() in asked.lower()]
    fuzzy = get_close_matches(asked, pool, n=MAX_SUGGESTIONS, cutoff=0.5) if len(pool) <= 2_000 else []
    return tuple(dict.fromkeys([*fuzzy, *near]))[:MAX_SUGGESTIONS]


def unknown_rank(rank: int, world_size: int) -> NotInTopology:
    """The error for a rank the run has not."""
    near = max(0, min(world_size - 1, rank))
    return NotInTopology(f"rank {rank}", close=(f"rank {near}",), known=f"ranks are 0–{world_size - 1}")
