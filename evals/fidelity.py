"""`argus eval fidelity`: what kernel summaries lose and what that costs, measured and written down."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

from argus.api.cli.errors import CliError
from argus.api.cli.paths import path
from argus.evals.bench import machine_class
from argus.evals.study.report import figures, page
from argus.evals.study.run import BookError, run_study, study_so_far


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Size and destination."""
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--smoke", dest="size", action="store_const", const="smoke", help="proves it runs, half a minute"
    )
    size.add_argument(
        "--full", dest="size", action="store_const", const="full", help="all of it, up to 2 hours"
    )
    parser.set_defaults(size="default")
    parser.add_argument("--seed", type=int, default=0, help="first seed of every condition (default 0)")
    parser.add_argument("--book", type=path, metavar="FILE", help="keep what is done there and go on from it")
    parser.add_argument(
        "--slice", type=float, metavar="SECONDS", help="stop after so long, to go on later (needs --book)"
    )
    parser.add_argument(
        "--so-far",
        action="store_true",
        help="run nothing: the page of a --book whose last healthy jobs are missing",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--write", type=path, metavar="FILE", help="write the page, with its plots beside it")


def run(args: argparse.Namespace) -> int:
    """Run the study; 1 if the default flagged healthy ranks or the slice ended before it."""
    if args.write is not None and not args.write.parent.is_dir():
        raise CliError(f"{args.write.parent} is no folder; name a file in one that exists")
    if args.slice is not None and args.book is None:
        raise CliError("--slice needs --book FILE, or what was done is lost")
    study = _study(args)
    if study is None:
        print(f"not finished; the same command goes on from {args.book}", file=sys.stderr)
        return 1
    text = page(study, date=datetime.now(UTC).date().isoformat(), machine=machine_class())
    if args.write is not None:
        args.write.write_text(text, encoding="utf-8")
        for name, svg in figures(study).items():
            (args.write.parent / name).write_text(svg, encoding="utf-8")
    print(json.dumps(study) if args.json else text)
    return 1 if study["healthy"]["flags"] else 0


def _study(args: argparse.Namespace) -> dict[str, Any] | None:
    if args.so_far and args.book is None:
        raise CliError("--so-far needs --book FILE, it is what the page is made of")
    try:
        if args.so_far:
            return study_so_far(args.size, seed=args.seed, book=args.book)
        return run_study(args.size, seed=args.seed, book=args.book, slice_s=args.slice)
    except BookError as error:
        raise CliError(str(error)) from None
