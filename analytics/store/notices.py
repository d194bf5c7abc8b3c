"""What each notifier has told: claimed by one service at a time, so that nothing is told twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, func, or_, select, update

from argus.analytics.store.desk_tables import NOTICES
from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import insert_new
from argus.analytics.store.queries import Json

NEW, POSTED, DIGESTED = "new", "posted", "digested"

FOR = "for"
"""In what a notifier holds: the incident that its message is about."""


@dataclass(frozen=True, kw_only=True)
class Notice:
    """What a notifier has told of one topic. `held` is the notifier's own: where its message is.

    `is_doubtful`: a message was begun, and how much of it went out is not known.
    """

    notifier: str
    topic: str
    incident_id: str | None = None
    status: str = NEW
    severity: str = ""
    told: str = ""
    held: Json = field(default_factory=dict)
    times: int = 0
    posted_s: float | None = None
    delivered_s: float = 0.0
    is_final: bool = False
    is_doubtful: bool = False
    tries: int = 0
    next_s: float = 0.0
    error: str = ""


def notices(connection: Connection, *, notifier: str | None = None) -> list[Notice]:
    """Everything told, by one notifier or by all, the latest first."""
    wanted = () if notifier is None else (NOTICES.c.notifier == notifier,)
    rows = connection.execute(
        select(NOTICES).where(*wanted).order_by(NOTICES.c.delivered_s.desc(), NOTICES.c.topic)
    )
    return [_notice(row._mapping) for row in rows]


def notice(connection: Connection, notifier: str, topic: str) -> Notice | None:
    """One of them; None if there is none."""
    row = connection.execute(select(NOTICES).where(*_here(notifier, topic))).one_or_none()
    return None if row is None else _notice(row._mapping)


def claim(
    connection: Connection,
    notifier: str,
    topic: str,
    *,
    told: str,
    about: str,
    is_anew: bool = False,
    owner: str,
    now_s: float,
    lease_s: float,
    rest_s: float,
) -> Notice | None:
    """Take a topic on, if it is still as it was seen (`told`) and nobody else has it; None if not.

    It is noted what is being told of: of that the end is told, too, should nobody know how far this came. Where a
    message `is_anew`, nothing is held any more of one about something else.

    Nothing is put off for longer than `rest_s`: a time that lies further ahead was written before the clock was put
    back, and so was a claim for more than twice `lease_s`, as the clocks of two services may differ.
    """
    connection.execute(insert_new(connection, NOTICES), [_blank(notifier, topic, now_s=now_s)])
    is_free = (
        NOTICES.c.told == told,
        ~NOTICES.c.claimed_until_s.between(now_s, now_s + 2 * lease_s),
        or_(NOTICES.c.next_s <= now_s, NOTICES.c.next_s > now_s + rest_s),
    )
    taken = connection.execute(
        update(NOTICES)
        .where(*_here(notifier, topic), *is_free)
        .values(claimed_by=owner, claimed_until_s=now_s + lease_s)
    )
    if not taken.rowcount:
        return None
    found = notice(connection, notifier, topic)
    assert found is not None
    return _begin(connection, found, about=about, is_anew=is_anew)


def _begin(connection: Connection, found: Notice, *, about: str, is_anew: bool) -> Notice:
    kept = {} if is_anew and found.held.get(FOR) != about else found.held
    begun = replace(found, held={**kept, FOR: about})
    values = {"is_sending": True, "held": dump(begun.held)}
    connection.execute(update(NOTICES).where(*_here(found.notifier, found.topic)).values(**values))
    return begun


def _blank(notifier: str, topic: str, *, now_s: float) -> dict[str, object]:
    """The row of a topic of which nothing was told yet."""
    return {
        "notifier": notifier,
        "topic": topic,
        "incident_id": None,
        "status": NEW,
        "severity": "",
        "told": "",
        "held": dump({}),
        "times": 0,
        "posted_s": None,
        "delivered_s": now_s,
        "is_final": False,
        "claimed_by": "",
        "claimed_until_s": 0.0,
        "is_sending": False,
        "tries": 0,
        "next_s": 0.0,
        "error": "",
    }


def keep_held(connection: Connection, notifier: str, topic: str, *, owner: str, held: Json) -> bool:
    """Keep what the notifier holds, at once; False if the topic is somebody else's by now."""
    done = connection.execute(
        update(NOTICES).where(*_here(notifier, topic), NOTICES.c.claimed_by == owner).values(held=dump(held))
    )
    return bool(done.rowcount)


def finish(connection: Connection, done: Notice, *, owner: str) -> None:
    """What was told; the topic is free again."""
    values = {
        "incident_id": done.incident_id,
        "status": done.status,
        "severity": done.severity,
        "told": done.told[:256],
        "held": dump(done.held),
        "times": done.times,
        "posted_s": done.posted_s,
        "delivered_s": done.delivered_s,
        "is_final": done.is_final,
        "is_sending": False,
        "claimed_by": "",
        "claimed_until_s": 0.0,
        "tries": 0,
        "next_s": 0.0,
        "error": "",
    }
    here = (*_here(done.notifier, done.topic), NOTICES.c.claimed_by == owner)
    connection.execute(update(NOTICES).where(*here).values(**values))


def put_off(
    connection: Connection,
    notifier: str,
    topic: str,
    *,
    owner: str,
    error: str,
    next_s: float,
    is_doubtful: bool,
) -> None:
    """It could not be told; try again at `next_s`."""
    connection.execute(
        update(NOTICES)
        .where(*_here(notifier, topic), NOTICES.c.claimed_by == owner)
        .values(
            claimed_by="",
            claimed_until_s=0.0,
            is_sending=is_doubtful,
            tries=NOTICES.c.tries + 1,
            next_s=next_s,
            error=error[:500],
        )
    )


def digest_silently(connection: Connection, done: Notice, *, told: str) -> bool:
    """A topic that only stands in a digest, if it is still as it was seen (`told`); False if it is not."""
    blank: dict[str, Any] = {
        "notifier": done.notifier,
        "topic": done.topic,
        "incident_id": done.incident_id,
        "status": DIGESTED,
        "severity": done.severity,
        "told": done.told,
        "held": dump({}),
        "times": done.times,
        "posted_s": None,
        "delivered_s": done.delivered_s,
        "is_final": False,
        "claimed_by": "",
        "claimed_until_s": 0.0,
        "is_sending": False,
        "tries": 0,
        "next_s": 0.0,
        "error": "",
    }
    fresh = connection.execute(insert_new(connection, NOTICES), [blank])
    if fresh.rowcount:
        return True
    is_free = (NOTICES.c.claimed_until_s < done.delivered_s, NOTICES.c.told == told)
    here = _here(done.notifier, done.topic)
    return bool(connection.execute(update(NOTICES).where(*here, *is_free).values(**blank)).rowcount)


def num_posted(connection: Connection, notifier: str, *, since_s: float, until_s: float) -> int:
    """Messages of their own between then and now, not those of a time that a clock put back has before it again."""
    wanted = (NOTICES.c.notifier == notifier, NOTICES.c.posted_s > since_s, NOTICES.c.posted_s <= until_s)
    return int(connection.execute(select(func.count()).select_from(NOTICES).where(*wanted)).scalar_one())


def begun(connection: Connection) -> frozenset[str]:
    """What is being told of, or was without that anybody knows how far it came; by any notifier."""
    rows = connection.execute(select(NOTICES.c.held).where(NOTICES.c.is_sending.is_(True))).scalars()
    return frozenset(str(load(held).get(FOR, "")) for held in rows)


def told_incidents(connection: Connection, notifier: str, ids: Sequence[str]) -> frozenset[str]:
    """Which of these incidents the notifier told of, in a message of their own or in a digest."""
    wanted = (NOTICES.c.notifier == notifier, NOTICES.c.incident_id.in_(ids))
    return frozenset(connection.execute(select(NOTICES.c.incident_id).where(*wanted)).scalars())


def forget_notices(connection: Connection, *, before_s: float) -> None:
    """Drop what was last told before `before_s`."""
    is_over = NOTICES.c.is_final.is_(True) | (NOTICES.c.status == DIGESTED)
    connection.execute(delete(NOTICES).where(NOTICES.c.delivered_s < before_s, is_over))


def _here(notifier: str, topic: str) -> tuple[Any, ...]:
    return (NOTICES.c.notifier == notifier, NOTICES.c.topic == topic)


def _notice(row: RowMapping) -> Notice:
    names = (
        "notifier",
        "topic",
        "incident_id",
        "status",
        "severity",
        "told",
        "times",
        "posted_s",
        "delivered_s",
        "is_final",
        "tries",
        "next_s",
        "error",
    )
    return Notice(
        **{name: row[name] for name in names}, held=load(row["held"]), is_doubtful=bool(row["is_sending"])
    )
