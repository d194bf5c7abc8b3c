"""L1: the step time of the job changed for good at one step.

The split of the recent series with the largest least-squares gain (argus-paper.md §9 row 16), accepted if the
change is large against the ratio gate and against the noise of both sides, whose repetition from step to
step is taken into account.
"""

from __future__ import annotations

import math

import numpy as np

from argus.analytics.digest import observed
from argus.analytics.finding import Evidence, Finding
from argus.analytics.robust import split_gain
from argus.analytics.view import View
from argus.analytics.window import Floats

NEEDS = "slow_rank"


def detect(
    view: View,
    *,
    last_steps: int = 120,
    margin: int = 10,  # steps on either side
    min_ratio: float = 1.03,  # 0.6 of the 5 % change that is to be found
    min_scales: float = 5.0,  # standard errors: the best of a hundred splits of noise stays below
    max_rsd: float = 0.35,  # a side that varies more is bursts, not a level
    fresh_steps: int = 60,  # older changes have been reported by earlier windows
) -> tuple[Finding, ...]:
    """At most one notice: the latest change of the job series (slowest rank of each step)."""
    digest = observed(view)
    if digest is None:
        return ()
    series = np.concatenate([*(past.job_step_s for past in view.past), digest.job_step_s])
    steps = np.concatenate([*(past.steps for past in view.past), digest.steps])
    seen = np.isfinite(series)
    series, steps = series[seen][-last_steps:], steps[seen][-last_steps:]
    split = split_gain(series, margin=margin)
    if split is None or len(series) - split[0] > max(fresh_steps, len(digest.steps) + margin):
        return ()
    place, before, after = split
    ratio = after / before
    if max(ratio, 1 / ratio) < min_ratio or _rsd(series[:place]) > max_rsd or _rsd(series[place:]) > max_rsd:
        return ()
    scales = abs(after - before) / _standard_error(series, place)
    if scales < min_scales:
        return ()
    return (_finding(view, digest.index, (int(steps[place]), int(steps[-1])), (before, after), scales),)


def _rsd(values: Floats) -> float:
    """Relative spread, one spike aside."""
    middle = float(np.median(values))
    return 1.4826 * float(np.median(np.abs(values - middle))) / middle if middle > 0 else math.inf


def _standard_error(series: Floats, place: int) -> float:
    """Of the difference of both sides' means; noise that repeats itself counts for fewer samples."""
    rest = np.concatenate([side - np.median(side) for side in (series[:place], series[place:])])
    power = float((rest**2).mean())
    repeats = float((rest[1:] * rest[:-1]).mean()) / power if power > 0 else 0.0
    by_chance = 1.5 / math.sqrt(len(rest))
    repeats = min(max(repeats - by_chance, 0.0), 0.95)
    inflation = (1 + repeats) / (1 - repeats)
    sizes = 1 / place + 1 / (len(series) - place)
    return max(math.sqrt(power * sizes * inflation), 1e-4 * float(np.median(series)))


def _finding(
    view: View, window: int, steps: tuple[int, int], means: tuple[float, float], scales: float
) -> Finding:
    before, after = means
    return Finding(
        run=view.run,
        attempt=view.attempt,
        window=window,
        level="L1",
        detector="l1_shift",
        kind="shift",
        role="notice",
        ranks=(),
        start_step=steps[0],
        end_step=steps[1],
        ratio=after / before,
        effect_s_per_step=after - before,
        share_of_step=(after - before) / after,
        evidence=(
            Evidence(name="step_s", value=after, unit="s", baseline=before),
            Evidence(name="standard_errors", value=scales),
        ),
    )
