"""What is wanted of the hosts, and what their processors say of themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, select

from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import upsert
from argus.analytics.store.intake import CHUNK
from argus.analytics.store.queries import Json
from argus.analytics.store.tables import HOSTS, SWITCHES
from argus.collectors.records.report import Report


def save_reports(
    connection: Connection, reports: Sequence[Report], *, texts: Sequence[str] = (), now_s: float
) -> None:
    """Keep the latest report of each host's processor; of several of one host, the last.

    `texts` are their documents, where the caller has them.
    """
    documents = texts or [dump(report.to_json()) for report in reports]
    rows = {
        report.host: {"host": report.host, "received_s": now_s, "body": document}
        for report, document in zip(reports, documents, strict=True)
    }
    if rows:
        statement = upsert(connection, HOSTS, set_=("received_s", "body"))
        connection.execute(statement, [rows[host] for host in sorted(rows)])


def reports(connection: Connection, hosts: Sequence[str]) -> dict[str, Json]:
    """The latest report of each host, with the time it came in."""
    found = {}
    for start in range(0, len(hosts), CHUNK):
        part = HOSTS.c.host.in_(hosts[start : start + CHUNK])
        for row in connection.execute(select(HOSTS).where(part)):
            found[row.host] = {**load(row.body), "received_s": row.received_s}
    return found


def switch(connection: Connection, run: str, *, is_off: bool, now_s: float) -> None:
    """Have a run's collection off or on."""
    row = {"run": run, "is_off": is_off, "at_s": now_s}
    connection.execute(upsert(connection, SWITCHES, set_=("is_off", "at_s")), [row])


def switches(connection: Connection, runs: Iterable[str]) -> dict[str, bool]:
    """Of runs that were ever switched: whether they are off."""
    wanted = sorted(set(runs))
    found = {}
    for start in range(0, len(wanted), CHUNK):
        part = SWITCHES.c.run.in_(wanted[start : start + CHUNK])
        for row in connection.execute(select(SWITCHES).where(part)):
            found[row.run] = bool(row.is_off)
    return found


def try_write(connection: Connection, *, now_s: float) -> None:
    """Change a row that is of no run, only to see whether that can be done."""
    switch(connection, "", is_off=False, now_s=now_s)
