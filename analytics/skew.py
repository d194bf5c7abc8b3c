"""The skew of one group's collectives: who enters last, how late, and what the transfer itself takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from argus.analytics.calls import Calls, complete_calls
from argus.analytics.waits import waiting_steps
from argus.analytics.window import Floats, Ints, Window


@dataclass(frozen=True, kw_only=True)
class Skew:
    """Member arrays are (member,), in the order of `ranks`; call arrays (call,), in order of their end.

    `last_share` = share of the calls a member was the last to enter, `late_s` = its mean entry after the
    first one's, `wait_s` = its mean wait for the last one. `transfer_s` = end minus last entry, `spread_s` =
    last entry minus first. `by_durations` says that entries were rebuilt because clocks differ.
    """

    ranks: Ints
    last_share: Floats
    late_s: Floats
    wait_s: Floats
    transfer_s: Floats
    spread_s: Floats
    ops: tuple[str, ...]
    steps: Ints
    by_durations: bool

    @property
    def num_calls(self) -> int:
        """Complete calls that were compared."""
        return len(self.transfer_s)


def skew_of(window: Window, group: str) -> Skew | None:
    """Skew over a group's complete calls in usable steps; None if there is no such call.

    Point-to-point calls have no last member: they are left out.
    """
    if group not in window.groups:
        return None
    calls = complete_calls(window)
    mine = (calls.group == window.groups.index(group)) & ~calls.one_way
    mine &= np.isin(calls.step, waiting_steps(window))
    # Calls of a part of the group, where a runtime splits it, cannot be laid side by side.
    if not mine.any():
        return None
    mine &= calls.size == calls.size[mine].max()
    return _skew(window, calls, np.flatnonzero(mine))


def _skew(window: Window, calls: Calls, which: Ints) -> Skew:
    which = which[np.argsort(calls.end_s[which], kind="stable")]
    rows = calls.first[which][:, None] + np.arange(calls.size[which[0]])
    order = np.argsort(calls.rank[rows], axis=1)
    rows = np.take_along_axis(rows, order, axis=1)
    entry = calls.entry_s[rows]  # (call, member), members in order of rank
    last = entry.max(axis=1, keepdims=True)
    first = entry.min(axis=1, keepdims=True)
    return Skew(
        ranks=window.ranks[calls.rank[rows[0]]],
        last_share=np.asarray((entry == last).mean(axis=0)),
        late_s=np.asarray((entry - first).mean(axis=0)),
        wait_s=np.asarray((last - entry).mean(axis=0)),
        transfer_s=calls.transfer_s[which],
        spread_s=np.asarray((last - first)[:, 0]),
        ops=tuple(sorted(set(calls.op[which].tolist()))),
        steps=calls.step[which],
        by_durations=bool(calls.by_durations[which].any()),
    )
