"""Asking hosts for something: bursts of stacks, raw records of chosen ranks and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from secrets import token_hex

from sqlalchemy import Connection, select

from argus.analytics.store import orders, queries
from argus.analytics.store.intake import attempt_row
from argus.analytics.store.queries import Which
from argus.analytics.store.tables import ATTEMPTS
from argus.api.service import Service
from argus.collectors.records.order import Order


class Refused(ValueError):
    """What was asked for cannot be had; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """A run's ranks over its last windows."""

    which: Which
    ranks: Sequence[int]
    last: int


def capture_incident(service: Service, incident_id: str) -> queries.Json | None:
    """Order the raw records around an incident's onset; None if there is no such incident. Raises Refused."""
    with service.store.write() as connection:
        incident = queries.whole_incident(connection, incident_id)
        if incident is None:
            return None
        which = queries.attempt_of_incident(connection, incident_id)
        assert which is not None, incident
        if which.run != incident.run:
            raise Refused(
                f"run {incident.run!r} was launched again: its hosts keep records of that launch now"
            )
        row = attempt_row(
            connection.execute(select(ATTEMPTS).where(ATTEMPTS.c.id == which.id)).one()._mapping
        )
        order = orders.pin_of(incident, plan=row.plan, world_size=row.world_size)
        return _capture(service, connection, which, order=order, incident=incident_id)


def capture_ranks(service: Service, wanted: Wanted) -> queries.Json:
    """Order the raw records of ranks over the last windows."""
    with service.store.write() as connection:
        here = ATTEMPTS.c.id == wanted.which.id
        row = attempt_row(connection.execute(select(ATTEMPTS).where(here)).one()._mapping)
        first, end = orders.last_windows(row.plan, highest_step=row.highest_step, num=wanted.last)
        order = Order(
            id=0,
            kind="capture",
            run=row.run,
            attempt=row.attempt,
            ranks=tuple(sorted(set(wanted.ranks))),
            first_step=first,
            end_step=end,
        )
        return _capture(service, connection, wanted.which, order=order, incident=None)


def burst(
    service: Service, which: Which, *, ranks: Sequence[int], seconds: float, is_native: bool
) -> list[str]:
    """Order stack dumps of ranks, each second for a while; the hosts that were told."""
    with service.store.write() as connection:
        order = Order(
            id=0,
            kind="burst",
            run=which.run,
            attempt=which.attempt,
            ranks=tuple(sorted(set(ranks) or orders.hosts_of(connection, which.id))),
            seconds=seconds,
            is_native=is_native,
        )
        hosts = orders.add_order(connection, which.id, order, now_s=service.clock())
    if not hosts:
        raise Refused(f"no host of run {which.run!r} has these ranks")
    return list(hosts)


def _capture(
    service: Service, connection: Connection, which: Which, *, order: Order, incident: str | None
) -> queries.Json:
    now_s = service.clock()
    order = Order(**{**order.to_json(), "kind": "capture", "capture": f"c-{token_hex(8)}"})
    hosts = orders.add_capture(connection, which.id, order, incident=incident, now_s=now_s)
    if not hosts:
        raise Refused(f"no host of run {order.run!r} has ranks {list(order.ranks)}")
    found = orders.capture(connection, order.capture)
    assert found is not None
    return {**found, "hosts": list(hosts)}
