"""On what hardware ranks of an attempt run, as their layout records say; and what hosts there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select, union

from argus.analytics.store.documents import load
from argus.analytics.store.history_tables import BOUTS, UNIT_DAYS
from argus.analytics.store.intake import CHUNK
from argus.analytics.store.tables import HOSTS, LAYOUTS


def units_of_ranks(
    connection: Connection, attempt_id: int, ranks: Sequence[int]
) -> Mapping[int, tuple[str, str]]:
    """Host and device of each rank that is known, where it was last; a rank without a GPU has the device ""."""
    here = (LAYOUTS.c.attempt_id == attempt_id, LAYOUTS.c.rank.in_(ranks[:CHUNK]))
    columns = (LAYOUTS.c.rank, LAYOUTS.c.host, LAYOUTS.c.body)
    rows = connection.execute(select(*columns).where(*here).order_by(LAYOUTS.c.received_s))
    return {row.rank: (row.host, str(load(row.body).get("device", ""))) for row in rows}


def known_hosts(connection: Connection) -> tuple[str, ...]:
    """Every host that a rank was seen on, that has a processor, or that is remembered."""
    names = union(*(select(table.c.host) for table in (LAYOUTS, HOSTS, UNIT_DAYS, BOUTS)))
    return tuple(sorted(connection.execute(names).scalars()))
