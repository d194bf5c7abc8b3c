"""`argus eval run`: score the analysis on simulated faults whose truth is known."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from argus.api.cli.errors import CliError
from argus.api.cli.paths import path
from argus.evals import side_run
from argus.evals.board_suites import ALL_SUITES as SUITES
from argus.evals.board_suites import OTHERS, Trials
from argus.evals.headline import Headline
from argus.evals.rates import per_steps
from argus.evals.score import Outcome, Row, Trial, summarise
from argus.evals.suites import run_trial
from argus.evals.sweep import matrix

GATED = ("ok_ratio", "recall", "class_ratio", "precision")
"""Scores a gate compares: none may be below the baseline's."""

SMALL_SUITE = 40
"""Fewer trials than this are not worth starting processes for."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which suite, and what to do with its scores."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--suite", choices=sorted(SUITES), help="trials to run (default dev)")
    size.add_argument(
        "--smoke", action="store_true", help="the suite smoke: every class of fault, about a minute"
    )
    size.add_argument("--full", action="store_true", help="the suite dev-full: hours")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--gate", type=path, metavar="FILE", help="exit 1 if a score is below this file's")
    parser.add_argument(
        "--write-gate", type=path, metavar="FILE", help="write this run's scores as the suite's new baseline"
    )
    side_run.add_arguments(parser)
    parser.add_argument("--jobs", type=int, default=0, help="processes (default: one per core)")


def run(args: argparse.Namespace) -> int:
    """Run the suite; 0, or 1 if a gated score dropped."""
    suite = "smoke" if args.smoke else "dev-full" if args.full else args.suite or "dev"
    if suite in OTHERS or side_run.is_wanted(args):
        return side_run.run(args, suite, trials=_seeded(suite, args.seed).trials())
    gate = _read_gate(args.gate, suite) if args.gate else {}
    known = _known_gates(args.write_gate) if args.write_gate else {}
    started = time.monotonic()
    outcomes = list(_progress(list(SUITES[suite].trials()), jobs=args.jobs or os.cpu_count() or 1))
    report = make_report(suite, outcomes, elapsed_s=time.monotonic() - started)
    report["dropped"] = dropped_scores(report["scenarios"], gate)
    if args.write_gate:
        _write_gate(args.write_gate, known, report)
    print(json.dumps(report) if args.json else render(report))
    return 1 if report["dropped"] else 0


def _seeded(suite: str, seed: int | None) -> Trials:
    """The suite with its own seeds, or from another first one. CliError for a suite that has a list of them."""
    known = SUITES[suite]
    if seed is None:
        return known
    if not isinstance(known, Headline):
        raise CliError(f"--seed moves the seeds of --suite headline, {suite} has a list of its own")
    if seed < 0:
        raise CliError(f"--seed must be at least 0, got {seed}")
    return replace(known, first_seed=seed)


def make_report(suite: str, outcomes: Iterable[Outcome], *, elapsed_s: float) -> dict[str, Any]:
    """Scores per scenario and in all, with every failure."""
    rows = list(outcomes)
    by_name = {name: [row for row in rows if row.trial.scenario == name] for name in _names(rows)}
    return {
        "suite": suite,
        "elapsed_s": round(elapsed_s, 1),
        "scenarios": {name: asdict(summarise(part)) for name, part in by_name.items()},
        "total": asdict(summarise(rows)),
        "healthy": _healthy(rows),
        "failures": [row.to_json() for row in rows if not row.ok],
    }


def _healthy(rows: Iterable[Outcome]) -> dict[str, float] | None:
    """False incidents of the jobs in which nothing was wrong, per 100,000 steps with their 95 % bound."""
    calm = [row for row in rows if not row.is_faulty and not row.error]
    count, steps = sum(row.num_false for row in calm), sum(row.steps for row in calm)
    rate = per_steps(count, steps)
    if rate is None:
        return None
    return {"steps": steps, "false": count, "per_100k_steps": rate[0], "per_100k_steps_upper_95": rate[1]}


def dropped_scores(scenarios: Mapping[str, Any], baseline: Mapping[str, Any]) -> list[str]:
    """One sentence per score that is below the baseline's, or is gone."""
    dropped = []
    for name, scores in baseline.items():
        for key, before in scores.items():
            now = scenarios.get(name, {}).get(key)
            if now is None or now < before:
                dropped.append(
                    f"{name}: {key} was {before:.3f}, is {'missing' if now is None else f'{now:.3f}'}"
                )
    return dropped


def render(report: Mapping[str, Any]) -> str:
    """Failures first, then the table."""
    lines = [_failure(item) for item in report["failures"]]
    lines.append(f"{len(report['failures'])} of {report['total']['trials']} trials failed\n")
    lines.append(
        f"{'scenario':<21}{'trials':>7}{'right':>8}{'recall':>8}{'class':>8}{'precision':>11}{'false':>7}"
        f"{'delay p50/max':>15}{'resolved':>10}"
    )
    cells = {name: row["ok_ratio"] for name, row in report["scenarios"].items() if "/" in name}
    if cells:
        lines[-1:] = [*matrix(cells), "", lines[-1]]
    rows = {**{k: v for k, v in report["scenarios"].items() if k not in cells}, "all": report["total"]}
    lines += [_table_row(name, Row(**row)) for name, row in rows.items()]
    lines.append(
        f"\nsuite {report['suite']}, {report['elapsed_s']:.0f} s; delay in windows after the onset's"
    )
    if (calm := report.get("healthy")) is not None:
        lines.append(
            f"healthy jobs: {calm['false']:.0f} false incidents in {calm['steps']:,} steps, "
            f"{calm['per_100k_steps']:.2f} per 100,000 (95 % bound {calm['per_100k_steps_upper_95']:.2f})"
        )
    lines += [f"below the baseline: {text}" for text in report["dropped"]]
    return "\n".join(lines)


def _table_row(name: str, row: Row) -> str:
    delay = "-" if row.delay_windows_max is None else f"{row.delay_windows_median:g}/{row.delay_windows_max}"
    return (
        f"{name:<21}{row.trials:>7}{_percent(row.ok_ratio):>8}{_percent(row.recall):>8}{_percent(row.class_ratio):>8}"
        f"{_percent(row.precision):>11}{row.num_false:>7}{delay:>15}{_percent(row.resolved_ratio):>10}"
    )


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1%}"


def _failure(item: Mapping[str, Any]) -> str:
    trial, truth = item["trial"], item["truth"]
    wanted = (
        f"{truth['fault_class']} {truth['scope']} from step {truth['onset_step']}"
        if item["is_faulty"]
        else "nothing"
    )
    got = item["error"] or "; ".join(item["got"]) or "nothing"
    return (
        f"FAILED {trial['scenario']} ranks {trial['ranks']} severity {trial['severity']} seed {trial['seed']}: "
        f"expected {wanted}, got {got}"
    )


def _names(rows: Iterable[Outcome]) -> list[str]:
    return sorted({row.trial.scenario for row in rows})


def _progress(trials: list[Trial], *, jobs: int) -> Iterator[Outcome]:
    for done, outcome in enumerate(_outcomes(trials, jobs=jobs), start=1):
        if done % 20 == 0 or done == len(trials):
            print(f"argus eval: {done} of {len(trials)} trials", file=sys.stderr)
        yield outcome


def _outcomes(trials: list[Trial], *, jobs: int) -> Iterator[Outcome]:
    if jobs == 1 or len(trials) < SMALL_SUITE:
        yield from map(run_trial, trials)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_trial, trials, chunksize=4)


def _read_gate(path: Path, suite: str) -> dict[str, Any]:
    try:
        baseline = json.loads(path.read_text(encoding="utf-8"))[suite]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CliError(f"{path} holds no baseline of suite {suite}: {error!r:.100}") from None
    assert isinstance(baseline, dict), baseline
    return baseline


def _known_gates(path: Path) -> dict[str, Any]:
    """The baselines of other suites in the file; read before hours are spent on one that cannot be written."""
    try:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise CliError(f"{path} holds no baselines: {error!r:.100}") from None
    if not isinstance(known, dict) or not path.parent.is_dir():
        raise CliError(
            f"{path} cannot hold baselines: name a file of them, or a new one in a folder that exists"
        )
    return known


def _write_gate(path: Path, known: dict[str, Any], report: Mapping[str, Any]) -> None:
    known[report["suite"]] = {
        name: {key: row[key] for key in GATED if row[key] is not None}
        for name, row in report["scenarios"].items()
    }
    path.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
