"""One trial set up once, and what each system answers to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from argus.agent.triage import describe
from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.collectors.records.plan import DEFAULT_STEPS
from argus.evals import days
from argus.evals.asked_incidents import asked_incidents
from argus.evals.asked_model import AskedModel, asking
from argus.evals.marks import UNKNOWN, Mark, Spent, mark
from argus.evals.moments import BEATING_RANKS, Moment, moments
from argus.evals.play import Played, play
from argus.evals.restart import facts_before
from argus.evals.score import Outcome, Trial, score
from argus.evals.simulator.simulate import Simulation, simulate
from argus.evals.spent import bytes_per_rank_step, is_traced, measured, peak_bytes_of
from argus.evals.suites import entropy
from argus.evals.suites import made as of_suite
from argus.evals.systems import OURS, asked_systems, reads, systems
from argus.evals.systems._seen import Seen, incidents_of, watch
from argus.evals.truth import Scenario, Truth


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A trial that was simulated; `heard` None = too large to hold, `seen` are its windows for the simple systems.

    `watch_s` is what assembling `seen` took, `staged_s` all of it, `cost_ratio` what the fault adds to the job's steps.
    """

    trial: Trial
    made: Scenario
    simulation: Simulation
    heard: tuple[Moment, ...] | None
    seen: tuple[Seen, ...]
    watch_s: float
    staged_s: float
    cost_ratio: float | None


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Incidents, when each was told, what they rest on and advise, and what that took."""

    incidents: Sequence[Incident]
    told_s: Sequence[float]
    findings: Sequence[Finding] = ()
    spent: Spent = UNKNOWN
    worded_s: float = 0.0
    advice: tuple[str, ...] = ()


def compare(trial: Trial, *, names: Sequence[str], model: AskedModel | None = None) -> list[Mark]:
    """The marks of each system for one trial, which is simulated once; `model` is for those that ask one."""
    staged = stage(trial, needs_windows=bool(set(names) - {OURS, *asked_systems()}))
    return [_marked(staged, name, model) for name in names]


def stage(trial: Trial, *, needs_windows: bool) -> Staged:
    """Simulate the trial."""
    started = time.process_time()
    made = made_of(trial)
    simulation = _simulated(trial, made)
    heard = tuple(moments(simulation)) if trial.ranks <= BEATING_RANKS else None
    with measured() as meter:
        seen = watch(simulation, heard) if needs_windows else ()
    cost_ratio = _cost_ratio(trial, made, simulation)
    return Staged(
        trial=trial,
        made=made,
        simulation=simulation,
        heard=heard,
        seen=seen,
        watch_s=meter.cpu_s,
        staged_s=time.process_time() - started,
        cost_ratio=cost_ratio,
    )


def made_of(trial: Trial) -> Scenario:
    """The trial's job, faults and truth."""
    if trial.scenario == days.NAME:
        return days.scenario(seed=trial.seed, ranks=trial.ranks)
    return of_suite(trial)


def _simulated(trial: Trial, made: Scenario) -> Simulation:
    return simulate(made.job, made.faults, rng=np.random.default_rng(entropy(trial)))


def _cost_ratio(trial: Trial, made: Scenario, simulation: Simulation) -> float | None:
    """What the main fault adds to the job's steps, by the same job without any; None if it stops or has none."""
    truth = made.truth
    if truth.fault_class is None or not np.isfinite(simulation.end_s).all():
        return None
    calm = _simulated(trial, replace(made, faults=()))
    slow_s, calm_s = (_mean_step_s(one, truth) for one in (simulation, calm))
    return slow_s / calm_s - 1.0


def _mean_step_s(simulation: Simulation, truth: Truth) -> float:
    """Mean time of the job's steps while the fault acts."""
    ends = simulation.end_s.max(axis=1)
    first, end = truth.onset_step, truth.end_step if truth.end_step is not None else len(ends)
    before = float(ends[first - 1]) if first else 0.0
    return (float(ends[end - 1]) - before) / (end - first)


def _marked(staged: Staged, name: str, model: AskedModel | None) -> Mark:
    """One system's mark; its crash is an outcome too."""
    made, simulation = staged.made, staged.simulation
    steps, truth = made.job.steps, made.truth
    rank_s = made.job.ranks * (simulation.last_end_s - made.job.start_s)
    try:
        answer = _answer(staged, name, model)
        outcome = score(
            staged.trial,
            made.truths,
            incidents=answer.incidents,
            told_s=answer.told_s,
            onset_s=made.job.start_s + float(simulation.start_s[truth.onset_step].max()),
            window_steps=DEFAULT_STEPS,
        )
    except Exception as error:  # noqa: BLE001  one crashed trial is a result, not the end of the suite
        answer = Answer(incidents=(), told_s=())
        outcome = Outcome(
            trial=staged.trial,
            truth=truth,
            is_faulty=truth.fault_class is not None,
            error=f"{type(error).__name__}: {error}",
        )
    return mark(
        name,
        replace(outcome, steps=steps),
        truths=made.truths,
        incidents=answer.incidents,
        findings=answer.findings,
        window_steps=DEFAULT_STEPS,
        rank_s=rank_s,
        cost_ratio=staged.cost_ratio,
        advice=answer.advice,
        spent=replace(
            _with_diagnosis(answer, delay_s=outcome.delay_s),
            staged_s=staged.staged_s + (answer.spent.staged_s or 0.0),
        ),
    )


def _with_diagnosis(answer: Answer, *, delay_s: float | None) -> Spent:
    """With the time to the diagnosis: until the window is there, for judging one window, and for the words."""
    spent = answer.spent
    if delay_s is None or spent.wall_s is None:
        return spent
    return replace(spent, diagnosis_s=delay_s + spent.wall_s / max(spent.windows, 1) + answer.worded_s)


def _answer(staged: Staged, name: str, model: AskedModel | None) -> Answer:
    if name in asked_systems():
        assert model is not None, name
        return _asked(staged, name, model)
    return _ours(staged) if name == OURS else _theirs(staged, name)


def _ours(staged: Staged) -> Answer:
    with measured() as meter:
        played = _play(staged)
    with measured() as wording:
        diagnoses = [
            describe(one, findings=played.findings, topology=played.topology) for one in played.incidents
        ]
    return Answer(
        incidents=played.incidents,
        told_s=played.told_s,
        findings=played.findings,
        worded_s=wording.wall_s / max(len(played.incidents), 1),
        advice=tuple(action.id for one in diagnoses for action in one.remediation),
        # A job too large to hold is simulated as it is played: what that took together is the simulator's, for the most.
        spent=Spent(staged_s=meter.cpu_s)
        if staged.heard is None
        else Spent(
            wall_s=meter.wall_s,
            cpu_s=meter.cpu_s,
            peak_bytes=_peak(staged, lambda: _play(staged)),
            windows=played.num_windows,
            bytes_per_rank_step=_bytes(staged, OURS),
        ),
    )


def _theirs(staged: Staged, name: str) -> Answer:
    rng = np.random.default_rng([*entropy(staged.trial), 1])

    def answer() -> tuple[tuple[Incident, ...], tuple[float, ...]]:
        return incidents_of(systems()[name](staged.seen, rng=rng), staged.seen)

    with measured() as meter:
        incidents, told_s = answer()
    spent = Spent(
        wall_s=meter.wall_s + staged.watch_s,
        cpu_s=meter.cpu_s + staged.watch_s,
        peak_bytes=_peak(staged, answer),
        windows=len(staged.seen),
        bytes_per_rank_step=_bytes(staged, name),
    )
    return Answer(incidents=incidents, told_s=told_s, spent=spent)


def _asked(staged: Staged, name: str, model: AskedModel) -> Answer:
    """What the analysis costs is measured as for ours; the model's time is that of the words."""
    with measured() as meter:
        played = _play(staged, keeps_windows=True)
    with asking(model.endpoint) as ask:
        said = asked_incidents(name, played, end_s=staged.simulation.last_end_s, model=model, ask=ask)
    return Answer(
        incidents=said.incidents,
        told_s=said.told_s,
        findings=played.findings,
        worded_s=said.model_s,
        advice=said.advice,
        spent=Spent(
            wall_s=meter.wall_s,
            cpu_s=meter.cpu_s,
            windows=played.num_windows,
            bytes_per_rank_step=_bytes(staged, name),
        ),
    )


def _play(staged: Staged, *, keeps_windows: bool = False) -> Played:
    made = staged.made
    before = facts_before(made, entropy=entropy(staged.trial))
    return play(
        staged.simulation,
        events=made.events,
        before=before,
        heard=staged.heard,
        keeps_windows=keeps_windows,
    )


def _peak(staged: Staged, work: Callable[[], object]) -> int | None:
    return peak_bytes_of(work) if is_traced(entropy(staged.trial)) else None


def _bytes(staged: Staged, name: str) -> float | None:
    """Of the window in the middle: all are alike."""
    windows = [moment.parts for moment in staged.heard or () if moment.parts]
    return bytes_per_rank_step(windows[len(windows) // 2], reads(name)) if windows else None
