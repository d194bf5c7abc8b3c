"""Bayesian online change points of the step time (Adams and MacKay 2007), told from ten per cent more on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from argus.analytics.window import Floats
from argus.evals.systems._seen import Seen, Suspicion

READS = ("steps",)
"""Which of the uploaded records it looks at."""

HAZARD = 1 / 250
"""One change in 250 steps."""
PRIOR_WEIGHT, PRIOR_SHAPE, PRIOR_SCALE = 0.01, 2.0, 2e-4
"""Normal-gamma prior on the log step time: any level, a spread of about one per cent."""
LONGEST = 400
SETTLED = 5
"""A new run of steps is believed when it is the most probable one and so many steps old."""
RATIO = 1.1


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Belief about the length of the current run of alike steps; arrays (length,)."""

    belief: Floats
    mean: Floats
    weight: Floats
    shape: Floats
    scale: Floats

    def hear(self, value: float, *, level: float) -> Runs:
        """The belief after one more step of log time `value`; a new run starts about `level`."""
        spread = np.sqrt(self.scale * (self.weight + 1) / (self.shape * self.weight))
        likely = _student(value - self.mean, spread, freedom=2 * self.shape) * self.belief
        belief = np.append(likely.sum() * HAZARD, likely * (1 - HAZARD))
        total = max(float(belief.sum()), 1e-300)
        old = fresh(level)
        gain = self.weight * (value - self.mean) ** 2 / (2 * (self.weight + 1))
        return Runs(
            belief=(belief / total)[:LONGEST],
            mean=np.append(old.mean, (self.weight * self.mean + value) / (self.weight + 1))[:LONGEST],
            weight=np.append(old.weight, self.weight + 1)[:LONGEST],
            shape=np.append(old.shape, self.shape + 0.5)[:LONGEST],
            scale=np.append(old.scale, self.scale + gain)[:LONGEST],
        )


def _student(away: Floats, spread: Floats, *, freedom: Floats) -> Floats:
    """Density of Student's t at so far from its middle; scipy's own takes ten times as long for a few values."""
    height = np.exp(gammaln((freedom + 1) / 2) - gammaln(freedom / 2)) / (np.sqrt(freedom * np.pi) * spread)
    return np.asarray(height * (1 + (away / spread) ** 2 / freedom) ** (-(freedom + 1) / 2))


def fresh(level: float) -> Runs:
    """The prior's belief about a run of steps at this log time."""
    one = np.ones(1)
    return Runs(
        belief=one,
        mean=one * level,
        weight=one * PRIOR_WEIGHT,
        shape=one * PRIOR_SHAPE,
        scale=one * PRIOR_SCALE,
    )


def slower_from(values: Floats) -> list[int]:
    """Places at which a slower run is believed in, each some steps after its start.

    >>> slower_from(np.exp(np.r_[np.zeros(40), np.full(40, 0.3)]))
    [45]
    """
    logs = np.log(values)
    told, start = list[int](), 0
    runs = fresh(float(logs[0])) if len(logs) else None
    for place, value in enumerate(logs):
        assert runs is not None
        runs = runs.hear(float(value), level=float(logs[0]))
        begin = place + 1 - int(np.argmax(runs.belief))
        if begin > start + SETTLED and place + 1 - begin > SETTLED:
            before, after = np.median(logs[start:begin]), np.median(logs[begin : place + 1])
            start = begin
            told += [place] if after - before > np.log(RATIO) else []
    return told


def accuse(seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
    """The whole run, in the window in which a slower run of steps is believed in."""
    values, window_of = list[float](), list[int]()
    for at, one in enumerate(seen):
        for step in np.flatnonzero(one.window.usable):
            column = one.window.step_s[:, step]
            if np.isfinite(column).any():
                values.append(float(np.nanmax(column)))
                window_of.append(at)
    for place in slower_from(np.array(values)):
        at = window_of[place]
        yield Suspicion(at=at, fault_class="step.slower", scope=f"run:{seen[at].window.run}")
