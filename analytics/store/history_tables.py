"""The tables of what outlives a run: GPUs day by day, the bouts of windows in which one was bad, out-of-band events."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from argus.analytics.store.tables import METADATA

_ROW_ID = BigInteger().with_variant(Integer, "sqlite")

UNIT_DAYS = Table(
    "unit_days",
    METADATA,
    Column("host", String(256), nullable=False),
    Column("device", String(128), nullable=False),  # UUID or bus id; `slot:N` where there is no GPU
    Column("subject", String(96), nullable=False),  # phase:NAME, kernel:KIND or own
    Column("day", Integer, nullable=False),  # days since 1970, UTC
    Column("num", Integer, nullable=False),  # windows
    Column("sum_log", Float, nullable=False),  # of the logarithm of own time over the peers'
    PrimaryKeyConstraint("host", "device", "subject", "day"),
    Index(None, "day"),
)

ROLLED = Table(
    "rolled_windows",
    METADATA,
    Column("attempt_id", _ROW_ID, ForeignKey("attempts.id"), nullable=False),
    Column("window", BigInteger, nullable=False),  # highest one that is in unit_days
    Column("kernels_s", Float, nullable=False),  # when its kernels were last added
    PrimaryKeyConstraint("attempt_id"),
)

BOUTS = Table(
    "bouts",
    METADATA,
    Column("attempt_id", _ROW_ID, ForeignKey("attempts.id"), nullable=False),
    Column("rank", Integer, nullable=False),
    Column("first_window", BigInteger, nullable=False),
    Column("last_window", BigInteger, nullable=False),
    Column("host", String(256), nullable=False),
    Column("device", String(128), nullable=False),
    Column("since_s", Float, nullable=False),
    Column("until_s", Float, nullable=False),
    Column("num", Integer, nullable=False),  # bad windows
    Column("body", Text, nullable=False),  # the symptom of the costliest one
    PrimaryKeyConstraint("attempt_id", "rank", "first_window"),
    Index(None, "until_s"),
    Index(None, "host", "device"),
)

OUTSIDE_EVENTS = Table(
    "outside_events",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("time_s", Float, nullable=False),
    Column("received_s", Float, nullable=False),
    Column("node", String(256), nullable=False),
    Column("source", String(64), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("text", Text, nullable=False),
    Column("value", Float),
    Index(None, "time_s"),
    Index(None, "received_s"),
)
