"""A book of live trials, a line each as they end: a run of hours goes on from there after a stop, or is played in parts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from argus.api.cli.errors import CliError
from argus.evals.live.trial import Outcome, Plan

KEPT = ("fault", "workload", "rank", "ok", "got", "wanted", "windows", "seconds", "wall_s")
"""What the page shows of a trial; a line without one of them is of another file."""


def read(book: Path | None) -> list[dict[str, Any]]:
    """The trials of earlier runs, in their order, none if there is no file yet: it is begun. CliError if it is no such book,
    or cannot be written, which had better be known before a trial is played.

    A last line that was cut short by a stop is left out: its trial is played again.
    """
    if book is None:
        return []
    try:
        book.open("a", encoding="utf-8").close()
    except OSError as error:
        raise CliError(f"{book} cannot be written: {error.strerror}") from None
    try:
        whole, _, cut = book.read_text(encoding="utf-8").rpartition("\n")
        rows = [json.loads(line) for line in whole.splitlines()]
    except (OSError, ValueError) as error:
        raise CliError(f"{book} cannot be read as a book of live trials: {error!r:.100}") from None
    if (cut and not whole) or not all(isinstance(row, dict) and set(KEPT) <= set(row) for row in rows):
        raise CliError(f"{book} is no book of live trials: name a new file")
    if cut:
        book.write_text(whole + "\n", encoding="utf-8")
    return rows


def add(book: Path, outcome: Outcome) -> None:
    """One write a trial: what was written before a stop is whole lines."""
    try:
        with book.open("a", encoding="utf-8") as file:
            file.write(json.dumps(outcome.to_json()) + "\n")
    except OSError as error:
        raise CliError(f"{book} cannot be written: {error.strerror}") from None


def lacking(plans: Sequence[Plan], rows: Sequence[dict[str, Any]]) -> list[Plan]:
    """The plans but those of which the book has a trial, right or wrong: of each fault and workload the first ones."""
    played = Counter((row["fault"], row["workload"]) for row in rows)
    left = []
    for plan in plans:
        key = (plan.fault, plan.workload)
        if played[key]:
            played[key] -= 1
        else:
            left.append(plan)
    return left
