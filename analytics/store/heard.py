"""What others told once: a second telling of the same is known by its key."""

from __future__ import annotations

from sqlalchemy import Connection, delete, select, update

from argus.analytics.store.desk_tables import HEARD
from argus.analytics.store.documents import dump, load
from argus.analytics.store.engine import insert_new
from argus.analytics.store.queries import Json


def hear(connection: Connection, source: str, key: str, *, now_s: float) -> bool:
    """Note a telling; False if it was heard before."""
    row = {"source": source, "key": key[:128], "at_s": now_s, "body": dump({})}
    return bool(connection.execute(insert_new(connection, HEARD), [row]).rowcount)


def remember(connection: Connection, source: str, key: str, *, body: Json) -> None:
    """What came of it."""
    here = (HEARD.c.source == source, HEARD.c.key == key[:128])
    connection.execute(update(HEARD).where(*here).values(body=dump(body)))


def recalled(connection: Connection, source: str, key: str) -> Json | None:
    """What came of it; None if it was never heard."""
    here = (HEARD.c.source == source, HEARD.c.key == key[:128])
    body = connection.execute(select(HEARD.c.body).where(*here)).scalar_one_or_none()
    return None if body is None else load(body)


def forget_heard(connection: Connection, *, before_s: float) -> None:
    """Drop what was heard before `before_s`."""
    connection.execute(delete(HEARD).where(HEARD.c.at_s < before_s))
