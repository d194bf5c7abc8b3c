"""`argus eval live`: real faults on real training jobs, each named right or not."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argus.api.cli.errors import CliError
from argus.api.cli.paths import path
from argus.evals.interrupts import orderly_end
from argus.evals.live import book, sweep
from argus.evals.live.faults import faults
from argus.evals.live.machine import Machine, look
from argus.evals.live.names import marked, name_of
from argus.evals.live.page import has_place, render, write
from argus.evals.live.trial import RANKS, Outcome, Plan, run_trial
from argus.evals.stack import StackError
from argus.evals.watch import Progress
from argus.evals.workloads import PARALLELS

SMOKE = ("link_rate",)
"""A fault that `argus bench demo` does not play: what CI has time for."""

FULL_REPEATS = 3
MAX_FOLDER = 60
"""Characters of a folder in which a socket's path still fits into the system's limit."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which faults on which jobs, how often, and what to do with what comes out."""
    parser.add_argument(
        "--fault",
        action="append",
        metavar="NAME",
        choices=sorted(faults()),
        help="may be repeated (default: all)",
    )
    parser.add_argument(
        "--workload",
        action="append",
        choices=PARALLELS,
        help="may be repeated (default: the fault's own first one)",
    )
    parser.add_argument("--rank", type=int, help="the rank to hit; drawn at random when absent")
    parser.add_argument("--repeats", type=int, default=0, metavar="N", help="each so often (default 1)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--smoke", action="store_true", help=f"{' and '.join(SMOKE)} once: less than a minute")
    size.add_argument("--full", action="store_true", help="every fault three times on each of its workloads")
    parser.add_argument("--list", action="store_true", help="the faults, and what this machine cannot do")
    parser.add_argument(
        "--clean", action="store_true", help="remove what killed runs left behind, run nothing"
    )
    parser.add_argument("--keep", type=path, metavar="DIR", help="keep recordings, logs and stores there")
    parser.add_argument(
        "--book",
        type=path,
        metavar="FILE",
        help="keep every trial here (JSON lines), play what it lacks, and tell of all that it holds",
    )
    parser.add_argument("--write", type=path, metavar="FILE", help="write the table into this page")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """What was asked for and not played."""

    fault: str
    workload: str
    why: str


def run(args: argparse.Namespace) -> int:
    """Play; 0 only if all that ran were named right, 1 if one was not, 2 if nothing ran."""
    _check(args)
    with orderly_end(), marked():
        if args.clean:
            return _clean(args)
        machine = look()
        if args.list:
            print(_listed(machine, as_json=args.json))
            return 0
        _clean_quietly()
        report = _play(args, machine)
    if args.write:
        write(report, args.write)
    print(json.dumps(report) if args.json else render(report))
    return 0 if report["ok"] else 1 if report["trials"] else 2


def _play(args: argparse.Namespace, machine: Machine) -> dict[str, Any]:
    started_s = time.monotonic()
    wanted, skipped = chosen(args, machine)
    trials = book.read(args.book)
    before_s = sum(row["wall_s"] for row in trials)
    plans = book.lacking(wanted, trials)
    for number, plan in enumerate(plans, 1):
        outcome = _one(plan, args, machine=machine, where=f"{number} of {len(plans)}")
        trials.append(outcome.to_json())
        if args.book:
            book.add(args.book, outcome)
    return {
        "ok": bool(trials) and all(row["ok"] for row in trials),
        "wall_s": round(before_s + time.monotonic() - started_s, 1),
        "trials": sorted(trials, key=lambda row: (row["fault"], row["workload"])),
        "skipped": [vars(item) for item in skipped],
    }


def chosen(args: argparse.Namespace, machine: Machine) -> tuple[list[Plan], list[Skipped]]:
    """What to play in which order, and what cannot be, each with its reason."""
    repeats = args.repeats or (FULL_REPEATS if args.full else 1)
    names = args.fault or (SMOKE if args.smoke else sorted(faults()))
    plans, skipped = list[Plan](), list[Skipped]()
    for name in names:
        fault = faults()[name]
        why = fault.can(machine)
        for workload in args.workload or (fault.WORKLOADS if args.full else fault.WORKLOADS[:1]):
            reason = why if workload in fault.WORKLOADS else f"makes no sense in {workload}"
            if reason:
                skipped.append(Skipped(fault=name, workload=workload, why=reason))
                continue
            ranks = [random.randrange(RANKS) if args.rank is None else args.rank for _ in range(repeats)]
            plans += [Plan(fault=name, workload=workload, rank=rank, is_brief=args.smoke) for rank in ranks]
    return plans, skipped


def _check(args: argparse.Namespace) -> None:
    if args.rank is not None and not 0 <= args.rank < RANKS:
        raise CliError(f"--rank must be in [0, {RANKS - 1}], got {args.rank}")
    if args.repeats < 0:
        raise CliError(f"--repeats must be at least 1, got {args.repeats}")
    if args.write is not None and not has_place(args.write):
        raise CliError(
            f"{args.write} has no place for live faults: it needs the lines that docs/evals.md has"
        )
    if args.keep is not None and len(str(args.keep.absolute())) > MAX_FOLDER:
        raise CliError(
            f"--keep {args.keep.absolute()} is too long for a socket: at most {MAX_FOLDER} characters"
        )


def _one(plan: Plan, args: argparse.Namespace, *, machine: Machine, where: str) -> Outcome:
    say = Progress(time.monotonic())
    say(f"{where}: {plan.fault} on rank {plan.rank} of a {plan.workload} job")
    with _folder(args.keep, plan) as directory, swept():
        outcome = run_trial(
            plan, directory=directory, machine=machine, say=say, records=args.keep is not None
        )
        kept = f"; kept in {directory}" if args.keep else ""
        say(f"{'right' if outcome.ok else 'WRONG'}: {outcome.got}{kept}")
    return outcome


@contextmanager
def _folder(keep: Path | None, plan: Plan) -> Iterator[Path]:
    """Where the trial lives; only what is not kept bears the run's mark, for that is removed after a kill."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        yield Path(tempfile.mkdtemp(prefix=f"{plan.fault}-{plan.workload}-", dir=keep.absolute()))
        return
    with tempfile.TemporaryDirectory(prefix=name_of(""), ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def swept() -> Iterator[None]:
    """Whatever bears this run's mark and is still there afterwards is removed, but for folders."""
    try:
        yield
    finally:
        sweep.clean(item for item in sweep.left_by_me() if item.kind != "folder")


def _clean_quietly() -> None:
    try:
        found = sweep.clean(sweep.left_by_dead())
    except (OSError, StackError) as error:
        raise CliError(f"what a killed run left behind could not be removed: {error}", code=1) from None
    if found:
        print(f"argus eval live: removed what killed runs left behind: {_counted(found)}", file=sys.stderr)


def _clean(args: argparse.Namespace) -> int:
    try:
        found = sweep.clean(sweep.left_by_dead())
    except (OSError, StackError) as error:
        raise CliError(f"not all could be removed: {error}", code=1) from None
    items = [vars(item) for item in found]
    print(json.dumps({"removed": items}) if args.json else f"removed {_counted(found)}")
    return 0


def _counted(found: Sequence[sweep.LeftOver]) -> str:
    kinds = dict.fromkeys(item.kind for item in found)
    words = [f"{sum(item.kind == kind for item in found)} {kind}" for kind in kinds]
    return ", ".join(words) or "nothing"


def _listed(machine: Machine, *, as_json: bool) -> str:
    rows: list[dict[str, Any]] = [
        {
            "fault": name,
            "does": (fault.__doc__ or "").strip().split("\n")[0],
            "workloads": list(fault.WORKLOADS),
            "skipped": fault.can(machine),
        }
        for name, fault in faults().items()
    ]
    if as_json:
        return json.dumps({"faults": rows})
    lines = [f"{row['fault']:<17} {', '.join(row['workloads']):<20} {row['does']}" for row in rows]
    lines += [f"cannot be played here: {row['fault']}: {row['skipped']}" for row in rows if row["skipped"]]
    return "\n".join(lines)
