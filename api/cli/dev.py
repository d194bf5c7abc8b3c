"""`argus dev`: helpers for people who build on Argus: stand-ins for a model and for Slack, reference tables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from argus.api.cli.errors import CliError
from argus.api.cli.paths import path, write_whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The helpers."""
    helpers = parser.add_subparsers(dest="helper", required=True, metavar="HELPER")
    stub = helpers.add_parser(
        "stub-llm", help="an OpenAI-compatible server on loopback with a scripted model"
    )
    stub.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    stub.add_argument(
        "--script", default="confirm", metavar="NAME", help="what the model does (default confirm)"
    )
    stub.add_argument(
        "--quirk",
        action="append",
        default=[],
        metavar="NAME",
        help="a habit of real servers; may be given again; NAME-once: only in the first answer",
    )
    stub.add_argument("--list", action="store_true", help="list scripts and quirks, and end")
    slack = helpers.add_parser(
        "slack-double", help="a Slack workspace on loopback with the real one's limits"
    )
    slack.add_argument("--port", type=int, default=0, help="port to listen on (default: a free one)")
    docs = helpers.add_parser(
        "docs", help="write the tables of settings, metrics, tools and runbooks into the documentation"
    )
    docs.add_argument("--docs", type=path, default=Path("docs"), metavar="DIR", help="folder (default docs)")
    docs.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page is stale")
    docs.add_argument("--json", action="store_true", help="one JSON object on stdout")


def run(args: argparse.Namespace) -> int:
    """Write the tables, or serve until interrupted."""
    helpers = {"docs": _docs, "slack-double": _slack_double, "stub-llm": _stub_llm}
    return helpers[args.helper](args)


def _docs(args: argparse.Namespace) -> int:
    from argus.api.reference import PageError, stale_pages

    try:
        stale = stale_pages(args.docs)
        if not args.check:
            for page, text in stale.items():
                write_whole(page, text)
    except (OSError, PageError) as error:
        raise CliError(f"cannot write the tables: {error}") from None
    names = [page.name for page in stale]
    if args.json:
        print(json.dumps({"stale" if args.check else "written": names}))
    else:
        said = "stale" if args.check else "written"
        print(f"{said}: {', '.join(names)}" if names else "every page is as the code has it")
    return 1 if args.check and names else 0


def _slack_double(args: argparse.Namespace) -> int:
    from argus.api.slack.double import APP_TOKEN, CHANNEL, TOKEN, SlackDouble
    from argus.api.slack.double_socket import DoubleSocket

    try:
        double = SlackDouble(port=args.port, told=print_message)
    except (OSError, OverflowError) as error:
        raise CliError(f"cannot listen on 127.0.0.1:{args.port}: {error}") from None
    with DoubleSocket(double):
        print(f"argus dev slack-double: ready on {double.url}", flush=True)
        print(
            f"  ARGUS_SLACK_API_URL={double.url} ARGUS_SLACK_TOKEN={TOKEN} ARGUS_SLACK_CHANNEL={CHANNEL} "
            f"ARGUS_SLACK_APP_TOKEN={APP_TOKEN} argus serve",
            file=sys.stderr,
        )
        double.serve_forever()
    return 0


def print_message(what: str, message: Mapping[str, object]) -> None:
    """One line for each message, edit or whisper."""
    from argus.agent.wording import printable

    thread = " (thread)" if message.get("thread_ts") else ""
    print(printable(f"{what}{thread}: {str(message.get('text', ''))[:200]}"), flush=True)


def _stub_llm(args: argparse.Namespace) -> int:
    from argus.agent.stub_llm.quirks import QUIRKS
    from argus.agent.stub_llm.scripts import SCRIPTS
    from argus.agent.stub_llm.server import StubServer

    if args.list:
        print(f"scripts: {', '.join(SCRIPTS)}\nquirks: {', '.join(QUIRKS)}")
        return 0
    if args.script not in SCRIPTS:
        raise CliError(f"no script {args.script!r}; there are {', '.join(SCRIPTS)}")
    try:
        server = StubServer(SCRIPTS[args.script], quirks=args.quirk, port=args.port)
    except (OSError, OverflowError) as error:
        raise CliError(f"cannot listen on 127.0.0.1:{args.port}: {error}") from None
    except ValueError as error:
        raise CliError(str(error)) from None
    print(f"argus dev stub-llm: ready on {server.url}, script {args.script}", flush=True)
    print(f"  ARGUS_MODEL_URL={server.url} argus chat", file=sys.stderr)
    server.serve_forever()
    return 0
