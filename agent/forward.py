"""The paragraph of a loss report that a person can forward."""

from __future__ import annotations

from argus.agent.wording import CAUSES, counted, printable, quantity
from argus.analytics.lost_hours import UNENDED, LostHours

MIN_SHARE = 0.005
"""What costs less than half a percent is not worth a clause."""

MAX_CLASSES, MAX_GAINS = 3, 3

NAMES = {**CAUSES, UNENDED: "a step that had not ended at the last sign of life"}


def paragraph(report: LostHours) -> str:
    """What was lost, to what, and what is worth doing first, in plain sentences."""
    lost = report.lost
    used = f"Run {report.run} used {_hours(report.gpu_hours)} on {counted(report.world_size, 'ranks')}"
    step = f"a healthy step takes {quantity(report.baseline_s, 's')}"
    stopped = " and to standstills" if any(name.startswith("stop.") for name in report.by_class) else ""
    above = f"It lost {_hours(lost.hours)} ({quantity(lost.share, 'share')}) to steps above that{stopped}"
    far = f"{_hours(lost.far_hours)} ({quantity(lost.far_share, 'share')}) of it in {counted(report.num_far_steps, 'steps')}"
    said = [
        f"{used} over {counted(report.num_steps, 'steps')}; {step}.",
        f"{above}, {far} of twice the baseline or more.",
    ]
    classes = [
        f"{NAMES.get(name, name)} ({name}) {_hours(loss.hours)}, {quantity(loss.share, 'share')}"
        for name, loss in report.by_class.items()
        if loss.share >= MIN_SHARE
    ][:MAX_CLASSES]
    if classes:
        said.append(f"By cause: {'; '.join(classes)}.")
    if report.unexplained.share >= MIN_SHARE:
        said.append(
            f"{_hours(report.unexplained.hours)} ({quantity(report.unexplained.share, 'share')}) are no incident's: "
            "spread of the steps themselves."
        )
    gains = sorted(report.gains, key=lambda gain: -gain.share)
    worth = [
        f"{gain.name} {quantity(gain.share, 'share')} (up to {_hours(gain.gpu_hours_per_day)} a day)"
        for gain in gains
        if gain.share >= MIN_SHARE
    ][:MAX_GAINS]
    if worth:
        said.append(f"Beyond faults, each step pays for {'; '.join(worth)}.")
    if report.lacks:
        said.append(f"Not known: {', '.join(report.lacks)}.")
    return printable(" ".join(said))


def _hours(hours: float) -> str:
    return f"{quantity(hours)} GPU-hours"
