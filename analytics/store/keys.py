"""Keys and browser sessions in the store: their digests, never themselves."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, func, insert, select, update

from argus.analytics.store.key_tables import KEYS, SESSIONS
from argus.analytics.store.queries import Found, Json


@dataclass(frozen=True, kw_only=True)
class KeyRow:
    """One key; `digest` is of its secret."""

    id: str
    project: str
    name: str
    scopes: tuple[str, ...]
    digest: str
    created_s: float
    created_by: str
    expires_s: float | None = None
    revoked_s: float | None = None
    used_s: float | None = None

    def is_good(self, now_s: float) -> bool:
        """Whether it opens anything at a moment."""
        return self.revoked_s is None and (self.expires_s is None or now_s < self.expires_s)

    def to_json(self) -> Json:
        """What may be shown of it."""
        return {**{name: value for name, value in vars(self).items() if name != "digest"}}


@dataclass(frozen=True, kw_only=True)
class SessionRow:
    """One browser's session; `key_id` None stands for the key of the environment."""

    digest: str
    key_id: str | None
    proof: str
    created_s: float
    expires_s: float


def add_key(connection: Connection, key: KeyRow) -> None:
    """Keep a new key."""
    connection.execute(insert(KEYS), [{**vars(key), "scopes": " ".join(key.scopes)}])


def key_of(connection: Connection, key_id: str) -> KeyRow | None:
    """A key by id, also one that opens nothing any more; None if there is none."""
    row = connection.execute(select(KEYS).where(KEYS.c.id == key_id)).one_or_none()
    return None if row is None else _key(row._mapping)


def list_keys(connection: Connection, *, project: str | None, limit: int, offset: int) -> Found:
    """Keys of a project, of all if none is named, the newest first."""
    wanted = _of(project)
    total = connection.execute(select(func.count()).select_from(KEYS).where(*wanted)).scalar_one()
    order = (KEYS.c.created_s.desc(), KEYS.c.id)
    rows = connection.execute(select(KEYS).where(*wanted).order_by(*order).limit(limit).offset(offset))
    return Found(items=[_key(row._mapping).to_json() for row in rows], total=total)


def has_keys(connection: Connection) -> bool:
    """Whether there ever was a key, also one that is revoked by now."""
    return connection.execute(select(KEYS.c.id).limit(1)).first() is not None


def revoke(connection: Connection, key_id: str, *, project: str | None, now_s: float) -> bool:
    """End a key and its sessions; False if there is no such key in the project, in all if none is named."""
    here = (KEYS.c.id == key_id, *_of(project))
    if connection.execute(select(KEYS.c.id).where(*here)).first() is None:
        return False
    connection.execute(update(KEYS).where(*here, KEYS.c.revoked_s.is_(None)).values(revoked_s=now_s))
    connection.execute(delete(SESSIONS).where(SESSIONS.c.key_id == key_id))
    return True


def note_use(connection: Connection, key_id: str, *, now_s: float) -> None:
    """Remember when a key was last used."""
    connection.execute(update(KEYS).where(KEYS.c.id == key_id).values(used_s=now_s))


def add_session(connection: Connection, session: SessionRow) -> None:
    """Keep a new session; drop those whose time is up."""
    connection.execute(delete(SESSIONS).where(SESSIONS.c.expires_s < session.created_s))
    connection.execute(insert(SESSIONS), [vars(session)])


def session_of(connection: Connection, digest: str) -> SessionRow | None:
    """A session by the digest of its cookie; None if there is none."""
    row = connection.execute(select(SESSIONS).where(SESSIONS.c.digest == digest)).one_or_none()
    return None if row is None else SessionRow(**row._mapping)


def drop_session(connection: Connection, digest: str) -> None:
    """End a session."""
    connection.execute(delete(SESSIONS).where(SESSIONS.c.digest == digest))


def _of(project: str | None) -> tuple[ColumnElement[bool], ...]:
    return () if project is None else (KEYS.c.project == project,)


def _key(row: RowMapping) -> KeyRow:
    return KeyRow(**{**row, "scopes": tuple(str(row["scopes"]).split())})
