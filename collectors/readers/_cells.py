"""Numbers out of the cells of a table: units, decimal commas, clocks and what is missing."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from argus.collectors.readers._column_names import SECONDS

MAX_NUMBER = 1e15
_SIGNS = frozenset("+-0123456789")
_MISSING = {"", "nan", "null", "none", "na", "n/a", "-", "inf", "-inf", "infinity", "-infinity"}
_COMMA = re.compile(r"[-+]?\d+,\d+")
_GROUPED = re.compile(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?")
_POINTED = re.compile(r"[-+]?\d{1,3}(\.\d{3})+,\d")
_SPACED = re.compile(
    r"[-+]?\d{1,3}(?:[ \u00a0\u2009\u202f'\u2019]\d{3})+(?:[.,]\d*)?(?: ?[a-zµ]+)?", re.IGNORECASE
)
_SPACES = re.compile(r"(?<=\d)[ \u00a0\u2009\u202f'\u2019](?=\d)")
_WITH_UNIT = re.compile(r"([-+]?\d[\d.]*(?:[eE][-+]?\d+)?) ?([a-zµ]+)")


def is_missing(cell: str) -> bool:
    """Whether a cell says that there is no value."""
    return cell.strip().lower() in _MISSING


def plain(cell: str) -> float:
    """The number in a cell, NaN for anything else."""
    try:
        value = float(cell)
    except ValueError:
        return math.nan
    return value if abs(value) < MAX_NUMBER else math.nan


def seconds(cell: str, scale: float = 1.0) -> float:
    """A number of units of `scale` seconds, or a number with its own unit; NaN for anything else.

    >>> seconds("980", 1e-3), seconds("980 ms"), seconds("fast")
    (0.98, 0.98, nan)
    """
    match = _WITH_UNIT.fullmatch(cell.strip().lower())
    if match and match[2] in SECONDS:
        return plain(match[1]) * SECONDS[match[2]]
    return plain(cell) * scale


def moment(cell: str, scale: float = 1.0) -> float:
    """A time of day in seconds: a number, or a date and time by ISO 8601 (UTC if it names no zone)."""
    value = seconds(cell, scale)
    if math.isfinite(value) or is_missing(cell):
        return value
    try:
        when = datetime.fromisoformat(cell.strip())
    except ValueError:
        return math.nan
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def with_points(cells: Sequence[str]) -> list[str]:
    """A column's cells with a point for a decimal comma; commas, points, blanks and apostrophes between thousands go.

    Points are thousands' where some cell has a comma behind them. Commas are where all are followed by three digits and some cells are whole without one: a column of
    decimals drops trailing zeros as well, so that other lengths show.
    """
    if _SPACES.search("\n".join(cells)):
        cells = [_SPACES.sub("", cell) if _SPACED.fullmatch(cell.strip()) else cell for cell in cells]
    odd = [cell.strip() for cell in cells if "," in cell]
    if not odd:
        return list(cells)
    if any(map(_POINTED.match, odd)):
        return [
            cell.replace(".", "").replace(",", ".") if cell.strip()[:1] in _SIGNS else cell for cell in cells
        ]
    has_whole = any(cell.strip().isdecimal() for cell in cells)
    if all(map(_GROUPED.fullmatch, odd)) and (has_whole or any("." in c or c.count(",") > 1 for c in odd)):
        return [cell.replace(",", "") for cell in cells]
    return [cell.replace(",", ".") if _COMMA.match(cell.strip()) else cell for cell in cells]


def resolution(cells: Sequence[str], scale: float = 1.0) -> float:
    """Seconds between two times that the written digits of a clock tell apart."""
    digits = max((len(m[1]) for cell in cells if (m := re.search(r"\.(\d+)", cell))), default=0)
    return float(10.0**-digits * scale)
