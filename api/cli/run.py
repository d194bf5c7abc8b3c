"""`argus run [options] -- CMD …`: observe a training command without changing it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from secrets import token_hex

from argus.api.cli.errors import CliError, check_run_name
from argus.api.cli.paths import word
from argus.collectors import launch
from argus.collectors.host.client import parse_server
from argus.collectors.host.listener import target_of

NOT_FOUND = 127
NOT_EXECUTABLE = 126


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options before `--`; all behind it is the command."""
    parser.add_argument("--run", metavar="NAME", help="name of the run (ARGUS_RUN; default: the job's id)")
    parser.add_argument(
        "--socket", type=word, metavar="PATH", help="where the processor listens (ARGUS_SOCKET)"
    )
    parser.add_argument("--server", metavar="URL", help="the service to report to (ARGUS_SERVER)")
    parser.add_argument(
        "--record",
        type=word,
        metavar="DIR",
        help="write a recording that `argus triage` opens (ARGUS_RECORD; default without a service)",
    )
    parser.add_argument("--no-processor", action="store_true", help="start no processor on this host")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- CMD …", help="what to run")


def run(args: argparse.Namespace) -> int:
    """Set up, say so in one line, become the command."""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise CliError("no command given; write: argus run [options] -- python train.py")
    if shutil.which(command[0]) is None:
        if os.path.isfile(command[0]):
            raise CliError(f"{command[0]} is not executable; chmod +x it", code=NOT_EXECUTABLE)
        raise CliError(f"command not found: {command[0]}; check the spelling or the PATH", code=NOT_FOUND)
    check_run_name(args.run)
    plan = launch.make_plan(
        os.environ,
        run=args.run,
        socket=args.socket,
        server=args.server,
        record=args.record,
        has_processor=not args.no_processor,
        generated=f"run-{time.strftime('%Y%m%d-%H%M%S')}-{token_hex(2)}",
    )
    _check_server(plan.server)
    env = launch.rank_env(os.environ, plan)
    print(f"argus: run {plan.run}: {_start(plan, env)}", file=sys.stderr, flush=True)
    try:
        launch.replace_process(command, env)
    except OSError as error:
        raise CliError(f"{command[0]} cannot be run: {error.strerror}", code=NOT_EXECUTABLE) from None
    return 0


def _check_server(url: str | None) -> None:
    try:
        if url:
            parse_server(url)
    except ValueError as error:
        raise CliError(f"--server or ARGUS_SERVER: {error}") from None


def _start(plan: launch.Plan, env: dict[str, str]) -> str:
    """What came of it, and where the records go, in one line."""
    if env.get("ARGUS_OFF", "") not in ("", "0"):
        return "off, ARGUS_OFF is set; the job runs unobserved"
    if not plan.has_processor:
        return f"no processor{_target(plan)}"
    try:
        said = launch.ensure_processor(plan, launcher_pid=os.getpid(), env=env)
        return said + (_elsewhere(plan) or _target(plan))
    except (OSError, ValueError) as error:
        return f"no processor, the job runs unobserved: {error}"  # observation may fail, the job may not


def _elsewhere(plan: launch.Plan) -> str:
    """Where the records go if the processor that answers on the plan's socket was started for something else."""
    target = target_of(plan.socket)
    if target is None:
        return ""
    server = parse_server(plan.server).url if plan.server else target.server
    record = str(plan.record) if plan.record else target.record
    if (server, record) == (target.server, target.record):
        return ""
    ways = [target.server] if target.server else []
    ways += [f"recording to {target.record}"] if target.record else []
    told = f", {', '.join(ways) or 'which keeps nothing'}, instead of {_target(plan).removeprefix(', ')}"
    return f"{told}: for that name a socket without a processor with --socket"


def _target(plan: launch.Plan) -> str:
    targets = [plan.server] if plan.server else []
    targets += [f"recording to {plan.record}"] if plan.record and plan.has_processor else []
    return f", {', '.join(targets)}" if targets else ""
