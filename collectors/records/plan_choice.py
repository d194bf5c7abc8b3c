"""How many steps make a window, chosen once per attempt from how long its steps last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from argus.collectors.records.heartbeat import Heartbeat
from argus.collectors.records.plan import DEFAULT_STEPS, MAX_STEPS, WindowPlan

MIN_WINDOW_S = 10.0
MAX_WINDOW_S = 60.0
"""A window between these tells noise from faults and still answers within minutes."""

TARGET_S = 15.0
"""What a chosen window lasts: half as much again as the least, so that faster steps stay above it."""

AHEAD_S = 30.0
"""How far ahead of the highest step the switch lies: six heartbeat uploads carry it to every host."""

SETTLED_WINDOWS = 2
"""Windows of the first plan that must have passed: start-up steps say nothing of the length of a step."""


def first_plan(window_steps: int) -> WindowPlan:
    """The plan of a new attempt; 0 = the default number of steps."""
    return WindowPlan(first=window_steps or DEFAULT_STEPS)


def choose_plan(
    plan: WindowPlan,
    *,
    beats: Sequence[Heartbeat],
    world_size: int,
    highest_step: int,
    window_step_s: float | None = None,
) -> WindowPlan:
    """`plan` with its switch, or `plan` itself while the step time is unknown or needs none.

    The step time is what half of the ranks say in their heartbeats, else that of the last window.

    >>> choose_plan(WindowPlan(), beats=(), world_size=8, highest_step=100)
    WindowPlan(first=10, switch=0, then=0, origin=0)
    """
    if plan.switch:
        return plan
    highest_step = max([highest_step, *(beat.status.step for beat in beats)])
    steps_s = [beat.status.step_p50_ns * 1e-9 for beat in beats if beat.status.step_p50_ns > 0]
    if 2 * len(steps_s) < world_size:
        steps_s = [window_step_s] if window_step_s else []
    if not world_size or not steps_s or highest_step < SETTLED_WINDOWS * plan.first:
        return plan
    step_s = median(steps_s)
    if MIN_WINDOW_S <= plan.first * step_s <= MAX_WINDOW_S:
        return plan
    then = min(max(math.ceil(TARGET_S / step_s), 1), MAX_STEPS)
    ahead = highest_step + max(math.ceil(AHEAD_S / step_s), plan.first)
    return WindowPlan(first=plan.first, switch=math.ceil(ahead / plan.first) * plan.first, then=then)
