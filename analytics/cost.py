"""What an incident costs: added up step by step at the price of each moment, by day at the price of now."""

from __future__ import annotations

from argus.analytics.incident import Cause, Cost

CRITICAL_PATH = "critical path of the step"
REPLAY = "replay of the step"
STANDSTILL = "time no step ended"

GAIN = "replay_gain_s"
"""Evidence whose value is the price, a part of it where several causes delay the same steps."""

BY_ITSELF = "by_itself_s"
"""Evidence whose value would be the price if the other causes of the step were healed."""

SO_FAR = "lost_so_far_s"
"""Evidence of what each step since the onset lost on average, where that is not what one loses now."""

LEAST_S = 1e-9
"""Clocks count nanoseconds: a lower price is what adding up left over, and none."""

BAD_SHARE = "bad_share"
"""Evidence by how much a cause that comes and goes was priced down."""

NONE = Cost(
    s_per_step=0.0, share_of_step=0.0, gpu_hours_so_far=0.0, gpu_hours_per_day=0.0, method=CRITICAL_PATH
)
"""Before the first look."""


def price_of(cause: Cause) -> float:
    """Seconds a step by replay where one tells, else what the cause was measured to cost."""
    price_s = next((item.value for item in cause.evidence if item.name == GAIN), cause.s_per_step)
    return price_s if price_s >= LEAST_S else 0.0


def share_by_itself(cause: Cause) -> float:
    """Share of the step that would be lost to the cause if the others of the step were healed: a fault is no smaller
    for another that hides it."""
    by_itself = next((item.value for item in cause.evidence if item.name == BY_ITSELF), 0.0)
    price_s = price_of(cause)
    whole = cause.share_of_step * by_itself / price_s if price_s > 0 else 0.0
    return min(max(cause.share_of_step, whole), 1.0)


def cost_of_steps(
    before: Cost, cause: Cause, *, onset_step: int, steps_done: int, world: int, quiet_steps: int = 0
) -> Cost:
    """Cost of slow steps; steps counted already keep the price they had, so a fault that eases is not repriced.

    `quiet_steps` of the new ones did not show the fault and cost nothing. The first look prices the steps before it by
    what they lost on average where the cause tells that. What comes and goes is priced by what it
    costs on average; the steps that showed it cost the whole.
    """
    num_steps = max(steps_done - onset_step + 1, before.num_steps, 0)
    s_per_step = price_of(cause)
    share = next((item.value for item in cause.evidence if item.name == BAD_SHARE), 1.0)
    is_replayed = any(item.name == GAIN for item in cause.evidence)
    num_bad = max(num_steps - before.num_steps - quiet_steps, 0)
    added = (_price_so_far(cause, before) or s_per_step / share) * num_bad * world / 3600
    return Cost(
        s_per_step=s_per_step,
        share_of_step=cause.share_of_step if s_per_step else 0.0,
        gpu_hours_so_far=before.gpu_hours_so_far + added,
        gpu_hours_per_day=min(cause.share_of_step, 1.0) * 24.0 * world if s_per_step else 0.0,
        method=REPLAY if is_replayed else CRITICAL_PATH,
        num_steps=num_steps,
    )


def _price_so_far(cause: Cause, before: Cost) -> float | None:
    """What each step lost on average up to the first look; None after it, or where nobody told."""
    if before.num_steps:
        return None
    return next((item.value for item in cause.evidence if item.name == SO_FAR), None)


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
