"""Argus and simpler systems on the same trials, in one go; a book of marks makes a long run resumable."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from argus.analytics.finding import Finding
from argus.analytics.incident import Incident
from argus.api.cli.errors import CliError
from argus.collectors.records.plan import DEFAULT_STEPS
from argus.evals.marks import Mark, from_json, mark
from argus.evals.play import play
from argus.evals.restart import facts_before
from argus.evals.score import Outcome, Trial, score
from argus.evals.simulator.simulate import Simulation, simulate
from argus.evals.suites import entropy, made
from argus.evals.systems import OURS, systems
from argus.evals.systems._seen import Seen, incidents_of, watch
from argus.evals.truth import Scenario

ALL = "all"


def chosen(names: Sequence[str]) -> tuple[str, ...]:
    """The systems to run, ours first. CliError for a name that is none."""
    known = (OURS, *systems())
    wrong = sorted(set(names) - {*known, ALL})
    if wrong:
        raise CliError(
            f"no system {wrong[0]!r}; there are {', '.join(known)}, and {ALL} for every one of them"
        )
    return known if ALL in names else tuple(name for name in known if name in names)


def compare(trial: Trial, *, names: Sequence[str]) -> list[Mark]:
    """The marks of each system for one trial, which is simulated once."""
    one = made(trial)
    simulation = simulate(one.job, one.faults, rng=np.random.default_rng(entropy(trial)))
    seen = watch(simulation) if set(names) - {OURS} else ()
    return [_marked(trial, one, simulation=simulation, name=name, seen=seen) for name in names]


Answer = tuple[Sequence[Incident], Sequence[float], Sequence[Finding]]
"""Incidents, when each was told, and what they rest on."""


def _marked(trial: Trial, made: Scenario, *, simulation: Simulation, name: str, seen: Sequence[Seen]) -> Mark:
    """One system's mark; its crash is an outcome too."""
    is_faulty = made.truth.fault_class is not None
    ends = simulation.end_s[np.isfinite(simulation.end_s)]
    rank_s = made.job.ranks * float(ends.max(initial=0.0))
    try:
        incidents, told_s, findings = _answer(trial, made, simulation=simulation, name=name, seen=seen)
    except Exception as error:  # noqa: BLE001  one crashed trial is a result, not the end of the suite
        crash = f"{type(error).__name__}: {error}"
        outcome = Outcome(trial=trial, truth=made.truth, is_faulty=is_faulty, error=crash)
        outcome = replace(outcome, steps=made.job.steps)
        return mark(name, outcome, truths=made.truths, window_steps=DEFAULT_STEPS, rank_s=rank_s)
    outcome = score(
        trial,
        made.truths,
        incidents=incidents,
        told_s=told_s,
        onset_s=made.job.start_s + float(simulation.start_s[made.truth.onset_step].max()),
        window_steps=DEFAULT_STEPS,
    )
    return mark(
        name,
        replace(outcome, steps=made.job.steps),
        truths=made.truths,
        incidents=incidents,
        findings=findings,
        window_steps=DEFAULT_STEPS,
        rank_s=rank_s,
    )


def _answer(
    trial: Trial, made: Scenario, *, simulation: Simulation, name: str, seen: Sequence[Seen]
) -> Answer:
    if name == OURS:
        before = facts_before(made, entropy=entropy(trial))
        played = play(simulation, events=made.events, before=before)
        return played.incidents, played.told_s, played.findings
    rng = np.random.default_rng([*entropy(trial), 1])
    incidents, told_s = incidents_of(systems()[name](seen, rng=rng), seen)
    return incidents, told_s, ()


def run_all(
    trials: Sequence[Trial],
    *,
    names: Sequence[str],
    book: Path | None = None,
    jobs: int = 0,
    clock: Callable[[], float] = time.monotonic,
) -> list[Mark]:
    """Marks of every trial and system; what the book holds is not run again, what is run is added to it."""
    known = {one.key: one for one in read_book(book)} if book else {}
    wanted = [(name, t.scenario, t.seed, t.ranks, t.severity) for t in trials for name in names]
    lacking = {key[1:] for key in wanted if key not in known}
    todo = [t for t in trials if (t.scenario, t.seed, t.ranks, t.severity) in lacking]
    started, last = clock(), 0.0
    for done, marks in enumerate(_marks(todo, names=names, jobs=jobs or os.cpu_count() or 1), start=1):
        new = [one for one in marks if one.key not in known]
        known |= {one.key: one for one in new}
        if book and new:
            with book.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(one.to_json()) + "\n" for one in new)
        if done == len(todo) or clock() - started > last + 5.0:
            last = clock() - started
            print(f"argus eval: {done} of {len(todo)} trials", file=sys.stderr)
    return [known[key] for key in wanted]


def read_book(path: Path) -> list[Mark]:
    """The marks of earlier runs, none if there is no file yet. CliError if it is no book."""
    if not path.exists():
        return []
    try:
        return [from_json(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CliError(f"{path} is no book of marks ({error!r:.100}): name a new file") from None


def _marks(trials: Sequence[Trial], *, names: Sequence[str], jobs: int) -> Iterator[list[Mark]]:
    work = partial(compare, names=names)
    if jobs == 1 or len(trials) < 2 * jobs:
        yield from map(work, trials)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, trials)
