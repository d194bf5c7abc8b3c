"""Every suite by name: grids of scenarios, and those whose trials are chosen otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from argus.evals.days import Days
from argus.evals.headline import Headline
from argus.evals.score import Trial
from argus.evals.semi.suite import Semi
from argus.evals.suites import HELDOUT_SEED, SUITES

REPEAT_SEEDS = 1_000_000_000
"""Between the seeds of a trial and those of its repeats, above every suite's own."""


class Trials(Protocol):
    """What a suite offers."""

    def trials(self) -> Iterator[Trial]:
        """Its trials, always the same in the same order."""


OTHERS: Mapping[str, Trials] = {
    "headline": Headline(first_seed=HELDOUT_SEED + 10_000),
    "days": Days(),
    "semi": Semi(
        faulty={"semi_series": 300, "semi_phases": 36, "semi_kernels": 36},
        controls={"semi_series": 105, "semi_phases": 2, "semi_kernels": 1},
    ),
}
"""Suites that are scored as marks alone: side by side, without a gate."""

ALL_SUITES: Mapping[str, Trials] = {**SUITES, **OTHERS}


def repeated(trials: Iterator[Trial], times: int) -> Iterator[Trial]:
    """Every trial so many times, each with a seed of its own.

    >>> one = Trial(scenario="healthy", seed=3, ranks=8, severity=1.5)
    >>> [trial.seed for trial in repeated(iter([one]), 2)]
    [3, 1000000003]
    """
    for trial in trials:
        for number in range(times):
            yield Trial(**{**vars(trial), "seed": trial.seed + number * REPEAT_SEEDS})
