"""One communication call in flight, and the process group it is of."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Timer = Callable[["Call"], None]
"""Takes an issued call over; it calls `CallLog.over` and `emit` when the work is done."""


class GroupState:
    """One process group as this rank uses it. `ranks` are global, by group rank.

    `index` is that of its name, 0 where there was no room for one: its calls would be taken for another group's.
    """

    __slots__ = ("completed", "entered", "index", "of", "p2p_seq", "ranks", "seq", "timer")

    def __init__(self, *, index: int, ranks: Sequence[int]) -> None:
        self.index = index
        self.ranks = tuple(ranks)
        self.seq = 0
        self.p2p_seq: dict[tuple[int, int], int] = {}
        self.entered = 0
        self.completed = 0
        self.of: Callable[[], object | None] | None = None  # gives the runtime's group while it lives
        self.timer: Timer | None = None  # learns the end in its own way, if there is one


class Call:
    """One call of this rank. `end_ns` is 0 until the work is known to be over."""

    __slots__ = (
        "_open",
        "blocked_ns",
        "bytes",
        "cpu_ns",
        "end_ns",
        "entry_ns",
        "group",
        "is_forgotten",
        "op",
        "peer",
        "phase",
        "seq",
        "step",
    )

    op: int
    group: GroupState
    seq: int
    peer: int
    bytes: int
    step: int
    phase: int
    entry_ns: int
    end_ns: int
    blocked_ns: int
    cpu_ns: int
    is_forgotten: bool
    _open: list[None]

    def take(self) -> bool:
        """True for the first caller only: the one that emits the row."""
        try:
            self._open.pop()
        except IndexError:
            return False
        return True
