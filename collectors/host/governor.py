"""The overhead governor of a host: channels step down while they cost too much, and come back later."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from argus.collectors.host.counters import Counters
from argus.collectors.host.overhead import Ledger
from argus.collectors.records.channels import CHANNELS, off_at
from argus.collectors.records.cost import Cost
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.summary import RankWindow

BUDGET = 0.02
"""Share of step time that Argus may cost."""

MIN_PAIRS = 20
"""Disturbed steps between two decisions: about 1,000 steps of the run."""

AHEAD_S = 5.0
"""A change takes effect that far ahead, so that every rank has heard of it: its writer listens twice a second."""

MIN_AHEAD_STEPS = 4
MAX_ATTEMPTS = 64
MAX_PATIENCE = 64


@dataclass(frozen=True, kw_only=True)
class Change:
    """Channels of `level` are to be off from `from_step` on."""

    run: str
    attempt: int
    level: int
    from_step: int
    cost: Cost

    def text(self) -> str:
        """One sentence for people."""
        off = ", ".join(off_at(self.level)) or "none"
        bounds = f"{(self.cost.low - 1) * 100:+.1f} to {(self.cost.high - 1) * 100:+.1f} %"
        return f"run {self.run}: Argus costs {bounds} of step time; off from step {self.from_step} on: {off}"


@dataclass(kw_only=True)
class _State:
    ledger: Ledger
    level: int = 0
    from_step: int = 0
    decided_at: int = 0
    patience: int = 1  # doubles each time the channels step down: what came back too early waits longer
    last_step: int = 0
    step_ns: int = 0
    costs: Mapping[str, Cost] = field(default_factory=dict)


class Governor:
    """All attempts of this host. Decides on numbers of steps only, so a replay decides alike."""

    def __init__(
        self,
        *,
        counters: Counters,
        budget: float = BUDGET,
        min_pairs: int = MIN_PAIRS,
    ) -> None:
        self._counters = counters
        self._budget = budget
        self._min_pairs = min_pairs
        self._states: dict[tuple[str, int], _State] = {}
        self._changes: list[Change] = []

    def observe(self, windows: Iterable[RankWindow]) -> list[RankWindow]:
        """The windows, each with the cost known so far; decisions wait in `take_changes`."""
        return [self._observe(window) for window in windows]

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
        return replace(beat, overhead=state.costs, channels_off=off_at(state.level))

    def current(self, run: str, attempt: int) -> tuple[int, int]:
        """Level and the step from which it holds; what a rank that connects anew must hear."""
        state = self._states.get((run, attempt))
        return (0, 0) if state is None else (state.level, state.from_step)

    def _observe(self, window: RankWindow) -> RankWindow:
        if not len(window.steps):
            return window
        key = (window.run, window.attempt)
        state = self._states.get(key)
        if state is None:
            if len(self._states) >= MAX_ATTEMPTS:
                self._states.pop(next(iter(self._states)))
            state = self._states[key] = _State(ledger=Ledger(window.run))
        state.last_step = max(state.last_step, int(window.steps["step"].max()))
        state.step_ns = int((window.steps["end_ns"] - window.steps["start_ns"]).mean())
        if int(window.steps["step"].min()) >= state.from_step:
            before = state.ledger.num_pairs()
            state.ledger.add(window.rank, window.steps)
            if state.ledger.num_pairs() != before or not state.costs:
                state.costs = state.ledger.costs()
                self._publish(state)
                self._decide(window, state)
        return replace(window, overhead=state.costs, channels_off=off_at(state.level))

    def _publish(self, state: _State) -> None:
        for channel, cost in state.costs.items():
            self._counters.set("argus_collector_overhead_ratio", cost.ratio, label=channel)
            self._counters.set("argus_collector_overhead_low_ratio", cost.low, label=channel)
            self._counters.set("argus_collector_overhead_high_ratio", cost.high, label=channel)
            self._counters.set("argus_collector_overhead_pairs", cost.n, label=channel)
        for i, channel in enumerate(CHANNELS):
            self._counters.set("argus_collector_channel_off", float(i < state.level), label=channel)

    def _decide(self, window: RankWindow, state: _State) -> None:
        num = state.ledger.num_pairs()
        cost = state.costs.get("all")
        if cost is None or num < state.decided_at + self._min_pairs:
            return
        state.decided_at = num
        before = level = state.level
        if cost.low > 1 + self._budget:
            level = min(level + 1, len(CHANNELS))
        elif level and cost.high < 1 + self._budget / 2 and num >= self._min_pairs * state.patience:
            level -= 1
        if level == before:
            return
        if level > before:
            state.patience = min(state.patience * 2, MAX_PATIENCE)
        ahead = max(MIN_AHEAD_STEPS, math.ceil(AHEAD_S * 1e9 / max(state.step_ns, 1)))
        state.level, state.from_step, state.decided_at = level, state.last_step + ahead, 0
        state.ledger.forget()
        self._counters.add("argus_collector_channel_changes_total", "down" if level > before else "up")
        self._changes.append(
            Change(run=window.run, attempt=window.attempt, level=level, from_step=state.from_step, cost=cost)
        )
        self._publish(state)
