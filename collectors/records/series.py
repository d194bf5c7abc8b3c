"""A bare series of step times, as a log or a table of a job holds it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class StepSeries:
    """`values_s` are seconds a step (or a sample, as `unit` says) in order; `interval` steps lie between two.

    `first_step` is the step of the first value. `steps` are those of all values where they are told: they may be
    uneven, and go back where a job was started again.
    """

    name: str
    values_s: tuple[float, ...]
    interval: int = 1
    first_step: int = 0
    unit: str = "s"
    steps: tuple[int, ...] = ()
