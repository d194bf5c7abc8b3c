"""Simulated jobs as cases for the agent: played through the one path, truth kept apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from argus.agent.case import Case, case_of
from argus.agent.context import ToolContext
from argus.agent.evidence import MemoryBook
from argus.agent.held_facts import HeldFacts, HeldRun
from argus.agent.triage import diagnose
from argus.api.report import costliest
from argus.evals.play import Played, play
from argus.evals.restart import facts_before
from argus.evals.scenarios import scenarios
from argus.evals.score import Trial
from argus.evals.simulator.simulate import simulate
from argus.evals.suites import entropy, least_size
from argus.evals.truth import Truth


@dataclass(frozen=True, kw_only=True)
class Each:
    """Every scenario there is, once."""

    seed: int = 3
    ranks: int = 8
    severity: float = 1.5

    def trials(self) -> Iterator[Trial]:
        """Each at eight ranks, or at as many as its fault takes."""
        for name in scenarios():
            size = max(self.ranks, least_size(name))
            yield Trial(scenario=name, seed=self.seed, ranks=size, severity=self.severity)


@dataclass(frozen=True, kw_only=True)
class AgentCase:
    """A trial with its facts; `truth` is for the scorer alone."""

    trial: Trial
    truth: Truth
    facts: HeldFacts

    @property
    def case(self) -> Case:
        """The costliest incident, or the job where there is none."""
        run = self.facts.held[0]
        return case_of(run, costliest(run.incidents))

    def context(self) -> ToolContext:
        """What tools may read, with a book of its own."""
        return ToolContext(facts=self.facts, book=MemoryBook(), run=self.facts.held[0].run)


def agent_case(trial: Trial) -> AgentCase:
    """Simulate and analyse a trial."""
    made = scenarios()[trial.scenario](seed=trial.seed, ranks=trial.ranks, severity=trial.severity)
    played = play(
        simulate(made.job, made.faults, rng=np.random.default_rng(entropy(trial))),
        events=made.events,
        before=facts_before(made, entropy=entropy(trial)),
        keeps_windows=True,
    )
    return AgentCase(trial=trial, truth=made.truth, facts=facts_of(played))


def facts_of(played: Played) -> HeldFacts:
    """A played job as facts, its incidents diagnosed by the triage."""
    diagnosed = tuple(
        replace(one, diagnosis=diagnose(one, findings=played.findings, topology=played.topology))
        for one in played.incidents
    )
    held = HeldRun(
        topology=played.topology,
        windows_held=played.windows,
        findings_held=played.findings,
        incidents=diagnosed,
    )
    return HeldFacts(held=(held,))
