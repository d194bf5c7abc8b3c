"""What the service plans for an attempt, as far as it can be followed: windows, and which channels are off."""

from __future__ import annotations

from collections.abc import Mapping

from argus.collectors.records.channels import CHANNELS
from argus.collectors.records.plan import MAX_STEPS, WindowPlan

Plans = Mapping[tuple[str, int], WindowPlan]
"""Plan by (run, attempt)."""

Levels = Mapping[tuple[str, int], tuple[int, int]]
"""By (run, attempt): how many channels are off, and from which step on."""

MAX_SWITCH = 1 << 53


def parse_levels(raw: object) -> Levels:
    """Levels of the plans of an answer; a service that decides nothing sends none."""
    plans = [item for item in raw if isinstance(item, dict)] if isinstance(raw, list) else []
    found = {}
    for plan in plans:
        numbers = [plan.get(key) for key in ("attempt", "level", "from_step")]
        whole = [n for n in numbers if isinstance(n, int) and not isinstance(n, bool) and 0 <= n < MAX_SWITCH]
        if isinstance(plan.get("run"), str) and len(whole) == len(numbers) and whole[1] <= len(CHANNELS):
            found[plan["run"], whole[0]] = (whole[1], whole[2])
    return found


def parse_plans(raw: object) -> tuple[Plans, int]:
    """Plans of an answer, and how many of them were unusable."""
    if raw is None:
        return {}, 0
    if not isinstance(raw, list):
        return {}, 1
    parsed = [_parse_plan(item) for item in raw]
    return dict(item for item in parsed if item), sum(item is None for item in parsed)


def _parse_plan(raw: object) -> tuple[tuple[str, int], WindowPlan] | None:
    if not isinstance(raw, dict) or not isinstance(raw.get("run"), str):
        return None
    numbers = [raw.get(key) for key in ("attempt", "first", "switch", "then")]
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < MAX_SWITCH for n in numbers):
        return None
    attempt, first, switch, then = (int(n) for n in numbers if n is not None)
    if not 1 <= first <= MAX_STEPS:
        return None
    try:
        return (raw["run"], attempt), WindowPlan(first=first, switch=switch, then=then)
    except ValueError:
        return None  # counted by the caller
