"""Decoded activity to KERNEL rows: each with the launch, phase, step and collective it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from argus.collectors.rank.cupti.decode import Decoded
from argus.collectors.rank.cupti.kinds import LAUNCH, MEMCPY, MEMCPY2, MEMSET, WORK
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.timeline import CallSpans, Timeline
from argus.collectors.records.events import KERNEL, Rows, empty
from argus.collectors.records.kernel_names import is_comm

KEPT_LAUNCHES = 1 << 16
"""Launches remembered: a kernel's record comes after its launch's, up to what the GPU is behind."""

HELD_ROUNDS = 4
"""Rounds a kernel waits for the record of its launch, which may lie in another thread's buffer."""

COPY_KINDS = (MEMCPY, MEMCPY2, MEMSET)

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Pending:
    """Work without its launch, named already. `rounds` is how long it waits."""

    work: Rows = field(default_factory=lambda: np.empty(0, WORK))
    rounds: Ints = field(default_factory=lambda: np.empty(0, np.int64))


class Joiner:
    """Keeps launches and waiting work between rounds. WORK.name is a string index of the ring here."""

    def __init__(
        self,
        *,
        ring: Ring,
        timeline: Timeline,
        calls: CallSpans,
        shorten: Callable[[str], str],
        group_kind: Callable[[int], str],
    ) -> None:
        self._ring = ring
        self._timeline = timeline
        self._calls = calls
        self._shorten = shorten
        self._group_kind = group_kind
        self._launches = np.empty(0, LAUNCH)
        self._pending = Pending()
        self._comm: dict[int, bool] = {}
        self._roles = {name: ring.intern(name) for name in ("compute", "copy", "comm:world")}
        self._role_of_group: dict[int, int] = {}

    def add(self, decoded: Decoded) -> None:
        """Take over what a buffer held."""
        names = np.array([self._intern(name) for name in decoded.names], np.uint32)
        work = decoded.work.copy()
        if len(work):
            work["name"] = names[work["name"]]
        timed = (work["start"] > 0) & (work["end"] >= work["start"])
        if not timed.all():
            self._ring.drop("kernel_untimed", int((~timed).sum()))
            work = work[timed]
        if len(decoded.launches):
            self._launches = np.concatenate([self._launches, decoded.launches])[-KEPT_LAUNCHES:]
        self._pending = Pending(
            work=np.concatenate([self._pending.work, work]),
            rounds=np.concatenate([self._pending.rounds, np.zeros(len(work), np.int64)]),
        )

    def _intern(self, name: str) -> int:
        short = self._shorten(name)
        index = self._ring.intern(short)
        if index not in self._comm:
            self._comm[index] = is_comm(short)
        return index

    def take(self, offset_ns: int, *, is_last: bool = False) -> Rows:
        """KERNEL rows of what has its launch or waited long enough for it; CUPTI's clock is `offset_ns` behind."""
        work, rounds = self._pending.work, self._pending.rounds
        if not len(work):
            return empty("kernels")
        launch = self._launch_of(work["correlation"])
        ready = (launch > 0) | (rounds >= HELD_ROUNDS) | is_last
        rest = Pending(work=work, rounds=rounds + 1)
        self._pending = replace(rest, work=rest.work[~ready], rounds=rest.rounds[~ready])
        return self._rows(work[ready], launch[ready], offset_ns=offset_ns)

    def _launch_of(self, correlations: Ints) -> Ints:
        """Start of each one's launch on CUPTI's clock, 0 where it is not known."""
        found = np.zeros(len(correlations), np.int64)
        if not len(self._launches):
            return found
        # Of a number that came round again the latest counts: a stable sort keeps it last.
        ordered = self._launches[np.argsort(self._launches["correlation"], kind="stable")]
        at = np.searchsorted(ordered["correlation"], correlations, side="right") - 1
        at = np.maximum(at, 0)
        same = ordered["correlation"][at] == correlations
        found[same] = ordered["start"][at[same]]
        return found

    def _rows(self, work: Rows, launch: Ints, *, offset_ns: int) -> Rows:
        rows = np.zeros(len(work), KERNEL)
        rows["name"] = work["name"]
        begin: Ints = work["start"]
        end: Ints = work["end"]
        start = begin + offset_ns
        rows["start_ns"], rows["dur_ns"] = start, end - begin
        known = launch > 0
        rows["launch_ns"][known] = np.minimum(launch[known] + offset_ns, start[known])
        when = np.where(known, rows["launch_ns"], rows["start_ns"])
        rows["step"], rows["phase"] = self._timeline.at(when)
        comm = np.array([self._comm[int(name)] for name in work["name"]], np.bool_)
        groups, rows["seq"] = self._calls.at(when)
        groups[~(comm & known)] = 0
        rows["group"] = groups
        rows["seq"][groups == 0] = 0
        rows["role"] = self._role(work["kind"], comm=comm, groups=groups)
        return rows[rows["step"] >= 0]  # the others ran before the first phase that was seen

    def _role(self, kinds: Ints, *, comm: NDArray[np.bool_], groups: Ints) -> NDArray[np.uint32]:
        roles = np.full(len(kinds), self._roles["compute"], np.uint32)
        roles[np.isin(kinds, COPY_KINDS)] = self._roles["copy"]
        roles[comm] = self._roles["comm:world"]
        for group in np.unique(groups[comm & (groups > 0)]):
            roles[comm & (groups == group)] = self._group_role(int(group))
        return roles

    def _group_role(self, group: int) -> int:
        role = self._role_of_group.get(group)
        if role is None:
            role = self._role_of_group[group] = self._ring.intern(f"comm:{self._group_kind(group)}")
        return role
