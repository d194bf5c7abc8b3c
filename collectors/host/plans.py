"""The service's window plans, as far as they can be followed."""

from __future__ import annotations

from collections.abc import Mapping

from argus.collectors.records.plan import MAX_STEPS, WindowPlan

Plans = Mapping[tuple[str, int], WindowPlan]
"""Plan by (run, attempt)."""

MAX_SWITCH = 1 << 53


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
