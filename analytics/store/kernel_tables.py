"""The tables of packed kernel summaries and of the names they refer to by content hash."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

from argus.analytics.store.tables import METADATA

KERNEL_BLOBS = Table(
    "kernel_blobs",
    METADATA,
    Column(
        "attempt_id",
        BigInteger().with_variant(Integer, "sqlite"),
        ForeignKey("attempts.id"),
        nullable=False,
    ),
    Column("window", BigInteger, nullable=False),
    Column("host", String(256), nullable=False),
    Column(
        "rank", Integer, nullable=False
    ),  # lowest of the blob: ranks that come late have a blob of their own
    Column("received_s", Float, nullable=False),
    Column("num_bytes", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),  # see collectors.records.kernel_blob
    PrimaryKeyConstraint("attempt_id", "window", "host", "rank"),
    Index(None, "received_s"),
)

KERNEL_NAMES = Table(
    "kernel_names",
    METADATA,
    Column("hash", String(16), primary_key=True),  # hexadecimal: 64 bits without a sign fit no integer column
    Column("name", Text, nullable=False),
    Column("seen_s", Float, nullable=False, server_default=text("0")),  # last used, up to a day before
    Index(None, "seen_s"),
)
"""Definitions by content hash, the same for every run."""
