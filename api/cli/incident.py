"""`argus incident`: what a service found, one of them whole, and what was done about it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from argus.api.cli.over_http import add_server, ask, quoted, server_of
from argus.collectors.records.text import tame

RESULTS = {"yes": "helped", "no": "did_not_help", "unclear": "unclear"}
MAX_LINE = 160
MAX_LISTED = 1000

Json = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="incidents, open ones first")
    listed.add_argument("--run", metavar="NAME", help="of one run")
    listed.add_argument("--status", choices=("open", "resolved"), help="only these")
    listed.add_argument("--class", dest="fault_class", metavar="CLASS", help="of one cause class")
    listed.add_argument("--limit", type=_limit, default=20, metavar="N", help="at most so many (default 20)")
    show = actions.add_parser("show", help="its card, and what became of it")
    outcome = actions.add_parser("outcome", help="say what was done about it and whether it helped")
    for action in (show, outcome):
        action.add_argument("id", metavar="ID", help="the incident's id, see argus incident list")
    outcome.add_argument("--did", default="", metavar="TEXT", help='what was done: "drained h-0231"')
    outcome.add_argument(
        "--action", dest="remedy", default="", metavar="ID", help="or the action of its diagnosis, by id"
    )
    outcome.add_argument("--helped", choices=sorted(RESULTS), required=True, help="whether it helped")
    outcome.add_argument("--note", default="", metavar="TEXT", help="more about it")
    for action in (listed, show, outcome):
        action.add_argument("--json", action="store_true", help="one JSON object on stdout")
        add_server(action)


def _limit(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= MAX_LISTED:
        raise argparse.ArgumentTypeError(f"must be 1 to {MAX_LISTED}, got {text!r}")
    return number


def run(args: argparse.Namespace) -> int:
    """Ask the service; 0. Raises CliError."""
    url = f"{server_of(args, os.environ)}/v1/incidents"
    if args.action == "list":
        return _list(args, url)
    one = f"{url}/{quoted(args.id)}"
    return _show(args, one) if args.action == "show" else _say(args, one)


def _list(args: argparse.Namespace, url: str) -> int:
    named = {"run": args.run, "status": args.status, "class": args.fault_class, "limit": args.limit}
    found = ask(f"{url}?{urllib.parse.urlencode({k: v for k, v in named.items() if v is not None})}")
    if args.json:
        print(json.dumps(found))
        return 0
    for item in found["items"]:
        print(tame(_line(item), MAX_LINE))
    if found["total"] > len(found["items"]):
        print(f"and {found['total'] - len(found['items'])} more, see --limit", file=sys.stderr)
    if not found["items"]:
        print("no incidents", file=sys.stderr)
    return 0


def _line(item: Json) -> str:
    told = (item["diagnosis"] or {}).get("headline") or f"{item['class']} at {item['scope']}"
    return f"{item['id']}  {_time(item['opened_s'])}  {item['status']:<8}  {item['severity']:<8}  {item['run']}: {told}"


def _show(args: argparse.Namespace, url: str) -> int:
    incident = ask(url)
    became = ask(f"{url}/outcomes")["items"]
    case = ask(f"{url.rpartition('/v1/')[0]}/v1/case?{urllib.parse.urlencode({'incident': incident['id']})}")
    if args.json:
        print(json.dumps({**incident, "outcomes": became, "card": case["card"]}))
        return 0
    print(case["card"])
    for line in _became(incident, became):
        print(tame(line, MAX_LINE))
    return 0


def _became(incident: Json, outcomes: list[Json]) -> Iterator[str]:
    if incident["ended"]:
        yield f" Ended     {incident['ended']}"
    for one in outcomes:
        did = f"{one['did']}: " if one["did"] else ""
        more = f" ({one['text']})" if one["text"] else ""
        yield f" Outcome   {did}{one['result'].replace('_', ' ')}{more} · {one['by']}, {_time(one['at_s'])}"


def _say(args: argparse.Namespace, url: str) -> int:
    body = {"did": args.did, "action": args.remedy, "result": RESULTS[args.helped], "text": args.note}
    kept = ask(f"{url}/outcomes", method="POST", body=body)
    if args.json:
        print(json.dumps(kept))
    else:
        print(tame(f"kept: {kept['did']}: {kept['result'].replace('_', ' ')} (by {kept['by']})", MAX_LINE))
    return 0


def _time(unix_s: float) -> str:
    return f"{datetime.fromtimestamp(unix_s, tz=UTC):%Y-%m-%d %H:%M}"
