"""Which steps are profiled: a function of the run and the step alone, so the same on every rank."""

from __future__ import annotations

from hashlib import blake2b

PERIOD_STEPS = 50
"""One step in so many: at 10 ms of profiler a step that is 0.2 % of a job whose step lasts 100 ms."""


def profiled_step(run: str, block: int, *, period: int) -> int:
    """The one profiled step among steps [block × period, (block + 1) × period).

    Drawn by a hash: a fixed stride would meet the same step of whatever else repeats.

    >>> profiled_step("run", 3, period=1)
    3
    """
    digest = blake2b(f"{run}/{block}".encode(), digest_size=8).digest()
    return block * period + int.from_bytes(digest, "little") % period


def is_profiled(run: str, step: int, *, period: int) -> bool:
    """Whether `step` is profiled; never with a period of 0."""
    return period > 0 and step == profiled_step(run, step // period, period=period)
