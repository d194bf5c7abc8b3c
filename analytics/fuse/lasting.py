"""What lasted long enough to be judged: the input of every rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.finding import Finding
from argus.analytics.incident import Cause
from argus.analytics.link_symptom import LinkSymptom
from argus.analytics.series.blocks import Block
from argus.analytics.symptom import RankSymptom


@dataclass(frozen=True, kw_only=True)
class Lasting:
    """Symptoms that have the votes; each item of `ranks` and `links` is one suspect's, oldest window first.

    `findings` are all findings of the newest window, whatever made them: kernel findings have their own
    persistence, a `run_change` needs none. `open` are the causes of the incidents that are open, `past` the stretches
    in which the whole job was told to be slower and ended to be so by itself.
    """

    ranks: tuple[tuple[RankSymptom, ...], ...] = ()
    links: tuple[tuple[LinkSymptom, ...], ...] = ()
    findings: tuple[Finding, ...] = ()
    open: tuple[Cause, ...] = ()
    past: tuple[Block, ...] = ()


def mean_share(symptoms: Sequence[RankSymptom] | Sequence[LinkSymptom]) -> float:
    """Share of the step that is lost, over the windows of the symptoms."""
    shares = [s.impact_s / s.step_s for s in symptoms if s.step_s > 0]
    return min(float(np.mean(shares)), 1.0) if shares else 0.0
