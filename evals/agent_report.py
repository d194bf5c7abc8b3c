"""`argus eval agent`: the triage, scripted models and, where an endpoint is set up, a real one, on scenarios."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from argus.agent.loop.drive import Asked
from argus.agent.loop.limits import Limits
from argus.agent.model.client import Model
from argus.agent.model.endpoint import Endpoint
from argus.agent.model.message import Ask, Reply
from argus.api.agent import endpoint_of, limits_of
from argus.api.cli.errors import CliError
from argus.api.settings import SettingsError, load_settings
from argus.evals.agent_cases import AgentCase, agent_case
from argus.evals.agent_models import script_makers
from argus.evals.agent_score import score_answer
from argus.evals.agent_trials import NO_ENDPOINT, AgentRow, answer_score, asked_on, summarise
from argus.evals.score import Trial
from argus.evals.suites import SUITES

NOT_MEASURED = "not measured"

MUST_NOT_BE_BELOW = ("plausible", "hallucinating", "looping", "perfect")
"""Models whose final strict root cause is below the triage's in no case, or the command fails."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which trials; the endpoint is that of the settings."""
    parser.add_argument("--suite", choices=sorted(SUITES), default="smoke", help="trials (default smoke)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    """Play and print; 1 if a model made an answer worse or made something up."""
    cases = list(_cases(list(SUITES[args.suite].trials())))
    rows = [_scripted(name, cases) for name in script_makers()]
    real = _real(cases)
    report = {
        "suite": args.suite,
        "cases": len(cases),
        "models": [row.to_json() for row in rows],
        "real": real,
    }
    print(json.dumps(report) if args.json else render(report))
    return 1 if faults(rows) else 0


def faults(rows: Sequence[AgentRow]) -> list[str]:
    """One sentence per broken promise."""
    found = []
    for row in rows:
        if row.model in MUST_NOT_BE_BELOW and row.not_below < row.cases:
            found.append(f"{row.model}: below the triage in {row.cases - row.not_below} cases")
        if row.made_up or row.unpointed:
            found.append(
                f"{row.model}: {row.made_up} names made up, {row.unpointed} numbers without a pointer"
            )
    return found


def render(report: Mapping[str, Any]) -> str:
    """A line a model."""
    lines = [
        f"{'model':<14}{'strict root':>13}{'triage':>8}{'not below':>11}{'made up':>9}{'unpointed':>11}  stances"
    ]
    models = [*report["models"], *([report["real"]] if isinstance(report["real"], Mapping) else [])]
    for row in models:
        stances = ", ".join(f"{count} {name}" for name, count in row["stances"].items())
        lines.append(
            f"{row['model']:<14}{row['root_strict']:>13}{row['triage_root_strict']:>8}{row['not_below']:>11}"
            f"{row['made_up']:>9}{row['unpointed']:>11}  {stances}"
        )
    if report["real"] == NOT_MEASURED:
        lines.append(f"a real model: {NOT_MEASURED} (set ARGUS_MODEL_URL)")
    return "\n".join([*lines, f"{report['cases']} cases of suite {report['suite']}"])


def _cases(trials: Sequence[Trial]) -> Iterator[AgentCase]:
    for done, trial in enumerate(trials, start=1):
        yield agent_case(trial)
        if done % 10 == 0 or done == len(trials):
            print(f"argus eval agent: {done} of {len(trials)} cases played", file=sys.stderr)


def _row(
    model: str,
    cases: Sequence[AgentCase],
    asked: Callable[[AgentCase], Asked],
    *,
    endpoint: Endpoint = NO_ENDPOINT,
    limits: Limits | None = None,
) -> AgentRow:
    scored = []
    for made in cases:
        context = made.context()
        case = made.case
        outcome = asked_on(case, context, asked(made), endpoint=endpoint, limits=limits, clock=time.monotonic)
        triage = score_answer(case.diagnosis, made.truth, entities=case.entities(), book=context.book)
        scored.append((answer_score(made, outcome, context), triage, outcome))
    return summarise(model, scored)


def _scripted(name: str, cases: Sequence[AgentCase]) -> AgentRow:
    make = script_makers()[name]
    return _row(name, cases, lambda made: make(made.truth))


def _real(cases: Sequence[AgentCase]) -> dict[str, Any] | str:
    """The endpoint's model, or that it was not measured. Raises CliError."""
    try:
        settings, _ = load_settings(env=os.environ)
        endpoint = endpoint_of(settings)
    except SettingsError as error:
        raise CliError(str(error)) from None
    if endpoint is None:
        return NOT_MEASURED
    with asyncio.Runner() as runner:
        model = Model(endpoint)

        def ask(request: Ask) -> Reply:
            return runner.run(model.ask(request))

        row = _row("real", cases, lambda made: ask, endpoint=endpoint, limits=limits_of(settings))
        runner.run(model.close())
    return {**row.to_json(), "model": model.name or "real"}
