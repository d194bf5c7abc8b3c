"""`argus diff`: what changed between two runs."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from argus.agent.wording import quantity
from argus.analytics.run_diff import SECTIONS, Change, RunDiff, diff
from argus.analytics.run_facts import RunFacts
from argus.api.cli.errors import CliError
from argus.api.cli.over_http import add_server, ask, quoted, server_of
from argus.api.cli.paths import word
from argus.collectors.records.text import tame

ANALYSED, IN_PART, NOTHING = 0, 1, 2
MAX_LINE = 160

PATHS = ("./", "../", "~")
"""How a path begins that no run is called like; the shell leaves `~` where there is no such user."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which two runs, in which form."""
    what = "a run of the service (NAME or NAME#ATTEMPT), or a folder or file of traces or a recording"
    parser.add_argument("before", type=word, metavar="RUN_A", help=what)
    parser.add_argument("after", type=word, metavar="RUN_B", help="the other one")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Print every difference; 1 if something could not be compared."""
    found = diff(facts(args.before, args), facts(args.after, args))
    print(json.dumps(found.to_json()) if args.json else "\n".join(render(found)))
    return IN_PART if found.lacks else ANALYSED


def facts(name: str, args: argparse.Namespace) -> RunFacts:
    """Facts of one of the two. Raises CliError."""
    path = Path(name)
    if os.path.exists(path):  # unlike `Path.exists` also of a run's name that is too long for a file
        return _of_files(path)
    if path.is_absolute() or name.startswith(PATHS):
        raise CliError(f"{name}: no such file or folder", code=NOTHING)
    try:
        return _of_service(name, args)
    except CliError as error:
        if "/" not in name and not path.suffix:
            raise
        # A run may be called like this, so the service was asked first.
        raise CliError(f"{name}: no such file or folder here, and as a run: {error}", code=NOTHING) from None


def _of_service(name: str, args: argparse.Namespace) -> RunFacts:
    run, _, attempt = name.partition("#")
    if attempt and not attempt.isdecimal():
        raise CliError(f"{name!r} names no attempt: give NAME#NUMBER")
    query = f"?attempt={attempt}" if attempt else ""
    return RunFacts.from_json(ask(f"{server_of(args, os.environ)}/v1/runs/{quoted(run)}/facts{query}"))


def _of_files(path: Path) -> RunFacts:
    from argus.api.facts import job_facts
    from argus.api.offline.files import read_job, windows_of
    from argus.api.report import NothingUsable
    from argus.collectors.readers import ReaderError

    try:
        if sys.stderr.isatty():
            print(f"reading {path}", file=sys.stderr)
        job, topology, warnings = read_job([path])
    except ReaderError as error:
        raise CliError(str(error), code=NOTHING) from None
    except NothingUsable as error:
        raise CliError(f"nothing usable in {path}: {str(error).splitlines()[0]}", code=NOTHING) from None
    for warning in warnings[:5]:
        print(f"argus diff: {tame(warning, MAX_LINE)}", file=sys.stderr)
    return job_facts(job, topology, windows_of(job, topology, None))


def render(found: RunDiff) -> Iterator[str]:
    """Lines of text, section by section."""
    yield tame(f"{found.before} → {found.after}", MAX_LINE)
    if not found.changes:
        yield "  nothing differs beyond its noise"
    for section in SECTIONS:
        if changes := found.of(section):
            yield f"{section}"
            yield from (tame(f"  {_line(change)}", MAX_LINE) for change in changes)
    if found.lacks:
        yield f"not compared: {'; '.join(tame(text, 80) for text in found.lacks)}"


def _line(change: Change) -> str:
    name = tame(change.name.partition("|")[0], 70)
    is_time = change.section in ("step", "phases", "waits", "ranks")
    unit = "s" if is_time else change.unit
    before, after = (_said(value, unit) for value in (change.before, change.after))
    ratio = f" ({quantity(change.ratio, 'x')})" if change.ratio is not None else ""
    effect = f", {quantity(change.effect_s, 's')} a step" if change.effect_s and not is_time else ""
    if change.section == "hosts":
        return f"{name}: {'left out' if change.after is None else 'new'}"
    return f"{name}: {before} → {after}{ratio}{effect}"


def _said(value: str | float | None, unit: str) -> str:
    if value is None:
        return "absent"
    return tame(value, 60) if isinstance(value, str) else quantity(value, unit)
