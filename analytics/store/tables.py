"""The tables, in types that SQLite and PostgreSQL share.

Documents are text made by `records.dump` (finite numbers, ASCII), times are Unix seconds of this service.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

# Constraint names are fixed so that a later migration can name them on both databases.
METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite numbers rows by itself only in a column declared INTEGER.
_ROW_ID = BigInteger().with_variant(Integer, "sqlite")


def _attempt_id() -> Column[int]:
    return Column("attempt_id", _ROW_ID, ForeignKey("attempts.id"), nullable=False)


ATTEMPTS = Table(
    "attempts",
    METADATA,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("run", String(256), nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("status", String(16), nullable=False, server_default="live"),  # live, silent, ended
    Column("end_reason", String(64), nullable=False, server_default=""),
    Column("world_size", Integer, nullable=False, server_default=text("0")),  # 0 = no layout yet
    Column("layouts_version", BigInteger, nullable=False, server_default=text("0")),
    Column("plan_first", Integer, nullable=False),
    Column("plan_switch", BigInteger, nullable=False, server_default=text("0")),
    Column("plan_then", Integer, nullable=False, server_default=text("0")),
    Column("highest_step", BigInteger, nullable=False, server_default=text("-1")),
    Column("closed_window", BigInteger, nullable=False, server_default=text("-1")),  # highest closed
    Column("first_seen_s", Float, nullable=False),
    Column("last_seen_s", Float, nullable=False),
    Column("ended_s", Float),
    UniqueConstraint("run", "attempt"),
    Index(None, "status"),
)

LAYOUTS = Table(
    "layouts",
    METADATA,
    _attempt_id(),
    Column("rank", Integer, nullable=False),
    Column("host", String(256), nullable=False),
    Column("source", String(32), nullable=False),
    Column("received_s", Float, nullable=False),
    Column("body", Text, nullable=False),
    # Two hosts that claim one rank are two rows: the topology reports the conflict.
    PrimaryKeyConstraint("attempt_id", "rank", "host", "source"),
)

RANK_WINDOWS = Table(
    "rank_windows",
    METADATA,
    _attempt_id(),
    Column("window", BigInteger, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("received_s", Float, nullable=False),
    Column("is_late", Boolean, nullable=False),
    Column("body", LargeBinary, nullable=False),  # RankWindow.to_bytes(), see bodies.py
    PrimaryKeyConstraint("attempt_id", "window", "rank"),
)

WINDOWS = Table(
    "windows",
    METADATA,
    _attempt_id(),
    Column("window", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),  # open, closed, analysed, failed, late
    Column("first_step", BigInteger, nullable=False),
    Column("num_steps", Integer, nullable=False),
    Column("ranks_in", Integer, nullable=False, server_default=text("0")),
    Column(
        "num_bytes", BigInteger, nullable=False, server_default=text("0")
    ),  # of its rank windows that are kept
    Column("opened_s", Float, nullable=False),
    Column("closed_s", Float),
    Column("analysed_s", Float),
    Column("coverage", Text),
    Column("numbers", LargeBinary),  # see analytics.numbers
    Column("error", Text),
    PrimaryKeyConstraint("attempt_id", "window"),
    Index(None, "status", "attempt_id"),
)

HEARTBEATS = Table(
    "heartbeats",
    METADATA,
    _attempt_id(),
    Column("rank", Integer, nullable=False),
    Column("host", String(256), nullable=False),
    Column("ts_s", Float, nullable=False),
    Column("received_s", Float, nullable=False),
    Column("state", String(16), nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("attempt_id", "rank"),
)

FINDINGS = Table(
    "findings",
    METADATA,
    Column("id", String(64), primary_key=True),
    _attempt_id(),
    Column("window", BigInteger, nullable=False),
    Column("level", String(8), nullable=False),
    Column("detector", String(64), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("role", String(16), nullable=False),
    Column("created_s", Float, nullable=False),
    Column("body", Text, nullable=False),
    Index(None, "attempt_id", "window"),
)

INCIDENTS = Table(
    "incidents",
    METADATA,
    Column("id", String(64), primary_key=True),
    _attempt_id(),
    Column("fingerprint", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("severity", String(16), nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("fault_class", String(64), nullable=False),
    Column("opened_window", BigInteger, nullable=False),
    Column("opened_s", Float, nullable=False),
    Column("updated_s", Float, nullable=False),
    Column("body", Text, nullable=False),  # see incidents.py: every field, so that it can be read back
    Column("diagnosis", Text),
    Index(None, "attempt_id", "status"),
    Index(None, "status", "fault_class"),
)

INCIDENT_EVENTS = Table(
    "incident_events",
    METADATA,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("incident_id", String(64), ForeignKey("incidents.id"), nullable=False),
    Column("at_s", Float, nullable=False),
    Column("what", String(16), nullable=False),  # opened, changed, resolved, reopened
    Column("body", Text, nullable=False),
    Index(None, "incident_id"),
)

STACKS = Table(
    "stacks",
    METADATA,
    Column("id", String(32), primary_key=True),  # of the text
    Column("seen_s", Float, nullable=False),
    Column("text", Text, nullable=False),
    Index(None, "seen_s"),
)

STACK_DUMPS = Table(
    "stack_dumps",
    METADATA,
    _attempt_id(),
    Column("rank", Integer, nullable=False),
    Column("ts_s", Float, nullable=False),
    Column("received_s", Float, nullable=False),
    Column("reason", String(16), nullable=False),
    Column("body", Text, nullable=False),  # threads name their stacks by id
    PrimaryKeyConstraint("attempt_id", "rank", "ts_s"),
    Index(None, "received_s"),
)

HOST_SAMPLES = Table(
    "host_samples",
    METADATA,
    Column("host", String(256), nullable=False),
    Column("end_s", Float, nullable=False),
    Column("received_s", Float, nullable=False),
    Column("body", Text, nullable=False),  # HostSample.to_json()
    PrimaryKeyConstraint("host", "end_s"),
    Index(None, "received_s"),
)

HOSTS = Table(
    "hosts",
    METADATA,
    Column("host", String(256), primary_key=True),
    Column("received_s", Float, nullable=False),
    Column("body", Text, nullable=False),  # what its processor says of itself
)

SWITCHES = Table(
    "switches",
    METADATA,
    Column("run", String(256), primary_key=True),
    Column("is_off", Boolean, nullable=False),
    Column("at_s", Float, nullable=False),
)

ORDERS = Table(
    "orders",
    METADATA,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("host", String(256), nullable=False),
    Column("expires_s", Float, nullable=False),
    Column("body", Text, nullable=False),  # Order.to_json() without its id
    Index(None, "expires_s"),
)

CAPTURES = Table(
    "captures",
    METADATA,
    Column("id", String(64), primary_key=True),
    _attempt_id(),
    Column("created_s", Float, nullable=False),
    Column("body", Text, nullable=False),  # ranks, steps, incident
    Index(None, "created_s"),
)

CAPTURE_PARTS = Table(
    "capture_parts",
    METADATA,
    Column("capture_id", String(64), ForeignKey("captures.id"), nullable=False),
    Column("rank", Integer, nullable=False),
    Column("received_s", Float, nullable=False),
    Column("body", LargeBinary, nullable=False),  # a recording, zstd; empty: nothing of the rank is left
    PrimaryKeyConstraint("capture_id", "rank"),
)

LEVEL_CHANGES = Table(
    "level_changes",
    METADATA,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("run", String(256), nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("at_s", Float, nullable=False),
    Column("level", Integer, nullable=False),  # channels off
    Column("from_step", BigInteger, nullable=False),
    Column("patience", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Index(None, "run", "attempt"),
)

EVIDENCE = Table(
    "evidence",
    METADATA,
    Column("id", String(32), primary_key=True),  # of the content
    Column("seen_s", Float, nullable=False),  # when it was last answered
    Column("tool", String(64), nullable=False),
    Column("status", String(16), nullable=False),
    Column("run", String(256)),
    Column("attempt", Integer),
    Column("body", Text, nullable=False),  # ToolResult.to_json()
    Index(None, "seen_s"),
)
