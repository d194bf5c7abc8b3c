"""What a rank's flight recorder held when its job stood still: calls of its groups that never ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class PendingCall:
    """A call that was entered and not completed.

    `seq` counts the calls of the group; a send or receive names its `peer` as global rank, else -1.
    `frames` are the Python frames it was issued from, innermost first. `state` is "scheduled" or, once the
    device has come to it and where that is recorded, "started".
    """

    group: str
    op: str
    seq: int
    peer: int = -1
    is_send: bool = False
    shape: str = ""
    created_ns: int = 0
    timeout_ns: int = 0
    frames: tuple[str, ...] = ()
    state: str = ""


@dataclass(frozen=True, kw_only=True)
class FlightDump:
    """One rank's dump. `groups` maps a group's name to (calls entered, completed); None = not told.

    `p2p_groups` are groups whose counters include sends and receives, which differ between members;
    `undescribed` are groups whose members the dump does not list.
    """

    rank: int
    groups: Mapping[str, tuple[int, int] | None] = field(default_factory=dict)
    p2p_groups: frozenset[str] = frozenset()
    pending: tuple[PendingCall, ...] = ()
    last_created_ns: int = 0
    undescribed: frozenset[str] = frozenset()
