"""An event of a series of step times as a finding of L1."""

from __future__ import annotations

import math

from argus.analytics.finding import Evidence, Finding
from argus.analytics.series.event import Event
from argus.analytics.series.period import Period

DETECTOR = {
    "spike": "l1_spike",
    "shift": "l1_shift",
    "drift": "l1_shift",
    "oscillation": "l1_shift",
    "periodic": "l1_period",
}

CAUSES_IN_STEPS = "as checkpoints, evaluation, logging and loader prefetch do"
CAUSES_IN_SECONDS = "as scrapes, cron jobs and heat do"


def finding_of(
    event: Event,
    *,
    run: str,
    attempt: int,
    window: int,
    ranks: tuple[int, ...] = (),
    unit: str = "s",
    steps_per_value: float = 1,
) -> Finding:
    """A notice at the event's places; `ranks` are those it happened to, none = the job."""
    lost = event.got - event.expected
    return Finding(
        run=run,
        attempt=attempt,
        window=window,
        level="L1",
        detector=DETECTOR[event.kind],
        kind=event.kind,
        role="notice",
        ranks=ranks,
        start_step=event.start,
        end_step=event.end,
        ratio=event.ratio,
        effect_s_per_step=lost,
        share_of_step=lost / event.got,
        evidence=tuple(_evidence(event, unit, steps_per_value)),
    )


def _evidence(event: Event, unit: str, steps_per_value: float) -> list[Evidence]:
    evidence = [Evidence(name="step_s", value=event.got, unit=unit, baseline=event.expected)]
    if event.scales is not None and math.isfinite(event.scales):
        evidence.append(Evidence(name="standard_errors", value=event.scales))
    if event.period is not None:
        evidence += _period(event.period, unit, steps_per_value)
    if event.instead_of is not None:
        again = "the same change, placed better by the steps that came since"
        evidence.append(
            Evidence(name="placed_before", value=float(event.instead_of), unit="step", note=again)
        )
    return evidence


def _period(period: Period, unit: str, steps_per_value: float) -> list[Evidence]:
    in_steps = period.unit == "values"
    length = period.length * (steps_per_value if in_steps else 1)
    note = f"repeats in steps, {CAUSES_IN_STEPS}" if in_steps else f"repeats in seconds, {CAUSES_IN_SECONDS}"
    return [
        Evidence(name="period", value=length, unit="steps" if in_steps else unit, note=note),
        Evidence(name="correlation", value=period.strength),
    ]
