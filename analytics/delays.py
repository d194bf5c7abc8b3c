"""The delay matrix: how long transfers take, per group for collectives and per pair of ranks for point-to-point.

A group's calls cross all of its paths at once, so only the group can be named; a send crosses one path, so a single
bad link shows in the row of its two ends and in no other. A receiver that comes late hides part of the transfer: what
is left of it delays the job, and only calls whose receiver stood ready say how long the wire takes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from argus.analytics.calls import Calls
from argus.analytics.collectives import PAIRED
from argus.analytics.finding import Finding
from argus.analytics.ordering import numbered, packed
from argus.analytics.recalled import recalled
from argus.analytics.robust import grouped_median
from argus.analytics.waits import Waits
from argus.analytics.window import Bools, Floats, Ints, Window

_PAIR = re.compile(r"(\d+)>(\d+)", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Delays:
    """Rows are paths: the window's groups, then pairs of ranks named `sender>receiver`. (path,)

    `sum_s` = transfer time per usable step, of a pair what its receiver stood for; calls of which a record is missing
    count like the group's others. `call_s` = median transfer of a call, of a pair over calls whose receiver stood
    ready. NaN without such a call.
    """

    paths: tuple[str, ...]
    call_s: Floats
    sum_s: Floats


def delays_of(window: Window, waits: Waits) -> Delays:
    """The delay matrix of one window."""
    calls = waits.calls
    path, names = paths_of(window, calls)
    counted = np.isin(calls.step, window.steps[window.usable])
    whole = _whole(calls)[counted]
    path, transfer_s = path[counted], calls.transfer_s[counted]
    size = len(names)
    total = np.bincount(path, weights=transfer_s, minlength=size)
    seen = np.bincount(path, minlength=size)
    cut = calls.cut_group[np.isin(calls.cut_step, window.steps[window.usable])]
    times = 1 + np.bincount(cut, minlength=size) / np.maximum(seen, 1)
    steps = max(int(window.usable.sum()), 1)
    return Delays(
        paths=names,
        call_s=grouped_median(transfer_s[whole], path[whole], size),
        sum_s=np.where(seen > 0, times * total / steps, np.nan),
    )


def _whole(calls: Calls) -> Bools:
    """Calls whose transfer was seen from its beginning: of a pair those whose receiver came first. (call,)"""
    whole = np.ones(len(calls.first), np.bool_)
    paired = np.flatnonzero(calls.is_op(*PAIRED))
    one, other = calls.first[paired], calls.first[paired] + 1
    lead_s = calls.entry_s[one] - calls.entry_s[other]
    whole[paired] = np.where(calls.source[one], lead_s >= 0, lead_s <= 0)
    return whole


def ends_of(path: str) -> tuple[int, int] | None:
    """Sender and receiver of a path that is a pair, None for a group.

    A group's name is its users' own and may hold anything, but ends in its number.

    >>> ends_of("3>11"), ends_of("dp/0"), ends_of("stage 0->1/0")
    ((3, 11), None, None)
    """
    pair = _PAIR.fullmatch(path)
    return (int(pair[1]), int(pair[2])) if pair else None


def path_of(finding: Finding) -> str:
    """Path a finding of kind transfer is about, "" for any other."""
    if finding.kind != "transfer":
        return ""
    is_pair = bool(finding.nodes) and finding.nodes[0].startswith("edge:")
    return f"{finding.ranks[0]}>{finding.ranks[1]}" if is_pair else finding.group or ""


def paths_of(window: Window, calls: Calls) -> tuple[Ints, tuple[str, ...]]:
    """Number of each call's path (call,), and the names of the paths: the window's groups, then pairs."""
    told = (calls.group, calls.rank, calls.first, calls.source, calls.op_code, calls.ops)
    given = (*told, window.groups, window.ranks)
    return recalled(window.topology, "paths", given, lambda: _paths_of(window, calls))


def _paths_of(window: Window, calls: Calls) -> tuple[Ints, tuple[str, ...]]:
    path, ranks = calls.group.copy(), window.ranks[calls.rank]
    paired = np.flatnonzero(calls.is_op(*PAIRED))
    if not len(paired):
        return path, window.groups
    one, other = calls.first[paired], calls.first[paired] + 1
    swap = ~calls.source[one]
    sender, receiver = ranks[np.where(swap, other, one)], ranks[np.where(swap, one, other)]
    number, count = numbered(packed(sender, receiver))
    path[paired] = len(window.groups) + number
    which = np.zeros(count, np.int64)
    which[number] = np.arange(len(paired))
    names = zip(sender[which].tolist(), receiver[which].tolist(), strict=True)
    return path, (*window.groups, *(f"{a}>{b}" for a, b in names))
