"""The overhead governor of a host: measures, and has channels off as the service says, else as it decides."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from argus.collectors.host.counters import Counters
from argus.collectors.host.overhead import Ledger
from argus.collectors.host.plans import Levels
from argus.collectors.host.rank import Key
from argus.collectors.host.stepping import BUDGET, Level, decide, in_words
from argus.collectors.records.channels import ALL, CHANNELS, off_at
from argus.collectors.records.cost import Cost
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.summary import RankWindow

AHEAD_S = 5.0
"""A change takes effect that far ahead, so that every rank has heard of it: its writer listens twice a second."""

MAX_ATTEMPTS = 64


class IsOff(Protocol):
    """Whether a channel of the processor itself is off for a rank of (run, attempt) that is in `step`."""

    def __call__(self, channel: str, run: str, attempt: int, *, step: int) -> bool:
        """See `Governor.is_off`."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Channels of `level` are to be off from `from_step` on; `text` says so to people."""

    run: str
    attempt: int
    level: int
    from_step: int
    text: str


@dataclass(kw_only=True)
class _State:
    ledger: Ledger
    level: Level = field(default_factory=Level)
    before: int = 0  # channels off until `level` holds
    is_told: bool = False  # the service decides for all hosts of the attempt
    last_step: int = 0
    step_ns: int = 0
    costs: Mapping[str, Cost] = field(default_factory=dict)


class Governor:
    """All attempts of this host. Once a service decides for an attempt, this host only follows."""

    def __init__(self, *, counters: Counters, budget: float = BUDGET) -> None:
        self._counters = counters
        self._budget = budget
        self._states: dict[tuple[str, int], _State] = {}
        self._changes: list[Change] = []

    def observe(self, windows: Iterable[RankWindow]) -> list[RankWindow]:
        """The windows, each with the cost known so far; decisions wait in `take_changes`."""
        return [self._observe(window) for window in windows]

    def dumped(self, key: Key, ts_s: float) -> None:
        """A steady dump of a rank was taken at Unix time `ts_s` of the host."""
        run, attempt, rank = key
        self._state(run, attempt).ledger.dumps.dumped(rank, round(ts_s * 1e9))

    def follow(self, levels: Levels) -> None:
        """Have off what the service says: all hosts of an attempt hear the same level and step."""
        for (run, attempt), (level, from_step) in levels.items():
            state = self._state(run, attempt)
            state.is_told = True
            if (level, from_step) != (state.level.level, state.level.from_step):
                told = replace(state.level, level=level, from_step=from_step)
                off = ", ".join(off_at(level)) or "none"
                text = f"the service decided for all hosts: off from step {from_step} on: {off}"
                self._change(run, attempt, told, text=text)

    def forget(self, run: str, attempt: int) -> None:
        """The attempt is launched anew under its name and counts its steps from 0: what was measured is of another."""
        self._states.pop((run, attempt), None)

    def take_changes(self) -> list[Change]:
        """What was decided since last asked."""
        changes, self._changes = self._changes, []
        return changes

    def tell(self, beats: Iterable[Heartbeat]) -> list[Heartbeat]:
        """The heartbeats, each with the cost and the channels that are off."""
        return [self._tell(beat) for beat in beats]

    def _tell(self, beat: Heartbeat) -> Heartbeat:
        state = self._states.get((beat.run, beat.attempt))
        if state is None:
            return beat
        return replace(beat, overhead=state.costs, channels_off=off_at(state.level.level))

    def current(self, run: str, attempt: int) -> tuple[int, int]:
        """Level and the step from which it holds; what a rank that connects anew must hear."""
        state = self._states.get((run, attempt))
        return (0, 0) if state is None else (state.level.level, state.level.from_step)

    def is_off(self, channel: str, run: str, attempt: int, *, step: int) -> bool:
        """Whether a channel of the processor itself is off while a rank is in `step`."""
        level, from_step = self.current(run, attempt)
        return channel in off_at(level) and step >= from_step

    def _state(self, run: str, attempt: int) -> _State:
        state = self._states.get((run, attempt))
        if state is None:
            if len(self._states) >= MAX_ATTEMPTS:
                self._states.pop(next(iter(self._states)))
            state = self._states[run, attempt] = _State(ledger=Ledger(run))
        return state

    def _observe(self, window: RankWindow) -> RankWindow:
        if not len(window.steps):
            return window
        state = self._state(window.run, window.attempt)
        state.last_step = max(state.last_step, int(window.steps["step"].max()))
        state.step_ns = int((window.steps["end_ns"] - window.steps["start_ns"]).mean())
        if int(window.steps["step"].min()) >= state.level.from_step:
            before = state.ledger.newest_pair
            state.ledger.add(window.rank, window.steps)
            if state.ledger.newest_pair != before or not state.costs:
                state.costs = state.ledger.costs()
                self._publish(state)
                self._decide(window, state)
        is_before = window.first_step + window.num_steps <= state.level.from_step
        off = off_at(state.before if is_before else state.level.level)
        return replace(window, overhead=state.costs, channels_off=off)

    def _publish(self, state: _State) -> None:
        for channel, cost in state.costs.items():
            self._counters.set("argus_collector_overhead_ratio", cost.ratio, label=channel)
            self._counters.set("argus_collector_overhead_low_ratio", cost.low, label=channel)
            self._counters.set("argus_collector_overhead_high_ratio", cost.high, label=channel)
            self._counters.set("argus_collector_overhead_pairs", cost.n, label=channel)
        for i, channel in enumerate(CHANNELS):
            self._counters.set("argus_collector_channel_off", float(i < state.level.level), label=channel)

    def _decide(self, window: RankWindow, state: _State) -> None:
        cost = state.costs.get(ALL)
        if state.is_told or cost is None:
            return
        ahead = math.ceil(AHEAD_S * 1e9 / max(state.step_ns, 1))
        level, is_new = decide(
            state.level, cost, step=state.last_step, ahead_steps=ahead, budget=self._budget
        )
        if is_new:
            text = in_words(level.level, level.from_step, cost)
            self._change(window.run, window.attempt, level, text=text)
        else:
            state.level = level

    def _change(self, run: str, attempt: int, level: Level, *, text: str) -> None:
        """Take up another level; what was measured before belongs to the past."""
        state = self._state(run, attempt)
        before = state.before = state.level.level
        state.level = level
        state.ledger.forget()
        state.costs = {}
        if level.level != before:
            what = "down" if level.level > before else "up"
            self._counters.add("argus_collector_channel_changes_total", what)
        self._changes.append(
            Change(
                run=run,
                attempt=attempt,
                level=level.level,
                from_step=level.from_step,
                text=f"run {run}: {text}",
            )
        )
        self._publish(state)
