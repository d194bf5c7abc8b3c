"""`argus eval run` where trials become marks: several systems, suites in slices, and the pages made of them."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from argus.api.cli.errors import CliError
from argus.api.cli.paths import path
from argus.evals.asked_model import model_of_settings
from argus.evals.bench import machine_class
from argus.evals.board_suites import repeated
from argus.evals.html_report import html
from argus.evals.marks import Key, Mark
from argus.evals.score import Trial
from argus.evals.scoreboard import to_json
from argus.evals.scoreboard_page import Made, page, render
from argus.evals.semi.suite import lacking
from argus.evals.side_by_side import ALL, chosen, not_measured, read_book, run_all, sliced
from argus.evals.systems import OURS, asked_systems

STDOUT = "-"
SEMI = "semi"
RECORDINGS = Path("../shared/data")
"""Where the tests find them too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that put systems on the same trials, or write what came of them."""
    parser.add_argument(
        "--system",
        action="append",
        metavar="NAME",
        help="put it beside others on the same trials: argus, a file of evals/systems, or all; may be repeated; "
        "agent and single_shot ask the model of ARGUS_MODEL_URL",
    )
    parser.add_argument(
        "--data",
        type=path,
        default=RECORDINGS,
        metavar="DIR",
        help=f"with --suite semi: folder of the public recordings (default {RECORDINGS})",
    )
    parser.add_argument(
        "--book", type=path, metavar="FILE", help="keep every mark here (JSON lines), resume from it"
    )
    parser.add_argument(
        "--slice", metavar="I/N", help="only the I-th of N parts of the trials; with --book, part by part"
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        help="with --suite headline: its first seed, for trials nobody has seen",
    )
    parser.add_argument(
        "--repeats", type=int, default=1, metavar="N", help="every trial N times, each with a seed of its own"
    )
    _add_outputs(parser)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--jsonl", type=path, metavar="FILE", help="write every mark of this run, a line each"
    )
    parser.add_argument(
        "--html",
        nargs="?",
        const=STDOUT,
        metavar="FILE",
        help="one HTML file with plots, on stdout if no FILE is named",
    )
    parser.add_argument(
        "--with",
        dest="others",
        type=path,
        action="append",
        default=[],
        metavar="BOOK",
        help="add the marks of another book to the pages, for instance those of the suite days; may be repeated",
    )
    parser.add_argument("--scoreboard", type=path, metavar="FILE", help="write the scoreboard as a page")


def is_wanted(args: argparse.Namespace) -> bool:
    """Whether an option asks for marks."""
    named = (args.system, args.book, args.slice, args.jsonl, args.html, args.scoreboard, args.seed)
    return any(one is not None for one in named) or bool(args.others) or args.repeats != 1


def run(args: argparse.Namespace, suite: str, *, trials: Iterator[Trial]) -> int:
    """Marks of the suite's trials. There is no gate: rows of simple rules may be as bad as they are."""
    if args.gate or args.write_gate:
        raise CliError(
            "--gate and --write-gate compare Argus with itself on a grid of scenarios: "
            "leave out --system and what goes with it"
        )
    _check_outputs(args)
    if args.repeats < 1:
        raise CliError(f"--repeats takes a number from 1 on, got {args.repeats}")
    started = time.monotonic()
    wished = args.system or [OURS]
    model = model_of_settings() if {ALL, *asked_systems()} & set(wished) else None
    names = chosen(wished, reads_traces=suite == SEMI, model=model)
    lacking = not_measured(wished, reads_traces=suite == SEMI, model=model)
    wanted = list(_there(repeated(trials, args.repeats), args.data))
    if args.slice:
        wanted = sliced(wanted, args.slice)
    resumed = args.book is not None and args.book.exists()
    marks = run_all(wanted, names=names, data=args.data, model=model, book=args.book, jobs=args.jobs)
    for other in args.others:
        marks += _marks_of(other, names, but={one.key for one in marks})
    took = f"{time.monotonic() - started:.0f} s" + (" (the last slice)" if resumed else "")
    made = Made(
        suite=suite,
        command=" ".join(["argus eval run", *_words(args, suite)]),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=machine_class(),
        took=took,
        not_measured=lacking,
    )
    _write(args, marks, made)
    return 0


def _check_outputs(args: argparse.Namespace) -> None:
    """Before hours are spent on what cannot be written. Raises CliError."""
    page = None if args.html in (None, STDOUT) else Path(args.html)
    for file in (args.jsonl, args.scoreboard, args.book, page):
        if file is not None and (file.is_dir() or not file.parent.is_dir()):
            raise CliError(f"{file} cannot be written: name a file in a folder that exists")


def _there(trials: Iterator[Trial], data: Path) -> Iterator[Trial]:
    """The trials but those whose recordings are not there. CliError if none is left."""
    missing, any_left = lacking(data), False
    told = set[str]()
    for trial in trials:
        if trial.scenario not in missing:
            any_left = True
            yield trial
        elif trial.scenario not in told:
            told.add(trial.scenario)
            print(f"argus eval: {missing[trial.scenario]}", file=sys.stderr)
    if not any_left:
        raise CliError(
            f"every trial is skipped, there are no recordings in {data}: name their folder by --data"
        )


def _marks_of(book: Path, names: Sequence[str], *, but: Collection[Key]) -> list[Mark]:
    """What a book says of these systems in other trials than `but`, which would count twice. CliError if it is none."""
    if not book.exists():
        raise CliError(f"{book} is not there: --with takes the --book of another run")
    return [one for one in read_book(book) if one.system in names and one.key not in but]


def _write(args: argparse.Namespace, marks: list[Mark], made: Made) -> None:
    if args.jsonl:
        lines = (json.dumps({"ok": one.ok, **one.to_json()}) + "\n" for one in marks)
        _save(args.jsonl, "".join(lines))
    if args.scoreboard:
        _save(args.scoreboard, page(marks, made))
    if args.html is not None:
        text = html(marks, made)
        if args.html == STDOUT:
            print(text)
            return
        _save(Path(args.html), text)
    lacking = {"not_measured": list(made.not_measured)}
    print(
        json.dumps({"suite": made.suite, **to_json(marks), **lacking})
        if args.json
        else render(marks, not_measured=made.not_measured)
    )


def _save(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{path} cannot be written: {error.strerror}") from None
    print(f"argus eval: wrote {path}", file=sys.stderr)


def _words(args: argparse.Namespace, suite: str) -> list[str]:
    """The options that made these marks, to be typed again."""
    words = ["--suite", suite]
    for name in args.system or []:
        words += ["--system", name]
    for option in ("seed", "slice", "book", "scoreboard"):
        if (value := getattr(args, option)) is not None:
            words += [f"--{option}", str(value)]
    for other in args.others:
        words += ["--with", str(other)]
    return words + (["--repeats", str(args.repeats)] if args.repeats != 1 else [])
