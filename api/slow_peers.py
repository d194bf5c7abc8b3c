"""Asks other hosts what the peers of a rank do whose step has been open for long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from argus.analytics.store import orders
from argus.analytics.store.intake import AttemptKey, AttemptRow
from argus.collectors.records.order import Order
from argus.collectors.records.stacks import LONG_OPEN_S, StackDump

EVERY_S = 30.0
"""Of one attempt: what its peers do in a long step changes slowly."""


def ask_peers(
    connection: Connection,
    dumps: Sequence[StackDump],
    *,
    attempts: Mapping[AttemptKey, AttemptRow],
    asked_s: dict[int, float],
    now_s: float,
) -> None:
    """Order a dump of the two nearest ranks on other hosts; the host itself took its own.

    `asked_s` remembers when that was last done for an attempt, by its id.
    """
    for dump in dumps:
        attempt = attempts[dump.run, dump.attempt]
        is_due = (
            not 0 <= now_s - asked_s.get(attempt.id, float("-inf")) < EVERY_S
        )  # or the clock was set back
        if dump.reason != "slow_step" or dump.open_s < LONG_OPEN_S or not is_due:
            continue
        asked_s[attempt.id] = now_s
        hosts = orders.hosts_of(connection, attempt.id)
        others = sorted((abs(rank - dump.rank), rank) for rank, host in hosts.items() if host != dump.host)
        peers = tuple(rank for _, rank in others[: orders.NUM_PEERS])
        if peers:
            order = Order(id=0, kind="burst", run=dump.run, attempt=dump.attempt, ranks=peers, seconds=1.0)
            orders.add_order(connection, attempt.id, order, now_s=now_s)
