"""Say in two lines what a replay of the pipeline found to be worth how much."""

from __future__ import annotations

from argus.agent.wording import quantity
from argus.analytics.whatif.shares import WhatIf

MIN_SHARE = 0.05
"""Smaller parts of a loss are not named."""

MIN_SLOWDOWN = 1.01


def worth_lines(result: WhatIf) -> tuple[str, ...]:
    """How much longer a step is than with everything at its ideal, and what that is made of."""
    error = f"replay within {quantity(result.sim_error_median, 'share')} of what was recorded"
    if result.slowdown < MIN_SLOWDOWN:
        return (
            f"what if: nothing to gain, a step takes its ideal {quantity(result.ideal_s, 's')} ({error})",
        )
    first = (
        f"what if: {quantity(result.sim_s, 's')} a step, {quantity(result.ideal_s, 's')} with every operation at its "
        f"ideal ({result.slowdown:.2f}×, {quantity(result.gpu_hours_per_day)} GPU-hours a day; {error})"
    )
    last = max(result.by_stage, default=0)
    parts = [(f"{len(result.workers)} worst workers", result.worker_share)] if len(result.workers) > 1 else []
    parts += [(f"rank {result.workers[0]}", result.worker_share)] if len(result.workers) == 1 else []
    parts += [(f"stage {last}, the last", result.stage_share)] if last else []
    parts += list(result.by_op.items())[:3]
    named = [f"{name} {quantity(share, 'share')}" for name, share in parts if share >= MIN_SHARE]
    return (
        first,
        f"of the loss goes away with: {', '.join(named)}" if named else "no part of the loss stands out",
    )
