"""The trials behind a headline number: enough of every cause, and as many healthy ones, for a bound worth printing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from argus.collectors.records.plan import DEFAULT_STEPS
from argus.evals.marks import lasts
from argus.evals.scenarios import scenarios
from argus.evals.score import Trial
from argus.evals.scoreboard import CLASS_TRIALS, HEADLINE_TRIALS
from argus.evals.suites import least_size, own_size

SEEDS = 16
"""Of a scenario that draws its onset one in three lasts ten windows: hardly any sixteen hold none."""


@dataclass(frozen=True, kw_only=True)
class Headline:
    """At least `per_class` trials of every cause, `faulty` and `healthy` in all.

    A scenario's n-th trial has the n-th pair of a size and a severity, again from the first after the last, and the
    first of `SEEDS` seeds of its own whose fault lasts long enough to count: which faults are played is chosen by
    their length, never by what anybody says of them.
    """

    first_seed: int
    ranks: tuple[int, ...] = (8, 16, 32)
    severities: tuple[float, ...] = (1.1, 1.3, 2.0)
    faulty: int = HEADLINE_TRIALS
    healthy: int = HEADLINE_TRIALS
    per_class: int = CLASS_TRIALS

    def trials(self) -> Iterator[Trial]:
        """Faulty and healthy ones in turn, so that a part of them is a fair part."""
        faulty, healthy = self._faulty(), self._healthy()
        for bad in faulty:
            yield bad
            yield from islice(healthy, 1)
        yield from healthy

    def _faulty(self) -> Iterator[Trial]:
        class_of = _classes()
        names = [name for name, fault_class in class_of.items() if fault_class is not None]
        played, of_class = Counter[str](), Counter[str | None]()
        while lacking := [name for name in names if of_class[class_of[name]] < self.per_class]:
            for name in lacking:
                yield self._trial(name, played[name])
                played[name] += 1
                of_class[class_of[name]] += 1
        while played.total() < self.faulty:
            for name in names:
                yield self._trial(name, played[name])
                played[name] += 1

    def _healthy(self) -> Iterator[Trial]:
        names = [name for name, fault_class in _classes().items() if fault_class is None]
        for number in range(self.healthy):
            yield self._trial(names[number % len(names)], number // len(names))

    def _trial(self, name: str, number: int) -> Trial:
        sizes = [size for size in self.ranks if size >= least_size(name)] or [own_size(name)]
        first = Trial(
            scenario=name,
            seed=self.first_seed + number * SEEDS,
            ranks=sizes[number % len(sizes)],
            severity=self.severities[number // len(sizes) % len(self.severities)],
        )
        drawn = (replace(first, seed=first.seed + more) for more in range(SEEDS))
        return next(filter(_counts, drawn), first)


def _counts(trial: Trial) -> bool:
    made = scenarios()[trial.scenario](seed=trial.seed, ranks=trial.ranks, severity=trial.severity)
    return lasts(made.truth, steps=made.job.steps, window_steps=DEFAULT_STEPS)


def _classes() -> dict[str, str | None]:
    """Cause of every scenario, None of the healthy ones."""
    return {
        name: make(seed=0, ranks=max(8, least_size(name)), severity=1.3).truth.fault_class
        for name, make in scenarios().items()
    }
