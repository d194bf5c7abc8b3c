"""Which trials make a suite, and the running of one trial."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from argus.collectors.records.plan import DEFAULT_STEPS
from argus.evals.play import play
from argus.evals.scenarios import scenarios
from argus.evals.score import Outcome, Trial, score
from argus.evals.simulator.simulate import simulate


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Every scenario at every size, severity and seed."""

    ranks: tuple[int, ...]
    severities: tuple[float, ...]
    seeds: tuple[int, ...]

    def trials(self) -> Iterator[Trial]:
        """In an order that shows every scenario early."""
        for seed in self.seeds:
            for severity in self.severities:
                for ranks in self.ranks:
                    for name in scenarios():
                        yield Trial(scenario=name, seed=seed, ranks=ranks, severity=severity)


HELDOUT_SEED = 1_000_000
"""Seeds from here on are never looked at while the analysis is developed."""

SUITES: Mapping[str, Suite] = {
    "smoke": Suite(ranks=(4, 16), severities=(1.5,), seeds=(0,)),
    "dev": Suite(ranks=(4, 8, 16, 64), severities=(1.1, 1.3, 2.0), seeds=tuple(range(4))),
    "dev-full": Suite(ranks=(4, 8, 16, 32, 64), severities=(1.1, 1.2, 1.5, 2.0, 4.0), seeds=tuple(range(10))),
    "heldout": Suite(
        ranks=(4, 8, 16, 64), severities=(1.1, 1.3, 2.0), seeds=tuple(range(HELDOUT_SEED, HELDOUT_SEED + 4))
    ),
}


def run_trial(trial: Trial) -> Outcome:
    """Simulate, analyse, score. A crash of the analysis is an outcome too."""
    made = scenarios()[trial.scenario](seed=trial.seed, ranks=trial.ranks, severity=trial.severity)
    simulation = simulate(made.job, made.faults, rng=np.random.default_rng(entropy(trial)))
    onset_s = made.job.start_s + float(simulation.timeline.start[made.truth.onset_step].max())
    try:
        played = play(simulation)
    except Exception as error:  # noqa: BLE001  one crashed trial is a result, not the end of the suite
        crash = f"{type(error).__name__}: {error}"
        return Outcome(
            trial=trial, truth=made.truth, is_faulty=made.truth.fault_class is not None, error=crash
        )
    return score(
        trial,
        made.truth,
        incidents=played.incidents,
        told_s=played.told_s,
        onset_s=onset_s,
        window_steps=DEFAULT_STEPS,
    )


def entropy(trial: Trial) -> list[int]:
    """What a trial's random numbers grow from."""
    return [trial.seed, trial.ranks, round(trial.severity * 1000), zlib.crc32(trial.scenario.encode())]
