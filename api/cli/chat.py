"""`argus chat`: a conversation about a run or an incident, the deterministic card first."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from argus.agent.wording import printable
from argus.api.cli.conversing import Memory, Table, add_common, open_table, say, step_text
from argus.api.cli.errors import CliError

if TYPE_CHECKING:
    from argus.agent.loop.course import Step

PROMPT = "argus> "
MAX_LISTED = 20

HELP = """  /why            the evidence for and against, every number from its source
  /diagnose       let the model investigate the incident whole
  /evidence ID    what a tool answered, whole
  /tools          what the model may call
  /quit           end (so does end of file)
  anything else is a question"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the chat is about, and earlier ones."""
    add_common(parser)
    earlier = parser.add_mutually_exclusive_group()
    earlier.add_argument("--resume", metavar="ID", help="go on with an earlier conversation")
    earlier.add_argument("--list", action="store_true", help="list the latest conversations, and end")


def run(args: argparse.Namespace) -> int:
    """Card, then questions until the end of the input."""
    from argus.agent.answer import card_of

    table = open_table(args)
    if args.list:
        say(list(_listed(table)))
        return 0
    memory = Memory(table, args.resume)
    if args.resume:
        memory.load()
    say([card_of(table.case, color=sys.stdout.isatty()), ""])
    if table.agent.endpoint is None:
        from argus.api.agent import NO_MODEL

        say([NO_MODEL, "Commands work without one; /help lists them."])
    while (line := _line()) is not None:
        try:
            if _is_end(table, memory, line):
                break
        except KeyboardInterrupt:  # a question that takes too long, not the end of the chat
            say(["stopped"])
    if table.store is not None and memory.is_begun:
        say([f"kept: argus chat --resume {memory.id}"])
    return 0


def _line() -> str | None:
    """The next line of input, None at its end."""
    try:
        return input(PROMPT if sys.stdin.isatty() else "").strip()
    except (EOFError, KeyboardInterrupt):
        return None


def _is_end(table: Table, memory: Memory, line: str) -> bool:
    word, _, rest = line.partition(" ")
    if word in ("/quit", "/exit"):
        return True
    if word in COMMANDS:
        say(list(COMMANDS[word](table, rest.strip())))
    elif word.startswith("/"):
        say([f"no command {word!r}", HELP])
    elif line:
        _ask(table, memory, line)
    return False


def _ask(table: Table, memory: Memory, question: str) -> None:
    from argus.agent.answer import answer_lines

    asked = table.agent.answer(
        table.toolbox, table.case, question=question, history=memory.messages, watch=_watch
    )
    answer = asyncio.run(asked)
    memory.add(question, answer.to_json())
    say(list(answer_lines(answer)))


def _watch(step: Step) -> None:
    if text := step_text(step):
        print(printable(text), flush=True)


def _help(table: Table, rest: str) -> Iterator[str]:
    yield HELP


def _tools(table: Table, rest: str) -> Iterator[str]:
    for tool in table.toolbox.registry.tools.values():
        if tool.read_only:
            yield f"  {tool.name}: {' '.join(tool.description.split())}"


def _evidence(table: Table, rest: str) -> Iterator[str]:
    found = table.toolbox.evidence(rest) if rest else None
    if found is None:
        yield f"no evidence {rest!r}: ids begin with ev- and stand behind each call above"
    else:
        yield printable(json.dumps(found, indent=1))


def _why(table: Table, rest: str) -> Iterator[str]:
    from argus.agent.answer import why_lines
    from argus.agent.case import triage_page

    table.toolbox.book.add(triage_page(table.case))
    yield from why_lines(table.case, table.case.diagnosis, table.toolbox.book)


def _diagnose(table: Table, rest: str) -> Iterator[str]:
    from argus.agent.answer import outcome_lines

    outcome = asyncio.run(table.agent.investigate(table.toolbox, table.case, question=rest, watch=_watch))
    yield from outcome_lines(outcome, book=table.toolbox.book)


COMMANDS: Mapping[str, Callable[[Table, str], Iterator[str]]] = {
    "/help": _help,
    "/tools": _tools,
    "/evidence": _evidence,
    "/why": _why,
    "/diagnose": _diagnose,
}


def _listed(table: Table) -> Iterator[str]:
    from argus.analytics.store import conversations

    if table.store is None:
        raise CliError("a recording keeps no conversations; --list needs a database")
    with table.store.read() as connection:
        found = conversations.conversations(connection, run=None, limit=MAX_LISTED)
    if not found:
        yield "no conversation yet"
    for one in found:
        about = f" incident {one.incident_id}" if one.incident_id else ""
        yield printable(f"{one.id}  run {one.run}{about}: {one.title}")
