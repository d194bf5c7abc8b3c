"""`argus probe`: measure suspect hosts beside healthy ones, apart from any job."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from argus.analytics.probe import Reading, Verdict, events_of, judged, slow_pairs
from argus.api.cli.errors import CliError
from argus.api.cli.numbers import seconds, whole
from argus.api.cli.over_http import add_server, ask, quoted, server_of
from argus.collectors.launch import own_env
from argus.collectors.probe.__main__ import MARK
from argus.collectors.records.text import tame

TEMPLATES = {
    "ssh": "ssh -o BatchMode=yes {host} {command}",
    "srun": "srun --overlap --nodes=1 --ntasks=1 --nodelist={host} sh -c {command}",
    "kubectl": "kubectl exec {host} -- sh -c {command}",
}
"""How a command is started on a host, {command} being one quoted word; for kubectl a host is a pod."""

ALLOWANCE_S = 120.0
"""On top of the measurement: start of the interpreter, meeting, and ending."""

MAX_S, MAX_ROUNDS = 3600.0, 1000
NUM_PEERS = 2
ALL_WELL, IN_PART, NOTHING, FAULT = 0, 1, 2, 3
SLOW = 1.10
"""Ratio from which on a host counts as slow: the least that was worth removing (incidents.md §2.3)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which hosts, how they are reached, for how long."""
    parser.add_argument("--hosts", type=_names, default=[], metavar="H1,H2", help="the suspects")
    parser.add_argument(
        "--peers", type=_names, default=[], metavar="H3,H4", help="healthy hosts to compare with"
    )
    parser.add_argument("--incident", metavar="ID", help="take suspects and two healthy hosts of its run")
    parser.add_argument("--via", choices=sorted(TEMPLATES), help="how other hosts are reached")
    parser.add_argument(
        "--launch", metavar="TEMPLATE", help="instead of --via: words with {host} and {command}"
    )
    parser.add_argument(
        "--seconds", type=seconds(MAX_S), default=30.0, metavar="S", help="in all (default 30)"
    )
    parser.add_argument(
        "--rounds",
        type=whole(1, MAX_ROUNDS),
        default=3,
        metavar="N",
        help="partners each host meets (default 3)",
    )
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--python", default="python3", help="interpreter on the hosts (default python3)")
    parser.add_argument(
        "--port", type=whole(1, 65535), default=29711, help="where the first host listens (default 29711)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the commands and start nothing")
    parser.add_argument("--while-running", action="store_true", help="although the incident's run is live")
    parser.add_argument("--no-post", action="store_true", help="do not tell the service")
    parser.add_argument("--fail-on-fault", action="store_true", help="exit 3 if a host is slow")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    add_server(parser)


def run(args: argparse.Namespace) -> int:
    """Start, wait, compare, tell the service, print."""
    suspects, peers = chosen(args)
    hosts = [*suspects, *(host for host in peers if host not in suspects)]
    commands = [words_for(host, rank, hosts, args) for rank, host in enumerate(hosts)]
    if args.dry_run:
        print("\n".join(shlex.join(words) for words in commands))
        return ALL_WELL
    print(f"probing {', '.join(hosts)} for {args.seconds:.0f} s", file=sys.stderr)
    readings, silent = measure(hosts, commands, timeout_s=args.seconds + ALLOWANCE_S)
    if not readings:
        raise CliError(f"no host answered: {'; '.join(silent)}", code=NOTHING)
    verdicts = judged(readings, peers=peers)
    posted = None if args.no_post else post(verdicts, args)
    pairs = slow_pairs(readings)
    if args.json:
        print(
            json.dumps(
                {
                    "suspects": suspects,
                    "peers": peers,
                    "verdicts": [asdict(verdict) for verdict in verdicts],
                    "slow_pairs": [list(pair) for pair in pairs],
                    "posted": posted,
                    "warnings": silent,
                }
            )
        )
    else:
        print("\n".join(render(verdicts, pairs, suspects=suspects)))
    for text in silent:
        print(f"argus probe: {tame(text, 200)}", file=sys.stderr)
    if args.fail_on_fault and (pairs or any((v.ratio or 0.0) >= SLOW for v in verdicts)):
        return FAULT
    return IN_PART if silent else ALL_WELL


def chosen(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Suspects and healthy peers. Raises CliError."""
    if args.incident and not args.hosts:
        return _of_incident(args)
    if not args.hosts:
        raise CliError("name the suspects with --hosts, or an incident with --incident")
    return args.hosts, args.peers


def _of_incident(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    server = server_of(args, os.environ)
    incident = ask(f"{server}/v1/incidents/{quoted(args.incident)}")
    run = quoted(incident["run"])
    latest = ask(f"{server}/v1/runs/{run}")["attempts"][0]
    if latest["status"] == "live" and not args.while_running:
        raise CliError(
            f"run {incident['run']!r} is live and a probe would slow it down: wait, or add --while-running"
        )
    shape = ask(f"{server}/v1/runs/{run}/topology?attempt={incident['attempt']}")
    host_of = {item["rank"]: item["host"] for item in shape["ranks"]}
    suspects = sorted({host_of[rank] for rank in incident["suspects"] if host_of.get(rank)})
    if not suspects:
        raise CliError(f"incident {args.incident!r} accuses no host", code=NOTHING)
    others = sorted(set(host_of.values()) - set(suspects) - {""})
    return suspects, args.peers or others[:NUM_PEERS]


def words_for(host: str, rank: int, hosts: Sequence[str], args: argparse.Namespace) -> list[str]:
    """The command that measures on one host. Raises CliError where it cannot be reached."""
    if host.startswith(
        "-"
    ):  # a name comes from the job's hosts: to ssh it would be an option, with a command in it
        raise CliError(f"{host!r} is no name of a host: name the hosts with --hosts and --peers")
    own = is_local(host)
    python = sys.executable if own and args.python == "python3" else args.python
    master = f"{'127.0.0.1' if all(map(is_local, hosts)) or args.launch else hosts[0]}:{args.port}"
    command = [python, "-P", "-m", "argus.collectors.probe"]  # -P: not what lies in this folder
    command += ["--rank", str(rank), "--world", str(len(hosts)), "--master", master]
    command += ["--seconds", f"{args.seconds:g}", "--rounds", str(args.rounds), "--device", args.device]
    template = args.launch or TEMPLATES.get(args.via or "", "")
    if own and not args.launch:
        return command
    if not template:
        raise CliError(f"{host} is another host: say how it is reached with --via ssh, srun or kubectl")
    try:
        return [part.format(host=host, command=shlex.join(command)) for part in shlex.split(template)]
    except (AttributeError, KeyError, IndexError, ValueError):
        raise CliError(f"--launch must be words with {{host}} and {{command}}, got {template!r}") from None


def is_local(host: str) -> bool:
    """Whether a name is this machine's own."""
    return host in ("localhost", "127.0.0.1", socket.gethostname())


def measure(
    hosts: Sequence[str], commands: Sequence[Sequence[str]], *, timeout_s: float
) -> tuple[list[Reading], list[str]]:
    """Run all commands at once; what they measured, and a sentence for each that did not end well."""
    outcomes: dict[int, tuple[list[Reading], str]] = {}
    started: list[subprocess.Popen[str]] = []
    threads = []

    def one(rank: int, process: subprocess.Popen[str]) -> None:
        outcomes[rank] = _heard(process, hosts, rank, timeout_s=timeout_s)

    try:
        for rank, command in enumerate(commands):
            try:
                started.append(_started(command))
            except OSError as error:
                outcomes[rank] = ([], f"{hosts[rank]} cannot be reached: {error.strerror or error}")
                continue
            threads.append(threading.Thread(target=one, args=(rank, started[-1]), daemon=True))
            threads[-1].start()
        for thread in threads:
            thread.join()
    finally:
        for process in started:
            process.terminate()  # those still at it where a signal ended the wait: they would load the hosts for nobody
    readings = [reading for rank in sorted(outcomes) for reading in outcomes[rank][0]]
    return readings, [outcomes[rank][1] for rank in sorted(outcomes) if outcomes[rank][1]]


def _started(command: Sequence[str]) -> subprocess.Popen[str]:
    env = own_env(os.environ) if command[0] == sys.executable else None
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", env=env
    )


def _heard(
    process: subprocess.Popen[str], hosts: Sequence[str], rank: int, *, timeout_s: float
) -> tuple[list[Reading], str]:
    host = hosts[rank]
    try:
        told, said = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        process.kill()
        process.wait()
        half = error.stdout.decode("utf-8", "replace") if isinstance(error.stdout, bytes) else ""
        return list(_readings(half, hosts, rank)), f"{host} did not end within {timeout_s:.0f} s"
    why = (said.strip().splitlines() or ["no reason given"])[-1]
    trouble = f"{host} ended with {process.returncode}: {tame(why, 160)}" if process.returncode else ""
    return list(_readings(told, hosts, rank)), trouble


def _readings(text: str, hosts: Sequence[str], rank: int) -> Iterator[Reading]:
    """Measurements in what a host printed; lines that are none of ours are passed over."""
    for line in text.splitlines():
        if not line.startswith(MARK):
            continue
        try:
            raw: dict[str, Any] = json.loads(line.removeprefix(MARK))
            partner = raw["partner"]
            yield Reading(
                host=hosts[rank],
                test=str(raw["test"]),
                p50_s=float(raw["p50_s"]),
                partner="" if partner is None else hosts[int(partner)],
            )
        except (ValueError, KeyError, TypeError, IndexError):
            print(f"argus probe: {hosts[rank]} printed {line!r:.80}", file=sys.stderr)


def post(verdicts: Sequence[Verdict], args: argparse.Namespace) -> int | None:
    """Tell the service; how many events were new, None if no service answers."""
    events = [
        {("time" if key == "time_s" else key): value for key, value in event.to_json().items() if key != "id"}
        for event in events_of(verdicts, time_s=time.time())
    ]
    if not events:
        return 0
    try:
        answer = ask(f"{server_of(args, os.environ)}/v1/events", method="POST", body={"events": events})
    except CliError as error:
        print(f"argus probe: the result was not posted: {error}", file=sys.stderr)
        return None
    return int(answer["accepted"])


def render(
    verdicts: Sequence[Verdict], pairs: Sequence[tuple[str, str, float]], *, suspects: Sequence[str]
) -> Iterator[str]:
    """A line per host and test, then pairs that are slow by themselves."""
    for verdict in verdicts:
        who = "suspect" if verdict.host in suspects else "peer"
        ratio = "nothing to compare with" if verdict.ratio is None else f"{verdict.ratio:.2f}× its peers"
        mark = "SLOW" if (verdict.ratio or 0.0) >= SLOW else "well"
        yield tame(
            f"{verdict.host} ({who}) {verdict.test}: {verdict.p50_s * 1e3:.3g} ms, {ratio} {verdict.note} {mark}",
            160,
        )
    for first, second, factor in pairs:
        yield tame(
            f"{first} with {second}: {factor:.2f}× what both do with others: the way between them", 160
        )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or any(name.startswith("-") for name in names):
        raise argparse.ArgumentTypeError("must be names separated by commas")
    return list(dict.fromkeys(names))
