"""Which trials make a suite, and the running of one trial."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import signature

import numpy as np

from argus.collectors.records.plan import DEFAULT_STEPS
from argus.evals.play import play
from argus.evals.restart import facts_before
from argus.evals.scenarios import scenarios
from argus.evals.score import Outcome, Trial, score
from argus.evals.simulator.simulate import simulate
from argus.evals.sweep import cells
from argus.evals.truth import Scenario

HEALTHY = ("healthy", "ugly_healthy")
"""A clean and an untidy job in which nothing is wrong."""

CALM = (
    *HEALTHY,
    "background_save",
    "cold_start",
    "decoys",
    "gaps",
    "restarted",
    "restarted_elsewhere",
    "stray_clocks",
    "uneven_rollouts",
)
"""All scenarios in which nothing is wrong."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Scenarios at every size, severity and seed.

    `names` None = all of them; `ranks` None = each at the size it is written for. `calm_seeds` are more seeds of
    the healthy ones: of a list with a file a fault they would be too few.
    """

    ranks: tuple[int, ...] | None
    severities: tuple[float, ...]
    seeds: tuple[int, ...]
    names: tuple[str, ...] | None = None
    calm_seeds: tuple[int, ...] = ()

    def trials(self) -> Iterator[Trial]:
        """In an order that shows every scenario early."""
        yield from self._played(self.seeds, self.names or tuple(scenarios()))
        yield from self._played(self.calm_seeds, HEALTHY)

    def _played(self, seeds: tuple[int, ...], names: tuple[str, ...]) -> Iterator[Trial]:
        for seed in seeds:
            for severity in self.severities:
                for ranks in self.ranks or (0,):
                    for name in names:
                        size = ranks or own_size(name)
                        if size >= least_size(name):
                            yield Trial(scenario=name, seed=seed, ranks=size, severity=severity)


def own_size(name: str) -> int:
    """The size a scenario is written for."""
    return int(signature(cells().get(name) or scenarios()[name]).parameters["ranks"].default)


def least_size(name: str) -> int:
    """Ranks below which a scenario's fault cannot be told, its module's MIN_RANKS; a cell of the sweep has one size."""
    if name in cells():
        return own_size(name)
    return int(getattr(import_module(scenarios()[name].__module__), "MIN_RANKS", 2))


SMOKE = (
    "crowded_experts",
    "gc_pause",
    "half_fleet",
    "hang",
    "healthy",
    "long_sequences",
    "lost_rank",
    "paper_compile_spikes",
    "paper_masked_stage",
    "paper_port_down",
    "paper_silent_link",
    "paper_straggler",
    "slow_among_lengths",
    "slow_copy",
    "slow_data",
    "slow_host",
    "slow_in_pipeline",
    "slow_job",
    "slow_kernel",
    "slow_link",
    "slow_memory",
    "slow_only_replica",
    "slow_pair",
    "slow_rank",
    "slow_stage",
    "small_attention",
    "small_stage",
    "starved_rank",
    "throttled_rank",
    "two_faults",
    "ugly_healthy",
)
"""One scenario or more of every class, right every time: what CI can run in a minute and gate on."""

LADDER = (
    "slow_rank",
    "slow_link",
    "slow_data",
    "starved_rank",
    "gc_pause",
    "slow_copy",
    "slow_in_pipeline",
    "slow_stage",
)
"""A fault of each sort, from what costs a step 2 % to what makes it forty times as long."""

PAPER = (
    "paper_straggler",
    "paper_silent_link",
    "paper_masked_stage",
    "paper_compile_spikes",
    "paper_port_down",
)
"""The five case studies of the ARGUS paper (argus-paper.md §6), in its order."""


HELDOUT_SEED = 1_000_000
"""Seeds from here on are never looked at while the analysis is developed."""

SUITES: Mapping[str, Suite] = {
    "paper": Suite(ranks=None, severities=(1.5,), seeds=(0,), names=PAPER),
    "healthy": Suite(ranks=(4, 8, 16, 32), severities=(1.5,), seeds=tuple(range(63)), names=HEALTHY),
    "board": Suite(
        ranks=(8, 16),
        severities=(1.1, 1.3, 2.0),
        seeds=(HELDOUT_SEED + 100,),
        calm_seeds=tuple(range(HELDOUT_SEED + 101, HELDOUT_SEED + 105)),
    ),
    "smoke": Suite(ranks=(4, 16), severities=(1.5,), seeds=(0,), names=SMOKE),
    "ladder": Suite(
        ranks=(16,),
        severities=(1.02, 1.05, 1.1, 1.2, 1.5, 2.0, 4.0, 10.0, 20.0, 40.0),
        seeds=tuple(range(HELDOUT_SEED + 200, HELDOUT_SEED + 203)),
        names=LADDER,
    ),
    "dev": Suite(
        ranks=(4, 8, 16, 64),
        severities=(1.1, 1.3, 2.0),
        seeds=tuple(range(4)),
        calm_seeds=tuple(range(4, 16)),
    ),
    "dev-full": Suite(
        ranks=(4, 8, 16, 32, 64),
        severities=(1.1, 1.2, 1.5, 2.0, 4.0),
        seeds=tuple(range(10)),
        calm_seeds=tuple(range(10, 40)),
    ),
    "sweep": Suite(ranks=None, severities=(1.1, 1.5), seeds=(HELDOUT_SEED + 300,), names=tuple(cells())),
    "heldout": Suite(
        ranks=(4, 8, 16, 64),
        severities=(1.1, 1.3, 2.0),
        seeds=tuple(range(HELDOUT_SEED, HELDOUT_SEED + 4)),
        calm_seeds=tuple(range(HELDOUT_SEED + 4, HELDOUT_SEED + 16)),
    ),
}


def made(trial: Trial) -> Scenario:
    """The trial's scenario: a file of evals/scenarios, or a cell of the sweep."""
    make = cells().get(trial.scenario) or scenarios()[trial.scenario]
    return make(seed=trial.seed, ranks=trial.ranks, severity=trial.severity)


def run_trial(trial: Trial) -> Outcome:
    """Simulate, analyse, score. A crash of the analysis is an outcome too."""
    one = made(trial)
    simulation = simulate(one.job, one.faults, rng=np.random.default_rng(entropy(trial)))
    onset_s = one.job.start_s + float(simulation.start_s[one.truth.onset_step].max())
    try:
        before = facts_before(one, entropy=entropy(trial))
        played = play(simulation, events=one.events, before=before)
    except Exception as error:  # noqa: BLE001  one crashed trial is a result, not the end of the suite
        crash = f"{type(error).__name__}: {error}"
        return Outcome(trial=trial, truth=one.truth, is_faulty=one.truth.fault_class is not None, error=crash)
    outcome = score(
        trial,
        one.truths,
        incidents=played.incidents,
        told_s=played.told_s,
        onset_s=onset_s,
        window_steps=DEFAULT_STEPS,
    )
    return replace(outcome, steps=one.job.steps)


def entropy(trial: Trial) -> list[int]:
    """What a trial's random numbers grow from."""
    return [trial.seed, trial.ranks, round(trial.severity * 1000), zlib.crc32(trial.scenario.encode())]
