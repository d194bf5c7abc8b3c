"""`argus chat`: a conversation about a run or an incident, the deterministic card first."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from argus.agent.wording import printable
from argus.api.cli.conversing import Talking, add_common, open_talk, say, step_text
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
    """Card, then questions until the end of the input; not 0 if one of them came to nothing."""
    talking = open_talk(args, conversation=args.resume)
    if args.list:
        say(list(_listed(talking)))
        return 0
    say([talking.case["card"], ""])
    if not talking.case["has_model"]:
        from argus.agent.loop.investigate import NO_MODEL

        say([NO_MODEL, "Commands work without one; /help lists them."])
    code = 0
    while (line := _line()) is not None:
        try:
            if _is_end(talking, line):
                break
        except KeyboardInterrupt:  # a question that takes too long, not the end of the chat
            say(["stopped"])
        except CliError as error:  # of this question; the next may do, and what was said before is kept
            code = error.code
            print(f"argus chat: {printable(str(error))}", file=sys.stderr)
    if talking.conversation is not None:
        say([f"kept: argus chat --resume {talking.conversation}"])
    return code


def _line() -> str | None:
    """The next line of input, None at its end."""
    try:
        return input(PROMPT if sys.stdin.isatty() else "").strip()
    except (EOFError, KeyboardInterrupt):
        return None


def _is_end(talking: Talking, line: str) -> bool:
    word, _, rest = line.partition(" ")
    if word in ("/quit", "/exit"):
        return True
    if word in COMMANDS:
        say(list(COMMANDS[word](talking, rest.strip())))
    elif word.startswith("/"):
        say([f"no command {word!r}", HELP])
    elif line:
        _ask(talking, line)
    return False


def _ask(talking: Talking, question: str) -> None:
    from argus.agent.answer import answer_lines

    say(list(answer_lines(talking.answer(question, watch=_watch))))


def _watch(step: Step) -> None:
    if text := step_text(step):
        print(printable(text), flush=True)


def _help(talking: Talking, rest: str) -> Iterator[str]:
    yield HELP


def _tools(talking: Talking, rest: str) -> Iterator[str]:
    from argus.agent.registry import registry

    for tool in registry().tools.values():
        if tool.read_only:
            yield f"  {tool.name}: {' '.join(tool.description.split())}"


def _evidence(talking: Talking, rest: str) -> Iterator[str]:
    found = talking.pages.get(rest) if rest else None
    if found is None:
        yield f"no evidence {rest!r}: ids begin with ev- and stand behind each call above"
    else:
        yield printable(json.dumps(found.to_json(), indent=1))


def _why(talking: Talking, rest: str) -> Iterator[str]:
    yield from talking.case["why"]


def _diagnose(talking: Talking, rest: str) -> Iterator[str]:
    from argus.agent.answer import outcome_lines

    outcome = talking.investigate(rest, watch=_watch)
    yield from outcome_lines(outcome, book=talking.pages)


COMMANDS: Mapping[str, Callable[[Talking, str], Iterator[str]]] = {
    "/help": _help,
    "/tools": _tools,
    "/evidence": _evidence,
    "/why": _why,
    "/diagnose": _diagnose,
}


def _listed(talking: Talking) -> Iterator[str]:
    found = talking.earlier(limit=MAX_LISTED)
    if not found:
        yield "no conversation yet"
    for one in found:
        about = f" incident {one['incident_id']}" if one["incident_id"] else ""
        yield printable(f"{one['id']}  run {one['run']}{about}: {one['title']}")
