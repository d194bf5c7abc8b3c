"""Orders that wait for their hosts, captures and what hosts sent for them."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, insert, select, text, update

from argus.analytics.incident import Incident
from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import insert_new, upsert
from argus.analytics.store.queries import Json
from argus.analytics.store.tables import CAPTURE_PARTS, CAPTURES, HEARTBEATS, ORDERS
from argus.collectors.records.order import MAX_STEP, Order
from argus.collectors.records.plan import WindowPlan

ORDER_S = 600.0
"""How long an order waits for a host that is out of reach."""

NUMBERS_PER_S = 1000
"""Orders that may be given in a second, all the time, before their numbers run ahead of the clock."""

PARTS_AT_ONCE = 16
"""Ranks' recordings deleted in one transaction, some tens of megabytes each."""

NUM_PEERS = 2
MAX_ONSET_WINDOWS = 3
"""Windows kept from the onset on; how a fault began is in them, that it goes on is in the summaries."""

MAX_SUSPECTS = 16
"""Ranks of an incident whose raw records are kept; of a fault of many hosts these are samples enough."""


def hosts_of(connection: Connection, attempt_id: int) -> dict[int, str]:
    """Host of each rank that was heard of."""
    rows = connection.execute(
        select(HEARTBEATS.c.rank, HEARTBEATS.c.host).where(HEARTBEATS.c.attempt_id == attempt_id)
    )
    return {row.rank: row.host for row in rows}


def add_order(connection: Connection, attempt_id: int, order: Order, *, now_s: float) -> tuple[str, ...]:
    """Put an order before every host that has one of its ranks, each told only of its own; returns them."""
    by_host: dict[str, list[int]] = {}
    hosts = hosts_of(connection, attempt_id)
    for rank in order.ranks:
        if rank in hosts:
            by_host.setdefault(hosts[rank], []).append(rank)
    if by_host and connection.dialect.name == "postgresql":
        # Hosts ask for what came after the last number they know: of two transactions the one that is committed last
        # must not have the lower numbers.
        connection.execute(text(f"LOCK TABLE {ORDERS.name} IN SHARE ROW EXCLUSIVE MODE"))
    # From the clock on: to hosts that know numbers of a database that was lost since, small ones would be past for ever.
    first = max(newest_order(connection) + 1, int(now_s * NUMBERS_PER_S)) if by_host else 0
    rows = [
        {
            "id": number,
            "host": host,
            "expires_s": now_s + ORDER_S,
            "body": dump({**order.to_json(), "ranks": ranks}),
        }
        for number, (host, ranks) in enumerate(sorted(by_host.items()), start=first)
    ]
    if rows:
        connection.execute(insert(ORDERS), rows)
    connection.execute(delete(ORDERS).where(ORDERS.c.expires_s < now_s))
    return tuple(sorted(by_host))


def newest_order(connection: Connection) -> int:
    """Number of the newest order, 0 if there is none: a cheap look before a wait goes on."""
    return connection.execute(select(func.max(ORDERS.c.id))).scalar() or 0


def orders_for(connection: Connection, host: str, *, after: int, now_s: float) -> list[Json]:
    """Orders of a host that came after number `after`, oldest first."""
    wanted = (ORDERS.c.host == host, ORDERS.c.id > after, ORDERS.c.expires_s >= now_s)
    rows = connection.execute(select(ORDERS).where(*wanted).order_by(ORDERS.c.id))
    return [{**load(row.body), "id": row.id} for row in rows]


def pin_of(incident: Incident, *, plan: WindowPlan, world_size: int) -> Order:
    """Keep the raw records of an incident's suspects and two healthy peers around its onset."""
    index = plan.index(max(incident.onset_step, 0))
    last = min(max(index + 1, incident.opened_window), index + MAX_ONSET_WINDOWS)
    first, end = plan.bounds(max(index - 1, 0))[0], plan.bounds(last)[1]
    ranks = ranks_of(incident, world_size=world_size)
    return Order(
        id=0,
        kind="pin",
        run=incident.run,
        attempt=incident.attempt,
        ranks=ranks,
        first_step=first,
        end_step=min(end, MAX_STEP),
    )


def ranks_of(incident: Incident, *, world_size: int) -> tuple[int, ...]:
    """Suspects, then the two nearest ranks that are no suspects, those that are no victims first."""
    suspects = incident.cause.suspects[:MAX_SUSPECTS]
    near = suspects[0] if suspects else 0
    accused = set(incident.cause.suspects)
    others = [rank for rank in range(world_size) if rank not in accused]
    victims = set(incident.cause.victims)
    others.sort(key=lambda rank: (rank in victims, abs(rank - near), rank))
    return (*suspects, *others[:NUM_PEERS])


def add_capture(
    connection: Connection, attempt_id: int, order: Order, *, incident: str | None, now_s: float
) -> tuple[str, ...]:
    """Note a capture and order it from its hosts; returns them."""
    body = {
        "run": order.run,
        "attempt": order.attempt,
        "ranks": order.ranks,
        "first_step": order.first_step,
        "end_step": order.end_step,
        "incident": incident,
    }
    row = {"id": order.capture, "attempt_id": attempt_id, "created_s": now_s, "body": dump(body)}
    connection.execute(insert_new(connection, CAPTURES), [row])
    return add_order(connection, attempt_id, order, now_s=now_s)


def add_part(connection: Connection, capture: str, rank: int, *, body: bytes, now_s: float) -> bool:
    """Keep what a host sent of a rank; False if nobody asked for it."""
    row = connection.execute(select(CAPTURES.c.body).where(CAPTURES.c.id == capture)).one_or_none()
    if row is None or rank not in load(row.body)["ranks"]:
        return False
    part = {"capture_id": capture, "rank": rank, "received_s": now_s, "body": body}
    connection.execute(upsert(connection, CAPTURE_PARTS, set_=("received_s", "body")), [part])
    return True


def capture(connection: Connection, capture_id: str) -> Json | None:
    """A capture and which of its ranks are in, with the bytes each sent."""
    row = connection.execute(select(CAPTURES).where(CAPTURES.c.id == capture_id)).one_or_none()
    if row is None:
        return None
    sizes = select(CAPTURE_PARTS.c.rank, func.length(CAPTURE_PARTS.c.body).label("bytes"))
    parts = connection.execute(sizes.where(CAPTURE_PARTS.c.capture_id == capture_id))
    bytes_of = {part.rank: part.bytes for part in parts}
    return {"id": row.id, "created_s": row.created_s, **load(row.body), "bytes": bytes_of}


def part_of(connection: Connection, capture_id: str, rank: int) -> bytes | None:
    """What a host sent of a rank."""
    here = (CAPTURE_PARTS.c.capture_id == capture_id, CAPTURE_PARTS.c.rank == rank)
    return connection.execute(select(CAPTURE_PARTS.c.body).where(*here)).scalar_one_or_none()


def prune_captures(connection: Connection, *, before_s: float, max_bytes: int) -> bool:
    """Delete a part of the captures made before `before_s`, then of the oldest beyond `max_bytes`.

    True if there may be more to delete.
    """
    total = select(func.coalesce(func.sum(func.length(CAPTURE_PARTS.c.body)), 0))
    oldest = connection.execute(
        select(CAPTURES.c.id, CAPTURES.c.created_s).order_by(CAPTURES.c.created_s, CAPTURES.c.id).limit(1)
    ).one_or_none()
    if oldest is None:
        return False
    if oldest.created_s >= before_s and connection.execute(total).scalar_one() <= max_bytes:
        return False
    mine = CAPTURE_PARTS.c.capture_id == oldest.id
    some = select(CAPTURE_PARTS.c.rank).where(mine).order_by(CAPTURE_PARTS.c.rank).limit(PARTS_AT_ONCE)
    ranks = list(connection.execute(some).scalars())
    connection.execute(delete(CAPTURE_PARTS).where(mine, CAPTURE_PARTS.c.rank.in_(ranks)))
    here = CAPTURES.c.id == oldest.id
    if len(ranks) < PARTS_AT_ONCE:
        connection.execute(delete(CAPTURES).where(here))
    else:  # old for certain: half a capture would pass for one whose hosts are silent
        connection.execute(update(CAPTURES).where(here).values(created_s=0.0))
    return True


def last_windows(plan: WindowPlan, *, highest_step: int, num: int) -> tuple[int, int]:
    """First step and end of the last `num` windows up to the step a job is at.

    >>> last_windows(WindowPlan(), highest_step=57, num=3)
    (30, 60)
    """
    index = plan.index(max(highest_step, 0))
    return plan.bounds(max(index - max(num, 1) + 1, 0))[0], plan.bounds(index)[1]
