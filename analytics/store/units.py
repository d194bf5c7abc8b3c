"""On what hardware ranks of an attempt run, as their layout records say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select

from argus.analytics.store.documents import load
from argus.analytics.store.intake import CHUNK
from argus.analytics.store.tables import LAYOUTS


def units_of_ranks(
    connection: Connection, attempt_id: int, ranks: Sequence[int]
) -> Mapping[int, tuple[str, str]]:
    """Host and device of each rank that is known, where it was last; a rank without a GPU has the device ""."""
    here = (LAYOUTS.c.attempt_id == attempt_id, LAYOUTS.c.rank.in_(ranks[:CHUNK]))
    columns = (LAYOUTS.c.rank, LAYOUTS.c.host, LAYOUTS.c.body)
    rows = connection.execute(select(*columns).where(*here).order_by(LAYOUTS.c.received_s))
    return {row.rank: (row.host, str(load(row.body).get("device", ""))) for row in rows}
