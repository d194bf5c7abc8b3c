"""Rows of a metrics log in JSON: an object a line, or a list of objects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from argus.collectors.readers import ReaderError
from argus.collectors.readers._column_names import kind_of
from argus.collectors.readers._phase_table import phase_of
from argus.collectors.readers._step_table import Table

FIRST_LINES = 20
"""A log may begin with its settings; so many lines are looked at for a row."""

MAX_COLUMNS = 2000
_TIMED = {"duration", "time", "rate", "clock"}

Row = dict[str, object]


def begins_with_rows(head: str) -> bool:
    """Whether an object of the file's beginning tells of a step and of a time.

    >>> begins_with_rows('{"step": 1, "loss": 2.5, "step_time": 0.4}'), begins_with_rows('{"msg": "step", "time": 3}')
    (True, False)
    """
    text = head.lstrip("\ufeff \t\r\n")
    if text[:1] == "[":
        return _is_row(_first_object(text[1:]))
    return any(_is_row(_first_object(line)) for line in text.splitlines()[:FIRST_LINES])


def table_of_rows(text: str, file: str) -> tuple[Table, int]:
    """The objects that tell a step as a table of text, objects inside them by `outer/inner`; how many lines are no object.

    Raises ReaderError.
    """
    rows, num_odd = _rows(text, file)
    steps = {name for row in rows for name in row if kind_of(name) == "step"}
    rows = [row for row in rows if not steps.isdisjoint(row)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if len(names) > MAX_COLUMNS:
        raise ReaderError(f"{file} has rows of more than {MAX_COLUMNS:,} names, which is refused")
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    return Table(file=file, names=names, kinds=[kind_of(name) for name in names], rows=cells), num_odd


def _rows(text: str, file: str) -> tuple[list[Row], int]:
    body = text.lstrip("\ufeff \t\r\n")
    found: list[object]
    if body[:1] == "[":
        try:
            found = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise ReaderError(f"{file} is damaged JSON ({str(error)[:80]})") from None
    else:
        found = [_object(line) for line in body.splitlines() if line.strip()]
    rows = [dict(_flat(one)) for one in found if isinstance(one, dict)]
    return rows, len(found) - len(rows)


def _object(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _first_object(text: str) -> Row:
    try:
        raw = json.JSONDecoder().raw_decode(text.lstrip())[0]
    except (ValueError, RecursionError):
        return {}
    return dict(_flat(raw)) if isinstance(raw, dict) else {}


def _is_row(row: Mapping[str, object]) -> bool:
    kinds = {kind_of(name) for name in row}
    return "step" in kinds and (bool(kinds & _TIMED) or any(map(phase_of, row)))


def _flat(raw: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, value in raw.items():
        if isinstance(value, dict):
            yield from ((f"{name}/{inner}", one) for inner, one in value.items())
        else:
            yield name, value


def _cell(value: object) -> str:
    """Text as it is, a number in full, nothing for anything else."""
    if isinstance(value, str):
        return value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return repr(value) if is_number else ""
