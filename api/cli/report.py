"""`argus report`: GPU-hours a run lost, by cause, and what every step pays for."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from argus.agent.wording import printable, quantity
from argus.api.cli.bar import Bar
from argus.api.cli.errors import CliError
from argus.api.cli.over_http import add_server, ask, quoted, server_of
from argus.api.cli.paths import path, write_whole
from argus.collectors.records.text import tame

ANALYSED, IN_PART, NOTHING = 0, 1, 2
MAX_LINE = 160
MAX_WARNINGS = 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which run, in which form."""
    parser.add_argument(
        "paths", nargs="*", type=path, metavar="PATH", help="traces or a recording instead of a run"
    )
    parser.add_argument("--run", metavar="NAME", help="a run of the service")
    parser.add_argument("--html", type=path, metavar="FILE", help="write one page that needs nothing else")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Print the report; 1 if something could not be told."""
    if bool(args.run) == bool(args.paths):
        raise CliError("give --run NAME, or files and folders, but not both")
    report = (
        ask(f"{server_of(args, os.environ)}/v1/runs/{quoted(args.run)}/report")
        if args.run
        else of_files(args.paths)
    )
    print(json.dumps(report) if args.json else "\n".join(render(report)))
    if args.html is not None:
        _write_page(report, args.html)
    return IN_PART if report["lacks"] else ANALYSED


def _write_page(report: Mapping[str, Any], to: Path) -> None:
    """Raises CliError; the report itself is printed by then."""
    from argus.api.losses_page import page

    try:
        write_whole(to, page(report))
    except OSError as error:
        raise CliError(f"{to} cannot be written: {error.strerror or error}", code=IN_PART) from None
    print(f"{to} is written", file=sys.stderr)


def of_files(paths: list[Path]) -> dict[str, Any]:
    """The report of recorded files. Raises CliError."""
    from argus.analytics.store.documents import clean
    from argus.api.losses import file_losses, losses_json
    from argus.api.offline.files import triage_files
    from argus.api.report import NothingUsable, Report
    from argus.collectors.readers import ReaderError

    bar = Bar(sys.stderr)
    try:
        found = triage_files(paths, now_s=time.time(), progress=bar)
    except (ReaderError, NothingUsable) as error:
        raise CliError(printable(str(error).splitlines()[0]), code=NOTHING) from None
    finally:
        bar.clear()
    losses = file_losses(found) if isinstance(found, Report) else None
    if losses is None:
        raise CliError("these files hold no steps of ranks that can be compared", code=NOTHING)
    for warning in found.warnings[:MAX_WARNINGS]:
        print(f"argus report: {tame(warning, MAX_LINE)}", file=sys.stderr)
    report = clean(losses_json(losses))
    assert isinstance(report, dict)
    return report


def render(report: Mapping[str, Any]) -> Iterator[str]:
    """The paragraph, then a line for each cause and each sort of cost."""
    yield printable(report["paragraph"])
    yield ""
    lost = report["lost"]
    rows = {**report["by_class"], "no incident's": report["unexplained"], "all": lost}
    yield f"{'GPU-hours lost':<24}{'hours':>12}{'share':>9}{'in steps ≥ 2×':>16}"
    for name, loss in rows.items():
        yield tame(
            f"{name:<24}{loss['hours']:>12.3g}{loss['share']:>9.2%}{loss['far_hours']:>16.3g}", MAX_LINE
        )
    yield ""
    yield f"{'every step pays':<24}{'a step':>12}{'share':>9}{'hours a day':>16}"
    for gain in report["gains"]:
        step = quantity(gain["gain_s_per_step"], "s")
        line = f"{gain['name']:<24}{step:>12}{gain['share']:>9.2%}{gain['gpu_hours_per_day']:>16.3g}"
        yield tame(f"{line}  {gain['method']}", MAX_LINE)
