"""Nothing is wrong, but counters talk: a power cap under load, an idle link at Gen1, old ECC errors, a port down."""

from __future__ import annotations

import numpy as np

from argus.collectors.records.outside_event import OutsideEvent
from argus.evals.scenarios._draw import draw
from argus.evals.truth import Scenario

TOLD_S = (10.0, 40.0, 70.0)
"""Each is told again and again, the same."""

SAID = (
    ("power", "dcgm", "SW_POWER_CAP active at 690 W of 700 W", None),
    ("pcie", "dcgm", "link at Gen1 while idle", None),
    ("ecc", "dcgm", "aggregate correctable ECC errors", 177.0),
    ("port_down", "fabric manager", "port down", None),
    ("thermal", "ipmi", "inlet 31 C, warning threshold 30 C", None),
)


def scenario(*, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
    """A healthy job with alarms about its hosts; `severity` only decides which kind of job."""
    rng = np.random.default_rng([seed, ranks, 6])
    job = draw(seed=seed, ranks=ranks, severity=severity).job
    events = tuple(
        OutsideEvent(
            time_s=time_s, node=f"host:{job.host(rank)}", source=source, kind=kind, text=text, value=value
        )
        for kind, source, text, value in SAID
        for rank in (int(rng.integers(ranks)),)
        for time_s in TOLD_S
    )
    return Scenario(job=job, events=events)
