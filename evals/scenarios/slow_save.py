"""All ranks save often, and from some step on one rank's storage stands still in each save."""

from __future__ import annotations

from dataclasses import replace

from argus.evals.scenarios._draw import draw
from argus.evals.truth import Scenario

EVERY = 6
"""Steps from one save to the next: a window of ten sees one or two."""

SAVE_SHARE = 0.2
"""Of a step, as the saves take that are in time."""


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """One rank of host.filesystem."""
    drawn = draw(seed=seed, ranks=ranks, severity=severity)
    job = replace(drawn.job, checkpoint_every=EVERY, checkpoint_s=SAVE_SHARE * drawn.job.step_s)
    return replace(drawn, job=job).scenario("host.filesystem", kind="save", severity=severity)
