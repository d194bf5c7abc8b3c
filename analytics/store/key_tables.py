"""The tables of who may use the service: projects, keys, browser sessions, and what was done with them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
)

from argus.analytics.store.tables import METADATA

_ROW_ID = BigInteger().with_variant(Integer, "sqlite")

PROJECTS = Table(
    "projects",
    METADATA,
    Column("name", String(32), primary_key=True),
    Column("created_s", Float, nullable=False),
)
"""Every project but the default one; each has a database of its own."""

KEYS = Table(
    "keys",
    METADATA,
    Column("id", String(16), primary_key=True),
    Column("project", String(32), nullable=False),
    Column("name", String(128), nullable=False),
    Column("scopes", String(128), nullable=False),  # sorted, separated by spaces
    Column("digest", String(64), nullable=False),  # of the secret; the secret itself is nowhere
    Column("created_s", Float, nullable=False),
    Column("created_by", String(128), nullable=False),
    Column("expires_s", Float),
    Column("revoked_s", Float),
    Column("used_s", Float),  # to some minutes
    Index(None, "project"),
)

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("digest", String(64), primary_key=True),  # of the cookie
    Column("key_id", String(16), ForeignKey("keys.id")),  # null: the key of the environment
    Column("proof", String(64), nullable=False),  # of that key, so that the session ends when it changes
    Column("created_s", Float, nullable=False),
    Column("expires_s", Float, nullable=False),
    Index(None, "expires_s"),
)

AUDIT = Table(
    "audit",
    METADATA,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("at_s", Float, nullable=False),
    Column("project", String(32), nullable=False),
    Column("who", String(160), nullable=False),
    Column("action", String(64), nullable=False),
    Column("target", String(300), nullable=False),
    Column("outcome", String(64), nullable=False),
    Column("address", String(64), nullable=False),
    Index(None, "project", "id"),
    Index(None, "at_s"),
)
