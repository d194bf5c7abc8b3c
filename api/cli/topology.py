"""`argus topology`: show who works with whom on what, check the files that say so."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from argus.agent.wording import counted, printable
from argus.api.cli.errors import CliError
from argus.api.cli.numbers import whole
from argus.api.cli.over_http import add_server, key_of, server_of
from argus.api.cli.paths import word
from argus.collectors.records.errors import WireError
from argus.topology.compare import difference
from argus.topology.export import fleet_to_json, layouts_from_json
from argus.topology.facts import Facts, LoaderError
from argus.topology.fleet import Fleet, build_fleet
from argus.topology.graph import dot, graphml
from argus.topology.loaders import load_file
from argus.topology.names import NotInTopology
from argus.topology.text import render, render_difference
from argus.topology.words import describe_element, describe_rank

TIMEOUT_S = 10.0
MAX_ANSWER_BYTES = 256 << 20
MAX_ATTEMPT = (1 << 31) - 1  # the service knows no higher one

Fetch = Callable[[str, str], bytes]

FILES_HELP = (
    "files in any known form, or folders of them; HOST=FILE says which host a file is of, "
    "'*=FILE' that it describes every host"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `argus topology show` and `argus topology check`."""
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    show = commands.add_parser("show", help="layout, places and conflicts of a run or of files")
    show.add_argument("files", nargs="*", type=_file, metavar="FILE", help=FILES_HELP)
    show.add_argument("--run", metavar="R", help="a run the service knows; files add to it")
    show.add_argument(
        "--attempt", type=whole(0, MAX_ATTEMPT), metavar="N", help="attempt of the run; the latest by default"
    )
    add_server(show)
    show.add_argument("--rank", type=int, metavar="N", help="only this rank, with everything above it")
    show.add_argument("--against", type=_file, metavar="FILE", help="what changed since a saved --json")
    form = show.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="everything as one JSON object")
    form.add_argument("--dot", action="store_true", help="the hardware as Graphviz DOT")
    form.add_argument("--graphml", action="store_true", help="the graph as GraphML")
    check = commands.add_parser("check", help="read files, explain what is wrong or contradicts")
    check.add_argument("files", nargs="+", type=_file, metavar="FILE", help=FILES_HELP)
    check.add_argument("--json", action="store_true", help="one JSON object")


def _file(text: str) -> str:
    """A file, alone or behind the name of its host, that is not the empty word."""
    host, _ = _split(text)
    word(text.removeprefix(f"{host}=") if host else text)
    return text


def run(args: argparse.Namespace) -> int:
    """Do what was asked; the exit code."""
    return _check(args) if args.action == "check" else _show(args, fetch=fetch)


def fetch(url: str, key: str) -> bytes:
    """The body of a GET, with the key if there is one."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S) as answer:
        return bytes(answer.read(MAX_ANSWER_BYTES))


def _show(args: argparse.Namespace, *, fetch: Fetch) -> int:
    if not args.run and not args.files:
        raise CliError("name a run with --run R, or files to read")
    facts, failed = read_files(args.files)
    if args.run:
        facts.insert(0, from_service(args, fetch=fetch))
    for text in failed:
        print(f"argus topology: {printable(text)}", file=sys.stderr)
    fleet = _fleet(facts, failed)
    if args.rank is not None:
        print(printable(_rank_text(fleet, args.rank)))
    elif args.against:
        old, broken = read_files([args.against])
        change = difference(_fleet(old, broken), fleet)
        print(json.dumps(asdict(change)) if args.json else printable(render_difference(change)))
    elif args.json:
        print(json.dumps({**fleet_to_json(fleet), "warnings": [*failed, *fleet.warnings]}))
    else:
        print(printable(dot(fleet) if args.dot else graphml(fleet) if args.graphml else render(fleet)))
    return 1 if failed else 0


def read_files(names: Sequence[str]) -> tuple[list[Facts], list[str]]:
    """Facts of every file that can be used, and a sentence for every one that cannot."""
    facts: list[Facts] = []
    failed: list[str] = []
    for name in names:
        host, path = _split(name)
        try:
            files = _files(path)
        except OSError as error:
            failed.append(f"{path} cannot be read: {error.strerror or error}")
            continue
        if not files:
            failed.append(f"{path}: the folder holds no file")
        for file in files:
            try:
                facts.append(load_file(file, host=host))
            except LoaderError as error:
                failed.append(str(error))
    return facts, failed


def _files(path: Path) -> list[Path]:
    """The files of a folder; else the path itself, which whoever reads it finds to be there or not."""
    if not os.path.isdir(path):
        return [path]
    return sorted(one for one in path.iterdir() if one.is_file())


def _split(name: str) -> tuple[str, Path]:
    """HOST=FILE, unless a file has that very name."""
    host, equals, path = name.partition("=")
    if equals and not os.path.exists(name):
        return host, Path(path)
    return "", Path(name)


def from_service(args: argparse.Namespace, *, fetch: Fetch) -> Facts:
    """The run's topology as the service has it."""
    server = server_of(args, os.environ)
    if not server.startswith(("http://", "https://")):
        raise CliError(f"--server must start with http:// or https://, got {server!r}")
    query = f"?attempt={args.attempt}" if args.attempt is not None else ""
    url = f"{server}/v1/runs/{urllib.parse.quote(args.run, safe='')}/topology{query}"
    try:
        raw = json.loads(fetch(url, key_of(os.environ)))
        layouts = layouts_from_json(raw)
    except urllib.error.HTTPError as error:
        raise CliError(_refusal(args.run, server, error)) from None
    except OSError as error:
        raise CliError(f"no answer from {server} ({error}); start it with: argus serve") from None
    except http.client.HTTPException as error:
        raise CliError(f"{server} does not answer like an argus service ({type(error).__name__})") from None
    except (ValueError, WireError) as error:
        raise CliError(f"{server} sent no topology: {error}") from None
    live = tuple(replace(layout, source="live") for layout in layouts)
    return Facts(loader="layouts", origin=server, layouts=live)


def _refusal(run_name: str, server: str, error: urllib.error.HTTPError) -> str:
    if error.code == 404:
        return f"{server} knows no run {run_name!r}"
    if error.code in (401, 403):
        return f"{server} wants a key; set ARGUS_KEY"
    return f"{server} answered {error.code} {error.reason}"


def _fleet(facts: Sequence[Facts], failed: Sequence[str]) -> Fleet:
    try:
        return build_fleet(facts)
    except ValueError:
        why = (
            f": {failed[0]}" if failed else "; add layout records, a log with framework arguments or a layout"
        )
        raise CliError(f"nothing says which ranks there are{why}") from None


def _rank_text(fleet: Fleet, rank: int) -> str:
    try:
        lines = [describe_rank(fleet, rank)]
    except NotInTopology as error:
        raise CliError(str(error)) from None
    peers = fleet.topology.peers_of(rank)
    lines.append(f"peers: {', '.join(map(str, peers[:16]))}{' …' if len(peers) > 16 else ''}")
    own = (element for element in fleet.elements_of(rank) if not element.startswith(("rank:", "link:")))
    return "\n".join([*lines, *(f"  {element}  ({describe_element(fleet, element)})" for element in own)])


def _check(args: argparse.Namespace) -> int:
    """0 if all is well, 1 if something was left out or contradicts, 2 if nothing is usable."""
    facts, failed = read_files(args.files)
    warnings = [text for part in facts for text in part.warnings]
    conflicts: tuple[str, ...] = ()
    note = ""
    try:
        fleet = build_fleet(facts)
        conflicts = fleet.conflicts
        note = f"{counted(fleet.topology.world_size, 'ranks')}, {counted(len(fleet.ranks.ids), 'elements')}"
    except ValueError:
        note = "no file says which ranks there are; conflicts between hardware files are not looked for"
    if args.json:
        body = {
            "files": [_summary(part) for part in facts],
            "errors": failed,
            "warnings": warnings,
            "conflicts": list(conflicts),
        }
        print(json.dumps(body))
    else:
        print(printable("\n".join(_check_lines(facts, failed, warnings, conflicts, note))))
    if not facts:
        return 2
    return 1 if failed or warnings or conflicts else 0


def _summary(part: Facts) -> dict[str, Any]:
    return {
        "file": part.origin,
        "loader": part.loader,
        "records": len(part.layouts),
        "relations": len(part.edges),
        "elements": len({name for edge in part.edges for name in (edge.source, edge.target)}),
        "ranks_placed": len(part.ranks_on),
        "layouts": [item.parallel.text for item in part.declared],
    }


def _check_lines(
    facts: Sequence[Facts],
    failed: Sequence[str],
    warnings: Sequence[str],
    conflicts: Sequence[str],
    note: str,
) -> list[str]:
    lines = []
    for part in facts:
        row = _summary(part)
        said = [
            f"{row[key]} {key.replace('_', ' ')}"
            for key in ("records", "relations", "ranks_placed")
            if row[key]
        ]
        lines.append(
            f"ok        {part.origin}: {part.loader}, {', '.join([*said, *row['layouts']]) or 'hosts only'}"
        )
    lines += [f"error     {text}" for text in failed]
    lines += [f"warning   {text}" for text in warnings]
    lines += [f"conflict  {text}" for text in conflicts]
    return [*lines, note]
