"""`argus ask`: one question about a run or an incident, one answer whose numbers can be opened."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from argus.agent.wording import printable
from argus.api.cli.conversing import Memory, Table, add_common, open_table, say, step_text

if TYPE_CHECKING:
    from argus.agent.loop.course import Step

ANSWERED, WITHOUT_MODEL = 0, 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The question, what it is about, the form of the answer."""
    parser.add_argument(
        "question",
        nargs="?",
        default="",
        help="in plain words; without one the incident is investigated whole",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """0 answered, or no model is set up; 1 the model failed and the triage stands alone."""
    table = open_table(args)
    is_shown = sys.stderr.isatty() and not args.json

    def watch(step: Step) -> None:
        if is_shown and (text := step_text(step)):
            print(printable(text), file=sys.stderr)

    if args.question.strip():
        body, lines, failure = _answered(table, args.question, watch)
    else:
        body, lines, failure = _investigated(table, watch)
    if args.json:
        print(json.dumps(body))
    else:
        from argus.agent.answer import card_of

        say([card_of(table.case, color=sys.stdout.isatty()), "", *lines])
    return WITHOUT_MODEL if failure and table.agent.endpoint is not None else ANSWERED


def _answered(table: Table, question: str, watch: Any) -> tuple[dict[str, Any], list[str], str]:
    from argus.agent.answer import answer_lines

    answer = asyncio.run(table.agent.answer(table.toolbox, table.case, question=question, watch=watch))
    memory = Memory(table)
    memory.add(question, answer.to_json())
    body = {
        "question": question,
        "answer": answer.to_json(),
        "diagnosis": dict(table.case.diagnosis),
        "conversation": memory.id if table.store is not None else None,
    }
    return body, list(answer_lines(answer)), answer.failure


def _investigated(table: Table, watch: Any) -> tuple[dict[str, Any], list[str], str]:
    from argus.agent.answer import outcome_lines

    outcome = asyncio.run(table.agent.investigate(table.toolbox, table.case, watch=watch))
    lines = list(outcome_lines(outcome, book=table.toolbox.book))
    return outcome.to_json(), lines, outcome.failure
