"""`argus ask`: one question about a run or an incident, one answer whose numbers can be opened."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from argus.agent.wording import printable
from argus.api.cli.conversing import Talking, add_common, open_talk, say, step_text

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
    talking = open_talk(args)
    is_shown = sys.stderr.isatty() and not args.json

    def watch(step: Step) -> None:
        if is_shown and (text := step_text(step)):
            print(printable(text), file=sys.stderr)

    if not args.json:  # the triage's answer is there already: nobody waits for a model to see it
        say([talking.case["card"], ""])
    asked = _answered if args.question.strip() else _investigated
    body, lines, failure = asked(talking, args.question, watch)
    if args.json:
        print(json.dumps(body))
    else:
        say(lines)
    return WITHOUT_MODEL if failure and talking.case["has_model"] else ANSWERED


def _answered(talking: Talking, question: str, watch: Any) -> tuple[dict[str, Any], list[str], str]:
    from argus.agent.answer import answer_lines

    answer = talking.answer(question, watch=watch)
    body = {
        "question": question,
        "answer": answer.to_json(),
        "diagnosis": talking.case["diagnosis"],
        "conversation": talking.conversation,
    }
    return body, list(answer_lines(answer, has_card=True)), answer.failure


def _investigated(talking: Talking, question: str, watch: Any) -> tuple[dict[str, Any], list[str], str]:
    from argus.agent.answer import outcome_lines

    outcome = talking.investigate(question, watch=watch)
    return outcome.to_json(), list(outcome_lines(outcome, book=talking.pages)), outcome.failure
