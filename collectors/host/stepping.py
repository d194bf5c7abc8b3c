"""When channels step down and come back: one rule for a host alone and for the service that decides for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from argus.collectors.records.channels import ALL, BLOCK_STEPS, CHANNELS, off_at
from argus.collectors.records.cost import Cost
from argus.collectors.records.heartbeat import Heartbeat

BUDGET = 0.02
"""Share of step time that Argus may cost."""

MIN_PAIRS = 20
"""Shadow steps a decision rests on, and between two decisions: about 1,000 steps of the run."""

MIN_AHEAD_STEPS = 4
MAX_PATIENCE = 64


@dataclass(frozen=True, kw_only=True)
class Level:
    """`level` channels are off from `from_step` on; `looked_step` is where that was last thought over.

    `patience` doubles each time channels step down: what came back too early waits longer.
    """

    level: int = 0
    from_step: int = 0
    looked_step: int = 0
    patience: int = 1


def decide(
    now: Level, cost: Cost | None, *, step: int, ahead_steps: int, budget: float = BUDGET
) -> tuple[Level, bool]:
    """The next level at `step`, and whether channels change; decided on steps alone, so a replay agrees.

    >>> dear = Cost(ratio=1.05, low=1.03, high=1.07, n=25)
    >>> decide(Level(), dear, step=1300, ahead_steps=50)
    (Level(level=1, from_step=1350, looked_step=1300, patience=2), True)
    """
    pause = MIN_PAIRS * BLOCK_STEPS
    if cost is None or cost.n < MIN_PAIRS or step < now.looked_step + pause:
        return now, False
    looked = replace(now, looked_step=step)
    from_step = step + max(ahead_steps, MIN_AHEAD_STEPS)
    if cost.low > 1 + budget and now.level < len(CHANNELS):
        patience = min(2 * now.patience, MAX_PATIENCE)
        return replace(looked, level=now.level + 1, from_step=from_step, patience=patience), True
    if now.level and cost.high < 1 + budget / 2 and step >= now.from_step + pause * now.patience:
        return replace(looked, level=now.level - 1, from_step=from_step), True
    return looked, False


def pooled(beats: Sequence[Heartbeat], *, level: int) -> Cost | None:
    """What all hosts together measured at `level`; None while less than half of them have.

    Ranks step together, so hosts measure the same steps: more of them lessen the noise of the clock, not
    the number of steps, and the width of the interval is their mean, never less.
    """
    by_host = {beat.host: beat for beat in beats if beat.state == "running"}
    at_level = [beat for beat in by_host.values() if beat.channels_off == off_at(level)]
    costs = [beat.overhead[ALL] for beat in at_level if ALL in beat.overhead]
    costs = [cost for cost in costs if cost.n >= MIN_PAIRS]
    if not costs or 2 * len(costs) < len(by_host):
        return None
    ratio, low, high = (fmean(getattr(cost, name) for cost in costs) for name in ("ratio", "low", "high"))
    return Cost(ratio=ratio, low=low, high=high, n=int(median(cost.n for cost in costs)))


def in_words(level: int, from_step: int, cost: Cost) -> str:
    """One sentence for people."""
    off = ", ".join(off_at(level)) or "none"
    bounds = f"{(cost.low - 1) * 100:+.1f} to {(cost.high - 1) * 100:+.1f} %"
    return f"Argus costs {bounds} of step time; off from step {from_step} on: {off}"
