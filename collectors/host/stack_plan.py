"""Which ranks to dump now: the steady round, slow open steps with two peers, bursts on request."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from argus.collectors.host.rank import Key
from argus.collectors.host.ranks import Member
from argus.collectors.records.heartbeat import COMPILING

BASELINE_S = 60.0
SLOW_RATIO = 1.5
NUM_PEERS = 2

DUMPS_PER_S = 4.0
"""Steady budget of a host, all reasons together: at 10 ms a dump, 4 % of one of its cores."""

MAX_SAVED = 12.0
"""Dumps that may follow at once after a quiet time: an eight-rank host's slow step with its peers."""

URGENT_PER_S = 0.5
MAX_URGENT = 6.0
"""Budget of dumps taken within a tenth of a second of a step's becoming slow: two such steps with their peers at
once, then one each six seconds. A job whose every third step is slow must not be dumped in each of them."""

MIN_EXCESS_S = 0.1
"""A dump takes 20 ms to begin: an excess below this is over before."""

AGAIN_S = 0.9
"""Between two dumps of a rank in one slow step; a little less than the second between two looks."""

SILENT_S = 2.5
"""Two statuses missed: from then on silence counts as time in which the open step stays open."""

MIN_OPEN_S = 0.05
"""Steps shorter than this are over before a dump begins."""

MAX_BURST_S = 60.0
BURST_DUMPS = 5
"""Dumps a second and rank in a burst; native ones stop the process for a third of a second: one."""


@dataclass(frozen=True, kw_only=True)
class OpenStep:
    """A rank whose step is open for `open_s`, `median_s` long as a rule (0 = unknown)."""

    key: Key
    pid: int
    step: int
    open_s: float
    median_s: float

    @property
    def is_slow(self) -> bool:
        """Open for longer than the rule allows."""
        return self.median_s > 0 and self.open_s >= MIN_OPEN_S and self.open_s > SLOW_RATIO * self.median_s

    @property
    def calm_s(self) -> float:
        """Seconds for which `StackPlan.urgent` cannot want this rank, however long its step stays open; 0 if it may now.

        >>> OpenStep(key=("run", 0, 0), pid=1, step=7, open_s=3.0, median_s=4.0).calm_s
        3.0
        """
        if self.median_s <= 0:
            return math.inf
        least_s = max(SLOW_RATIO * self.median_s, self.median_s + MIN_EXCESS_S, MIN_OPEN_S)
        return max(least_s - self.open_s, 0.0)


@dataclass(frozen=True, kw_only=True)
class Request:
    """Dump `rank` `count` times."""

    rank: OpenStep
    reason: str
    count: int = 1
    is_native: bool = False


@dataclass(kw_only=True)
class _Burst:
    until_s: float
    is_native: bool


class StackPlan:
    """Decides once a second; `skipped` counts dumps the budget did not allow."""

    def __init__(self, *, dumps_per_s: float = DUMPS_PER_S, max_saved: float = MAX_SAVED) -> None:
        self._rate, self._max_saved = dumps_per_s, max_saved
        self._tokens = max_saved
        self._last_s: float | None = None
        self._urgent, self._urgent_s = MAX_URGENT, 0.0
        self._slow_at: dict[Key, tuple[int, float]] = {}
        self._due_s: dict[Key, float] = {}
        self._bursts: dict[Key, _Burst] = {}
        self.skipped = 0

    def burst(self, keys: Iterable[Key], *, seconds: float, is_native: bool, now_s: float) -> None:
        """Dump these ranks closely for a while."""
        until_s = now_s + min(max(seconds, 0.0), MAX_BURST_S)
        for key in keys:
            self._bursts[key] = _Burst(until_s=until_s, is_native=is_native)

    def due(self, ranks: Sequence[OpenStep], *, now_s: float, quiet: Collection[Key] = ()) -> list[Request]:
        """What to dump now, the most urgent first, within the budget; `quiet` ranks only in a burst."""
        elapsed_s = 0.0 if self._last_s is None else max(0.0, now_s - self._last_s)
        self._last_s = now_s
        self._tokens = min(self._max_saved, self._tokens + elapsed_s * self._rate)
        keys = {rank.key for rank in ranks}
        self._slow_at = {key: at for key, at in self._slow_at.items() if key in keys}
        wanted: dict[Key, Request] = {}
        open_to = [rank for rank in ranks if rank.key not in quiet]
        own = (*self._slow(open_to, now_s), *self._baseline(open_to, now_s))
        for request in (*self._in_burst(ranks, now_s), *own):
            wanted.setdefault(request.rank.key, request)
        return [request for request in wanted.values() if self._may(request, now_s)]

    def urgent(
        self, ranks: Sequence[OpenStep], *, now_s: float, quiet: Collection[Key] = ()
    ) -> list[Request]:
        """Steps that have just become slow, with their peers; asked when one may be, within its own budget."""
        self._urgent = min(MAX_URGENT, self._urgent + max(0.0, now_s - self._urgent_s) * URGENT_PER_S)
        self._urgent_s = now_s
        fresh = [rank for rank in ranks if self._is_fresh(rank) and rank.key not in quiet]
        if not fresh:
            return []
        wanted: dict[Key, Request] = {}
        for request in self._slow([*fresh, *(rank for rank in ranks if not rank.is_slow)], now_s):
            wanted.setdefault(request.rank.key, request)
        found = []
        for request in wanted.values():
            if self._urgent >= 1.0 and self._may(request, now_s):
                self._urgent -= 1.0
                found.append(request)
        return found

    def _is_fresh(self, rank: OpenStep) -> bool:
        """Slow, by more than a dump takes, and not yet dumped in this step."""
        is_new = self._slow_at.get(rank.key, (-1, 0.0))[0] != rank.step
        return rank.is_slow and is_new and rank.open_s >= rank.median_s + MIN_EXCESS_S

    def _may(self, request: Request, now_s: float) -> bool:
        if self._tokens < request.count:
            self.skipped += request.count
            return False
        self._tokens -= request.count
        self._due_s[request.rank.key] = now_s + BASELINE_S
        return True

    def _in_burst(self, ranks: Sequence[OpenStep], now_s: float) -> list[Request]:
        self._bursts = {key: burst for key, burst in self._bursts.items() if burst.until_s > now_s}
        hits = [(rank, self._bursts[rank.key]) for rank in ranks if rank.key in self._bursts]
        return [
            Request(
                rank=rank,
                reason="burst",
                count=1 if burst.is_native or len(hits) > 1 else min(BURST_DUMPS, int(self._rate) + 1),
                is_native=burst.is_native,
            )
            for rank, burst in hits
        ]

    def _slow(self, ranks: Sequence[OpenStep], now_s: float) -> list[Request]:
        """Slow ranks, those not dumped for longest first so that a tight budget reaches all, then their peers."""
        slow = [rank for rank in ranks if rank.is_slow and self._is_due_again(rank, now_s)]
        requests = []
        for rank in sorted(slow, key=lambda rank: self._due_s.get(rank.key, 0.0)):
            self._slow_at[rank.key] = (rank.step, now_s)
            requests.append(Request(rank=rank, reason="slow_step"))
            requests += [Request(rank=peer, reason="peer") for peer in _peers(rank, ranks)]
        return sorted(requests, key=lambda request: request.reason == "peer")

    def _is_due_again(self, rank: OpenStep, now_s: float) -> bool:
        step, at_s = self._slow_at.get(rank.key, (-1, 0.0))
        return step != rank.step or now_s - at_s >= AGAIN_S

    def _baseline(self, ranks: Sequence[OpenStep], now_s: float) -> list[Request]:
        """Once a minute each, spread over the minute by the rank's place on the host."""
        keys = {rank.key for rank in ranks}
        self._due_s = {key: due_s for key, due_s in self._due_s.items() if key in keys}
        for number, rank in enumerate(ranks):
            self._due_s.setdefault(rank.key, now_s + BASELINE_S * (number + 1) / (len(ranks) + 1))
        return [Request(rank=rank, reason="baseline") for rank in ranks if self._due_s[rank.key] <= now_s]


def _peers(rank: OpenStep, ranks: Sequence[OpenStep]) -> list[OpenStep]:
    """The two nearest ranks of the same attempt, those that are not slow themselves first."""
    same = [peer for peer in ranks if peer.key[:2] == rank.key[:2] and peer.key != rank.key]
    same.sort(key=lambda peer: (peer.is_slow, abs(peer.key[2] - rank.key[2]), peer.key[2]))
    return same[:NUM_PEERS]


def open_steps(members: Iterable[Member], *, now_s: float) -> list[OpenStep]:
    """The ranks whose process can be seen and lives, with what is known of their open step."""
    seen = [m for m in members if m.process.is_visible and not m.is_gone and not m.state.has_ended]
    return [_open_step(member, now_s) for member in seen if member.is_connected]


def _open_step(member: Member, now_s: float) -> OpenStep:
    layout, status = member.state.layout, member.state.status
    key, pid = (layout.run, layout.attempt, layout.rank), member.process.pid
    if status is None:
        return OpenStep(key=key, pid=pid, step=-1, open_s=0.0, median_s=0.0)
    silent_s = now_s - member.state.status_s
    open_s = max(0.0, (status.ts_ns - status.step_since_ns) * 1e-9)
    is_over = member.state.last_step >= status.step and silent_s < SILENT_S
    return OpenStep(
        key=key,
        pid=pid,
        step=status.step,
        open_s=0.0 if is_over else open_s + (silent_s if silent_s >= SILENT_S else 0.0),
        median_s=0.0 if status.in_mark not in ("", COMPILING) else status.step_p50_ns * 1e-9,
    )
