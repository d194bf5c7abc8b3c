"""Cells of a table that say something, but no number: each column's are told, for they leave gaps in its times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from argus.collectors.readers._cells import moment
from argus.collectors.readers._step_table import Table

LAWFUL = frozenset({"", "nan", "null", "none", "na"})
"""What tools write into the rows of a metric that was not logged there."""

MAX_SHOWN, MAX_CELL = 3, 20


def gaps(table: Table, columns: Iterable[int]) -> Iterator[str]:
    """A sentence for each column with such cells beside numbers; one without a number is no column of times."""
    for column in dict.fromkeys(columns):
        cells = [cell.strip() for cell in table.cells(column)]
        odd = [cell for cell in cells if cell.lower() not in LAWFUL and not math.isfinite(moment(cell))]
        if not odd or not any(math.isfinite(moment(cell)) for cell in cells):
            continue
        kinds = list(dict.fromkeys(cell[:MAX_CELL] for cell in odd))
        shown = ", ".join(map(repr, kinds[:MAX_SHOWN])) + (", …" if len(kinds) > MAX_SHOWN else "")
        name = table.title(column)[:60]
        are = "is no number" if len(odd) == 1 else "are no numbers"
        yield f"{table.file}: {len(odd)} of {len(cells)} cells of {name!r} {are} and left out ({shown})"
