"""`argus triage`: traces or a recording in, a verdict out."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from argus.agent.card import render
from argus.agent.wording import counted, printable
from argus.agent.wording import ranks as rank_names
from argus.agent.worth import worth_lines
from argus.api.cli.bar import Bar
from argus.api.cli.errors import CliError
from argus.api.cli.numbers import whole
from argus.api.cli.paths import path, write_whole
from argus.api.cli.triage_series import series_text
from argus.api.offline.files import triage_files
from argus.api.offline.series import SeriesReport
from argus.api.report import NothingUsable, Report
from argus.collectors.readers import ReaderError
from argus.collectors.records.plan import MAX_STEPS

MAX_WARNINGS = 20
"""Sentences printed on a terminal; a job of ten thousand ranks can have one for each."""

MAX_STACKS, MAX_FRAMES, MAX_SEEN = 8, 6, 12
"""Merged stacks and witnesses printed; all of them are in --json."""

MAX_NODES = 3

ANALYSED, IN_PART, NOTHING, FAULT = 0, 1, 2, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "paths",
        nargs="+",
        type=path,
        metavar="PATH",
        help="traces, recordings, dumps, logs, scrapes or stacks: files, folders, archives",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    parser.add_argument(
        "--fail-on-fault", action="store_true", help="exit 3 if a fault is confirmed or likely"
    )
    parser.add_argument(
        "--window-steps",
        type=whole(1, MAX_STEPS),
        metavar="N",
        help="steps compared at a time (default 10)",
    )
    parser.add_argument(
        "--ideal-timeline",
        type=path,
        metavar="FILE",
        help="write the ideal steps of a pipeline as a trace for Perfetto",
    )


def run(args: argparse.Namespace) -> int:
    """Print the verdict; the exit code says whether all, a part or nothing could be analysed."""
    bar = Bar(sys.stderr)
    try:
        report = triage_files(args.paths, now_s=time.time(), window_steps=args.window_steps, progress=bar)
    except ReaderError as error:
        raise CliError(str(error), code=NOTHING) from None
    except NothingUsable as error:
        sentences = str(error).splitlines()
        more = f"\n  and {len(sentences) - MAX_WARNINGS} more" if len(sentences) > MAX_WARNINGS else ""
        said = "\n  ".join(sentences[:MAX_WARNINGS])
        raise CliError(f"nothing usable: {said}{more}", code=NOTHING) from None
    finally:
        bar.clear()
    if args.json:
        print(json.dumps(report.to_json(), allow_nan=False, default=float))
    else:
        print(text(report, color=sys.stdout.isatty()))
    for warning in report.warnings[:MAX_WARNINGS]:
        print(f"argus triage: {printable(warning)}", file=sys.stderr)
    if len(report.warnings) > MAX_WARNINGS:
        print(f"argus triage: and {len(report.warnings) - MAX_WARNINGS} more, see --json", file=sys.stderr)
    code = exit_code(report, fail_on_fault=args.fail_on_fault)
    if args.ideal_timeline is not None:  # the verdict stands, whatever becomes of this
        _write_timeline(report, args.ideal_timeline, code=code if code == FAULT else IN_PART)
    return code


def _write_timeline(report: Report | SeriesReport, to: Path, *, code: int) -> None:
    """Write the ideal steps. Raises CliError with the code where that cannot be."""
    trace = report.ideal_timeline() if isinstance(report, Report) else None
    if trace is None:
        raise CliError("--ideal-timeline needs phases per micro-batch of whole pipelines", code=code)
    try:
        write_whole(to, json.dumps(trace))
    except OSError as error:
        raise CliError(f"{to} cannot be written: {error.strerror or error}", code=code) from None


def text(report: Report | SeriesReport, *, color: bool = False) -> str:
    """The verdict card, what was read above it, and a line for each further incident."""
    if isinstance(report, SeriesReport):
        return "\n".join([series_text(report, color=color), *_seen_lines(report.seen)])
    worth = [f" {line}" for line in (worth_lines(report.what_if) if report.what_if else ())]
    beside = (*_stack_lines(report), *_seen_lines(report.seen))
    return "\n".join([_what_was_read(report), "", _cards(report, color=color), *worth, *beside])


def _what_was_read(report: Report) -> str:
    if not report.windows:
        count = f"{len(report.job.ranks)} of {report.job.world_size} ranks · " if report.job.ranks else ""
        return f" {count}{report.what}"
    residual = max((window.clock_residual_s for window in report.windows), default=0.0)
    clock = report.windows[-1].clock_method
    error = f" (±{residual * 1e6:.0f} µs)" if 0 < residual < 1 else ""
    steps = counted(report.job.num_steps, "steps")
    return (
        f" {len(report.job.ranks)} of {report.job.world_size} ranks · {steps} · "
        f"{counted(len(report.collectives), 'collectives')} compared · {clock}{error}"
    )


def _seen_lines(seen: Sequence[Mapping[str, Any]]) -> list[str]:
    """What others than the ranks told, signs before mere notes; the same of several nodes is one line."""
    nodes: dict[tuple[str, str], list[str]] = {}
    for item in sorted(seen, key=lambda one: not one["kind"]):
        nodes.setdefault((item["source"], item["text"]), []).append(item["node"])
    lines = [f" seen: {_few(who)} ({source}): {told}" for (source, told), who in nodes.items()]
    more = [f" and {len(lines) - MAX_SEEN} more, see --json"] if len(lines) > MAX_SEEN else []
    return [*map(printable, lines[:MAX_SEEN]), *more]


def _few(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - MAX_NODES} more" if len(nodes) > MAX_NODES else ""
    return ", ".join(nodes[:MAX_NODES]) + more


def _stack_lines(report: Report) -> list[str]:
    """What the ranks were doing, those behind first."""
    lines = []
    for stack in report.stacks[:MAX_STACKS]:
        lines.append(f" {rank_names(stack.ranks)}: {stack.what}")
        lines += [f"   {frame}" for frame in stack.frames[:MAX_FRAMES]]
    return list(map(printable, lines))


def _cards(report: Report, *, color: bool) -> str:
    """The costliest incident's card and a line for each other."""
    worst = report.incident
    card = render(worst, report.diagnosis, topology=report.topology, color=color)
    beside = report.series.incidents if report.series else ()
    others = [
        f" also: {incident.diagnosis['headline']}"
        for incident in (*report.incidents, *beside)
        if incident is not worst and incident.diagnosis
    ]
    return "\n".join([card, *others])


def exit_code(report: Report | SeriesReport, *, fail_on_fault: bool) -> int:
    """0 analysed, 1 in part, 3 for a fault where that was asked for."""
    is_fault = any(incident.cause.verdict in ("CONFIRMED", "LIKELY") for incident in report.incidents)
    if fail_on_fault and is_fault:
        return FAULT
    return IN_PART if report.warnings else ANALYSED
