"""`argus tools`: the agent's tools by hand, and what they answered."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

from argus.api.cli.errors import CliError
from argus.api.cli.face import add_face, face_of

CODES = {"ok": 0, "no_data": 0, "gap": 1, "denied": 2, "error": 2}
"""Exit code by status: answered, answered in part, not answered."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The three actions."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="the tools and what they take")
    listed.add_argument("--json", action="store_true", help="their schemas as one JSON object")
    called = actions.add_parser("call", help="call one")
    called.add_argument("name", metavar="NAME", help="its name, see argus tools list")
    called.add_argument(
        "--json",
        default="{}",
        metavar="ARGUMENTS",
        help="arguments as one JSON object; what is left out is null",
    )
    add_face(called)
    opened = actions.add_parser("evidence", help="what a call answered, by its id")
    opened.add_argument("id", metavar="ID", help="ev-…")
    add_face(opened)


def run(args: argparse.Namespace) -> int:
    """Print one JSON object, or the list as text."""
    if args.action == "list":
        return _list(is_json=args.json)
    if args.action == "evidence":
        found = face_of(args).evidence(args.id)
        if found is None:
            raise CliError(f"no evidence {args.id!r}", code=1)
        print(json.dumps(found))
        return 0
    result = face_of(args).call(args.name, _arguments(args.json))
    print(json.dumps(result.to_json()))
    return CODES[result.status]


def _arguments(text: str) -> dict[str, Any]:
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CliError(f"--json is no JSON: {error}") from None
    if not isinstance(raw, dict):
        raise CliError('--json must be an object such as {"ranks": [3]}')
    return raw


def _list(*, is_json: bool) -> int:
    from argus.agent.registry import registry

    if is_json:
        print(json.dumps({"tools": [tool.to_openai(strict=True) for tool in registry().tools.values()]}))
    else:
        print("\n".join(_lines()))
    return 0


def _lines() -> Iterator[str]:
    from argus.agent.registry import registry

    for tool in registry().tools.values():
        effect = "" if tool.read_only else " (has an effect)"
        yield f"{tool.name}{effect}: {' '.join(tool.description.split())}"
        for argument in tool.arguments:
            needed = "" if argument.is_nullable else ", needed"
            yield f"    {argument.name}{needed}: {argument.doc or 'see its schema'}"
