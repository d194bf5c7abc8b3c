"""The delay matrix: how long transfers take, per group for collectives and per pair of ranks for point-to-point.

A group's calls cross all of its paths at once, so only the group can be named; a send crosses one path, so a single
bad link shows in the row of its two ends and in no other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.finding import Finding
from argus.analytics.ordering import numbered, packed
from argus.analytics.robust import grouped_median
from argus.analytics.waits import Waits
from argus.analytics.window import Floats, Ints, Window


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Rows are paths: the window's groups, then pairs of ranks named `sender>receiver`. (path,)

    `call_s` = median transfer of a call, `sum_s` = transfer time per usable step, NaN without a call.
    """

    paths: tuple[str, ...]
    call_s: Floats
    sum_s: Floats


def delays_of(window: Window, waits: Waits) -> Delays:
    """The delay matrix of one window."""
    calls, num = waits.calls, len(window.groups)
    path, pairs = _paths(waits, num)
    counted = np.isin(calls.step, window.steps[window.usable])
    path, transfer_s = path[counted], calls.transfer_s[counted]
    size = num + len(pairs)
    total = np.bincount(path, weights=transfer_s, minlength=size)
    seen = np.bincount(path, minlength=size) > 0
    steps = max(int(window.usable.sum()), 1)
    return Delays(
        paths=(*window.groups, *pairs),
        call_s=grouped_median(transfer_s, path, size),
        sum_s=np.where(seen, total / steps, np.nan),
    )


def ends_of(path: str) -> tuple[int, int] | None:
    """Sender and receiver of a path that is a pair, None for a group.

    >>> ends_of("3>11"), ends_of("dp/0")
    ((3, 11), None)
    """
    sender, _, receiver = path.partition(">")
    return (int(sender), int(receiver)) if receiver else None


def path_of(finding: Finding) -> str:
    """Path a finding of kind transfer is about, "" for any other."""
    if finding.kind != "transfer":
        return ""
    is_pair = bool(finding.nodes) and finding.nodes[0].startswith("edge:")
    return f"{finding.ranks[0]}>{finding.ranks[1]}" if is_pair else finding.group or ""


def _paths(waits: Waits, num_groups: int) -> tuple[Ints, list[str]]:
    """Path of each call, and the names of the pairs."""
    calls = waits.calls
    path = calls.group.copy()
    paired = np.flatnonzero(calls.is_op("send", "recv"))
    if not len(paired):
        return path, []
    one, other = calls.first[paired], calls.first[paired] + 1
    swap = ~calls.source[one]
    sender = waits.members[np.where(swap, other, one)]
    receiver = waits.members[np.where(swap, one, other)]
    number, count = numbered(packed(sender, receiver))
    path[paired] = num_groups + number
    which = np.zeros(count, np.int64)
    which[number] = np.arange(len(paired))
    names = zip(sender[which].tolist(), receiver[which].tolist(), strict=True)
    return path, [f"{a}>{b}" for a, b in names]
