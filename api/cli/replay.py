"""`argus replay`: send a recording or any readable trace to a running service, as its hosts would have."""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from argus.agent.wording import counted, printable
from argus.api.cli.bar import Bar
from argus.api.cli.errors import CliError, check_run_name
from argus.api.cli.over_http import add_server, server_of
from argus.api.cli.paths import path

if TYPE_CHECKING:
    from argus.analytics.outside import Outside
    from argus.api.replay import Sent
    from argus.collectors.job import Job

TOOK, IN_PART, NOTHING = 0, 1, 2
MAX_SAID = 20
"""Sentences printed on a terminal."""

MAX_NAME = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument(
        "paths", nargs="+", type=path, metavar="PATH", help="recordings, trace files, folders or archives"
    )
    add_server(parser)
    parser.add_argument("--run", metavar="NAME", default="", help="send it under this name")
    parser.add_argument(
        "--speed",
        type=_speed,
        default=0.0,
        metavar="X",
        help="X times as fast as it happened, 1 = as it happened (default: as fast as it is taken)",
    )
    parser.add_argument(
        "--keep-times",
        action="store_true",
        help="leave its times as they are (default: it ends now, with --speed it begins now)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    """0 if all was taken, 1 if a part of the files or of the uploads was not, 2 if there is nothing to send."""
    check_run_name(args.run)
    server, bar = server_of(args, os.environ), Bar(sys.stderr)
    try:
        found = _read(args, bar)
        sent = _send(args, found, server=server, bar=bar)
    finally:
        bar.clear()
    said = [*found.warnings, *sent.refused]
    if args.json:
        print(json.dumps({**asdict(sent), "server": server, "warnings": said}))
    else:
        print(
            f"sent to {server}: {counted(sent.windows, 'windows')} of {counted(sent.ranks, 'ranks')} and {counted(sent.steps, 'steps')}, as run "
            f"{printable(sent.run)} attempt {sent.attempt}; see them: argus status --server {server}"
        )
    for sentence in said[:MAX_SAID]:
        print(f"argus replay: {printable(sentence)}", file=sys.stderr)
    if len(said) > MAX_SAID:
        print(f"argus replay: and {len(said) - MAX_SAID} more, see --json", file=sys.stderr)
    return IN_PART if said else TOOK


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What lies behind the paths, ready to be sent."""

    job: Job
    outside: Outside
    warnings: tuple[str, ...]


def _read(args: argparse.Namespace, bar: Bar) -> _Found:
    """The job as it is to be sent. Raises CliError."""
    from argus.api.offline.seen import end_s, outside_of, seen_by, start_s
    from argus.api.replay import as_attempt
    from argus.collectors.gather import gather
    from argus.collectors.job import join
    from argus.collectors.readers import ReaderError
    from argus.topology.layout import build

    try:
        with tempfile.TemporaryDirectory(prefix="argus-") as scratch:
            gathered = gather(args.paths, Path(scratch), progress=bar)
        job = join(gathered.readings, run=args.paths[0].resolve().name.split(".")[0] or "trace")
    except ReaderError as error:
        raise CliError(str(error), code=NOTHING) from None
    except ValueError as error:
        raise CliError(printable("; ".join([str(error), *gathered.warnings[:3]])), code=NOTHING) from None
    recorded_s = end_s(job) if args.speed == 0 else start_s(job)
    shift_s = 0.0 if args.keep_times else time.time() - recorded_s
    warnings = (*gathered.warnings, *job.warnings)
    job = as_attempt(job, run=args.run, shift_s=shift_s)
    outside = outside_of(seen_by(gathered.readings), job, build(one.layout for one in job.records))
    return _Found(job=job, outside=outside, warnings=warnings)


def _send(args: argparse.Namespace, found: _Found, *, server: str, bar: Bar) -> Sent:
    """Send it. Raises CliError."""
    from argus.api.replay import NotSent, Replay
    from argus.collectors.host.client import parse_server
    from argus.collectors.records.upload import own_key

    try:
        post = parse_server(server, key=own_key(os.environ))
    except ValueError as error:
        raise CliError(str(error), code=NOTHING) from None
    replay = Replay(
        post=post,
        get=post.get,
        clock=time.time,
        sleep=time.sleep,
        rng=random.Random(),
        speed=args.speed,
        progress=bar,
    )
    try:
        return replay.send(found.job, events=found.outside.events, stacks=found.outside.stacks)
    except NotSent as error:
        raise CliError(str(error), code=IN_PART) from None


def _speed(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1e6:  # also NaN
        raise argparse.ArgumentTypeError(f"must be above 0 and at most 1e6, got {word!r}")
    return value
