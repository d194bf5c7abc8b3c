"""The overhead governor of a run: one level for all its hosts, from what they measured together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from sqlalchemy import Connection

from argus.analytics.store import levels
from argus.analytics.store.intake import AttemptKey
from argus.analytics.store.levels import LevelChange
from argus.collectors.host.stepping import Level, decide, in_words, pooled
from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.plan_choice import AHEAD_S


def level_of(connection: Connection, key: AttemptKey) -> Level:
    """Where an attempt stands by the store; a restart of the job begins with the channels it ended with."""
    last = levels.latest_change(connection, key)
    if last is None:
        return Level()
    return Level(
        level=last.level, from_step=last.from_step, looked_step=last.from_step, patience=last.patience
    )


def govern(
    now: Level,
    *,
    key: AttemptKey,
    beats: Sequence[Heartbeat],
    highest_step: int,
    budget: float,
    now_s: float,
) -> tuple[Level, LevelChange | None]:
    """The next level, and the change to be stored if channels go or come back."""
    cost = pooled(beats, level=now.level)
    steps_s = [beat.status.step_p50_ns * 1e-9 for beat in beats if beat.status.step_p50_ns > 0]
    if cost is None or not steps_s:
        return now, None
    step = max([highest_step, *(beat.status.step for beat in beats)])
    ahead = math.ceil(AHEAD_S / median(steps_s))
    level, is_new = decide(now, cost, step=step, ahead_steps=ahead, budget=budget)
    if not is_new:
        return level, None
    change = LevelChange(
        run=key[0],
        attempt=key[1],
        at_s=now_s,
        level=level.level,
        from_step=level.from_step,
        patience=level.patience,
        text=in_words(level.level, level.from_step, cost),
    )
    return level, change
