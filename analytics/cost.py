"""What an incident costs: added up step by step at the price of each moment, by day at the price of now."""

from __future__ import annotations

from argus.analytics.incident import Cause, Cost

CRITICAL_PATH = "critical path of the step"
REPLAY = "pipeline dependency replay"
STANDSTILL = "time no step ended"

NONE = Cost(
    s_per_step=0.0, share_of_step=0.0, gpu_hours_so_far=0.0, gpu_hours_per_day=0.0, method=CRITICAL_PATH
)
"""Before the first look."""


def cost_of_steps(before: Cost, cause: Cause, *, onset_step: int, steps_done: int, world: int) -> Cost:
    """Cost of slow steps; steps counted already keep the price they had, so a fault that eases is not repriced."""
    num_steps = max(steps_done - onset_step + 1, before.num_steps, 0)
    gain_s = next((item.value for item in cause.evidence if item.name == "replay_gain_s"), None)
    s_per_step = cause.s_per_step if gain_s is None else gain_s
    added = s_per_step * (num_steps - before.num_steps) * world / 3600
    return Cost(
        s_per_step=s_per_step,
        share_of_step=cause.share_of_step,
        gpu_hours_so_far=before.gpu_hours_so_far + added,
        gpu_hours_per_day=min(cause.share_of_step, 1.0) * 24.0 * world,
        method=CRITICAL_PATH if gain_s is None else REPLAY,
        num_steps=num_steps,
    )


def cost_of_stop(before: Cost, cause: Cause, *, world: int) -> Cost:
    """Cost of a job that stands still: all of its GPUs for as long as no step has ended."""
    stalled_s = max((item.value for item in cause.evidence if item.name == "stalled_s"), default=0.0)
    return Cost(
        s_per_step=cause.s_per_step,
        share_of_step=cause.share_of_step,
        gpu_hours_so_far=max(before.gpu_hours_so_far, stalled_s * world / 3600),
        gpu_hours_per_day=24.0 * world,
        method=STANDSTILL,
    )
