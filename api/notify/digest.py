"""Digests: what was too much for messages of its own, and once a day what healed by itself."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, select

from argus.agent.wording import ranks
from argus.analytics.incident import Incident
from argus.analytics.store import notices
from argus.analytics.store.desk_tables import NOTICES
from argus.analytics.store.incidents import read_incident
from argus.analytics.store.notices import DIGESTED
from argus.analytics.store.tables import INCIDENTS
from argus.api.notify.notifier import Digest, DigestLine
from argus.api.notify.pace import Pace

OVERFLOW, DAILY = "overflow", "daily"
MAX_INCIDENTS = 1000
MAX_LINES = 20
"""Lines of a digest; the rest is counted in the last one."""

DAY_S = 86400.0


def due(connection: Connection, notifier: str, *, pace: Pace, can_edit: bool, now_s: float) -> list[Digest]:
    """The digests of now, the same until something new belongs in them, and those that could not be told in their time.

    Where a message cannot be edited, the digest of a stretch of time comes when that is over.
    """
    window_s = pace.window_s
    starts = _untold(connection, notifier, window_s=window_s, can_edit=can_edit, now_s=now_s)
    found = [
        overflow(connection, notifier, since_s=since_s, window_s=window_s, now_s=now_s) for since_s in starts
    ]
    found.append(daily(connection, notifier, hour=pace.digest_hour, now_s=now_s))
    return [one for one in found if one is not None]


def _untold(
    connection: Connection, notifier: str, *, window_s: float, can_edit: bool, now_s: float
) -> list[float]:
    """Where the stretches of the last day begin of which not all is told; the one of now if it can be edited."""
    start_s = now_s // window_s * window_s
    wanted = (
        NOTICES.c.notifier == notifier,
        NOTICES.c.status == DIGESTED,
        NOTICES.c.delivered_s >= now_s - DAY_S,
    )
    latest: dict[float, float] = {}
    for at_s in connection.execute(select(NOTICES.c.delivered_s).where(*wanted)).scalars():
        since_s = at_s // window_s * window_s
        latest[since_s] = max(latest.get(since_s, at_s), at_s)
    starts = [start_s] if can_edit else []
    for since_s in sorted(since_s for since_s in latest if since_s < start_s):
        known = notices.notice(connection, notifier, _topic(since_s))
        if known is None or not known.is_final or known.delivered_s < latest[since_s]:
            starts.append(since_s)
    return starts


def _topic(since_s: float) -> str:
    return f"{OVERFLOW}:{int(since_s)}"


def told_of(digest: Digest) -> str:
    """What a digest says, as a short key: it is told again when that changes."""
    text = repr([(line.run, line.text, line.count) for line in digest.lines])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def overflow(
    connection: Connection, notifier: str, *, since_s: float, window_s: float, now_s: float
) -> Digest | None:
    """What was too much in the stretch of time from `since_s`; None if nothing was."""
    wanted = (
        NOTICES.c.notifier == notifier,
        NOTICES.c.status == DIGESTED,
        NOTICES.c.delivered_s >= since_s,
        NOTICES.c.delivered_s < since_s + window_s,
    )
    ids = list(connection.execute(select(NOTICES.c.incident_id).where(*wanted)).scalars())
    if not ids:
        return None
    lines = _lines(_incidents(connection, ids))
    num = sum(line.count for line in lines)
    what = "incident" if num == 1 else "incidents"
    return Digest(topic=_topic(since_s), title=f"{num} more {what}", lines=lines, now_s=now_s)


def daily(connection: Connection, notifier: str, *, hour: int, now_s: float) -> Digest | None:
    """What healed by itself in the day before the last `hour` UTC without anybody being told."""
    now = datetime.fromtimestamp(now_s, tz=UTC)
    end = now.replace(hour=hour, minute=0, second=0, microsecond=0)
    if end > now:
        end -= timedelta(days=1)
    topic = f"{DAILY}:{end.date().isoformat()}"
    known = notices.notice(connection, notifier, topic)
    if known is not None and known.is_final:
        return None
    until_s = end.timestamp()
    healed = _healed(connection, since_s=until_s - DAY_S, until_s=until_s)
    told = notices.told_incidents(connection, notifier, [one.id for one in healed])
    quiet = [one for one in healed if one.id not in told]
    title = f"{len(quiet)} short disturbances healed by themselves since {end - timedelta(days=1):%d %b %H:%M} UTC"
    return Digest(topic=topic, title=title, lines=_lines(quiet), now_s=now_s)


def _healed(connection: Connection, *, since_s: float, until_s: float) -> list[Incident]:
    wanted = (
        INCIDENTS.c.status == "resolved",
        INCIDENTS.c.updated_s >= since_s,
        INCIDENTS.c.updated_s < until_s,
    )
    rows = connection.execute(
        select(INCIDENTS).where(*wanted).order_by(INCIDENTS.c.updated_s).limit(MAX_INCIDENTS)
    )
    return [read_incident(row._mapping) for row in rows]


def _incidents(connection: Connection, ids: Sequence[str]) -> list[Incident]:
    rows = connection.execute(
        select(INCIDENTS).where(INCIDENTS.c.id.in_(ids[:MAX_INCIDENTS])).order_by(INCIDENTS.c.opened_s)
    )
    return [read_incident(row._mapping) for row in rows]


def _lines(incidents: Sequence[Incident]) -> tuple[DigestLine, ...]:
    """One line per run, class and suspects, the most frequent first."""
    counts = Counter((one.run, f"{one.cause.fault_class}: {ranks(one.cause.suspects)}") for one in incidents)
    lines = [DigestLine(run=run, text=text, count=num) for (run, text), num in counts.most_common()]
    rest = lines[MAX_LINES:]
    if rest:
        more = DigestLine(run="", text=f"and {len(rest)} other causes", count=sum(one.count for one in rest))
        lines = [*lines[:MAX_LINES], more]
    return tuple(lines)
