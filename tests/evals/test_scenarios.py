"""Every scenario says all of its truth, and Argus is right in those that the smoke suite does not hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from argus.agent.runbooks.catalogue import built_in
from argus.analytics.incident import Cause
from argus.evals.expected import VERDICTS, completed, forbidden_advice, overclaimed
from argus.evals.scenarios import scenarios
from argus.evals.score import Trial
from argus.evals.simulator.groups import layouts
from argus.evals.simulator.job import Job
from argus.evals.suites import CALM, SMOKE, SUITES, least_size, run_trial
from argus.evals.truth import Scenario, Truth
from argus.topology.layout import Topology, build

PAGE = Path(__file__).parents[2] / "docs" / "evals.md"

SEEN_AGAIN = ("slow_rank", "slow_link", "slow_data", "slow_in_pipeline", "gc_pause", "half_fleet")
"""Of the smoke suite, with another seed and how late they are told."""


def constant(name: str, what: str) -> object:
    """A constant of a scenario's module, None if it has none."""
    return getattr(import_module(f"argus.evals.scenarios.{name}"), what, None)


def judged() -> Iterator[object]:
    """Scenarios to run; what Argus is known to miss must go on being missed, or its note go."""
    for name in (*SEEN_AGAIN, *(name for name in scenarios() if name not in SMOKE)):
        why = constant(name, "MISSED")
        yield pytest.param(name, marks=[pytest.mark.xfail(reason=str(why), strict=True)] if why else [])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(judged()))
def test_a_gross_fault_is_named_right_in_time_and_no_firmer_than_the_data_are(name: str) -> None:
    outcome = run_trial(Trial(scenario=name, seed=7, ranks=max(4, least_size(name)), severity=2.0))
    assert outcome.ok, (outcome.truth, outcome.got, outcome.error)
    limit = constant(name, "MAX_WINDOWS") or 3
    assert outcome.delay_windows is None or outcome.delay_windows <= int(str(limit))
    best = VERDICTS.index(outcome.truth.best_verdict)
    assert all(VERDICTS.index(text.split()[0]) <= best for text in outcome.got)


def nodes_of(topology: Topology, job: Job) -> set[str]:
    return (
        {f"rank:{rank}" for rank in topology.ranks}
        | {f"group:{group.id}" for group in topology.groups}
        | {f"host:{host}" for host in topology.hosts.values()}
        | {f"stage:{stage}" for stage in range(job.pp)}
        | {f"run:{topology.run}"}
    )


def check(name: str, made: Scenario, truth: Truth, nodes: set[str]) -> None:
    actions = set(built_in())
    assert truth.best_verdict in VERDICTS and set(truth.forbidden) <= actions, name
    assert truth.forbidden and not set(truth.forbidden) & set(truth.acceptable), name
    if truth.fault_class is None:
        assert truth.best_verdict == "NO_FAULT" and not truth.path and not truth.acceptable, name
        assert set(truth.forbidden) == {key for key, one in built_in().items() if not one.is_read_only}, name
        return
    assert truth.best_verdict != "NO_FAULT" and set(truth.acceptable) <= actions, name
    assert truth.fault_class not in truth.exonerated, name
    assert truth.path[0] == truth.scope and set(truth.path) | set(truth.coarser) <= nodes, name
    assert truth.path[-1] == f"run:{made.job.run}" and truth.scope not in truth.coarser, name


def test_every_truth_says_what_may_and_may_not_be_answered() -> None:
    for name, make in scenarios().items():
        made = make(seed=3, ranks=16, severity=1.5)
        nodes = nodes_of(build(layouts(made.job)), made.job)
        for truth in made.truths:
            check(name, made, truth, nodes)


def test_what_a_scenario_says_itself_stays() -> None:
    own = Truth(
        fault_class="compute.slow", ranks=(3,), scope="rank:3", best_verdict="LIKELY", path=("rank:3",)
    )
    filled = completed(Scenario(job=Job(ranks=4), truth=own)).truth
    assert (filled.best_verdict, filled.path) == ("LIKELY", ("rank:3",))
    assert filled.coarser == ("host:h-0000",) and "compute.slow/act" in filled.acceptable


def cause(verdict: str, fault_class: str) -> Cause:
    return Cause(fault_class=fault_class, verdict=verdict, suspects=(3,), scope="rank:3")


def test_a_word_firmer_than_the_data_and_a_remedy_for_another_fault_are_found() -> None:
    truths = completed(
        Scenario(job=Job(ranks=4), truth=Truth(fault_class="step.slower", scope="run:train"))
    ).truths
    assert overclaimed([cause("LIKELY", "step.slower")], truths) == ("LIKELY step.slower",)
    assert overclaimed([cause("INCONCLUSIVE", "step.slower")], truths) == ()
    advice = ("step.slower/act", "compute.slow/act", "compute.slow/look", "stacks.read")
    assert forbidden_advice(advice, truths) == ("compute.slow/act",)
    calm = completed(Scenario(job=Job(ranks=4))).truths
    assert overclaimed([cause("INCONCLUSIVE", "unknown")], calm) and forbidden_advice(advice, calm) == (
        "compute.slow/act",
        "step.slower/act",
    )


def test_calm_scenarios_are_those_in_which_nothing_is_wrong() -> None:
    healthy = {name for name, make in scenarios().items() if make(seed=0, ranks=16).truth.fault_class is None}
    assert set(CALM) == healthy


@pytest.mark.parametrize("name", ["dev", "dev-full", "heldout", "board"])
def test_a_fifth_of_the_trials_is_healthy(name: str) -> None:
    calm = [trial.scenario in CALM for trial in SUITES[name].trials()]
    assert sum(calm) >= 0.2 * len(calm)


def test_the_page_knows_every_scenario_and_every_fixture_has_one() -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## Scenarios")[2]
    told = set(re.findall(r"`(\w+)`", section))
    assert set(scenarios()) <= told
    rows = re.findall(r"^\| ([A-Z]\d\S*) \|.*?\| (.*) \|$", section, re.MULTILINE)
    assert len(rows) == 22
    assert all(set(re.findall(r"`(\w+)`", named)) & set(scenarios()) for _, named in rows)
