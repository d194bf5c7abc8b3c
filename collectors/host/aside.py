"""What the processor does beside cutting windows: observers, switches, orders, the report on itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from argus.collectors.host.counters import Counters
from argus.collectors.host.governor import IsOff
from argus.collectors.host.observers import Observation, Observers
from argus.collectors.host.orders import Orders
from argus.collectors.host.rank import Key
from argus.collectors.host.ranks import Member
from argus.collectors.host.recorder import Recorder
from argus.collectors.host.reporting import make_report
from argus.collectors.host.switches import Switches
from argus.collectors.records.report import Report
from argus.collectors.records.summary import RankWindow


class Aside:
    """Called by the loop, never waits; `orders` is None without a service, `observers` also without a recording."""

    def __init__(
        self,
        *,
        host: str,
        started_s: float,
        switches: Switches,
        observers: Observers | None,
        orders: Orders | None,
        counters: Counters,
        recorder: Recorder | None = None,
    ) -> None:
        self._recorder = recorder
        self._host, self._started_s, self._counters = host, started_s, counters
        self._switches, self._observers, self._orders = switches, observers, orders
        self._on: frozenset[str] = frozenset()

    def look(self, members: Iterable[Member], *, is_off: IsOff, now_s: float) -> None:
        """Do what was ordered, observe the ranks of runs that are not switched off; `is_off` is the governor's."""
        if self._observers is None:
            return
        while self._orders is not None and not self._orders.bursts.empty():
            order = self._orders.bursts.get()
            keys = [(order.run, order.attempt, rank) for rank in order.ranks]
            self._observers.burst(keys, seconds=order.seconds, is_native=order.is_native, now_s=now_s)
        known = list(members)
        runs = {member.state.layout.run for member in known}
        self._on = frozenset(run for run in runs if not self._switches.is_off(run))
        on = [member for member in known if member.state.layout.run in self._on]
        self._observers.look(on, is_off=is_off, now_s=now_s)

    def watch(self, members: Iterable[Member], *, is_off: IsOff, now_s: float) -> float:
        """Whether a rank's open step has just become slow; of runs that the last look found on.

        Returns the seconds in which none of them can become slow.
        """
        if self._observers is None:
            return math.inf
        on = (member for member in members if member.state.layout.run in self._on)
        return self._observers.watch(on, is_off=is_off, now_s=now_s)

    def equip(self, windows: Sequence[RankWindow], members: Iterable[Member]) -> list[RankWindow]:
        """The windows with what the host saw in their time."""
        return list(windows) if self._observers is None else self._observers.equip(windows, members)

    def take(self, *, now_s: float, at_once: bool = False) -> Observation | None:
        """What is there to be sent; what a recording keeps of it is written."""
        if self._observers is None:
            return None
        observation = self._observers.take(now_s=now_s, at_once=at_once)
        if self._recorder is not None:
            for key, frame in self._observers.take_taped():
                self._recorder.observe(key, frame)
        return observation

    def owes(self, key: Key) -> bool:
        """Whether something is under way that a recording of this rank would miss if it ended now."""
        return self._observers is not None and self._observers.owes(key)

    def follow(self, switches: Mapping[str, bool]) -> None:
        """Do as the service says of runs: off or on."""
        self._switches.follow(switches)

    def report(self, members: Iterable[Member]) -> Report:
        """What the processor says of itself."""
        runs = sorted({member.state.layout.run for member in members})
        off = [run for run in runs if self._switches.is_off(run)]
        parts = {} if self._observers is None else self._observers.parts()
        return make_report(self._counters, host=self._host, started_s=self._started_s, parts=parts, off=off)

    def close(self) -> None:
        """End the threads; take back what the service switched."""
        if self._observers is not None:
            self._observers.stop()
        self._switches.close()
        if self._orders is not None:
            self._orders.close()
