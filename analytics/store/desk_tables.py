"""The tables of what people and other systems are told, ask and decide: notices, investigations, approvals, silences."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from argus.analytics.store.tables import METADATA

_ROW_ID = BigInteger().with_variant(Integer, "sqlite")

NOTICES = Table(
    "notices",
    METADATA,
    Column("notifier", String(64), nullable=False),
    Column("topic", String(96), nullable=False),  # incident:FINGERPRINT, overflow:BUCKET, daily:DATE
    Column("incident_id", String(64)),
    Column("status", String(16), nullable=False),  # new, posted, digested
    Column("severity", String(16), nullable=False),
    Column("told", String(256), nullable=False),  # what state of the matter was told last
    Column("held", Text, nullable=False),  # what the notifier keeps: where its message is
    Column("times", Integer, nullable=False),
    Column("posted_s", Float),  # the last message of its own
    Column("delivered_s", Float, nullable=False),
    Column("is_final", Boolean, nullable=False),
    Column("claimed_by", String(64), nullable=False),
    Column("claimed_until_s", Float, nullable=False),
    Column("is_sending", Boolean, nullable=False),  # begun and not known to have ended
    Column("tries", Integer, nullable=False),
    Column("next_s", Float, nullable=False),
    Column("error", Text, nullable=False),
    PrimaryKeyConstraint("notifier", "topic"),
    Index(None, "incident_id"),
    Index(None, "delivered_s"),
)

INCIDENT_MARKS = Table(
    "incident_marks",
    METADATA,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("incident_id", String(64), ForeignKey("incidents.id"), nullable=False),
    Column("at_s", Float, nullable=False),
    Column("what", String(16), nullable=False),  # acknowledged, wrong, right
    Column("by", String(128), nullable=False),
    Column("text", Text, nullable=False),
    Index(None, "incident_id"),
)

INCIDENT_OUTCOMES = Table(
    "incident_outcomes",
    METADATA,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("incident_id", String(64), ForeignKey("incidents.id"), nullable=False),
    Column("at_s", Float, nullable=False),
    Column("did", Text, nullable=False),  # what was done, in words
    Column("result", String(16), nullable=False),  # helped, did_not_help, unclear
    Column("by", String(128), nullable=False),
    Column("action", String(128), nullable=False),  # its id in the catalogue, "" where it is none of it
    Column("text", Text, nullable=False),
    Index(None, "incident_id"),
)

SILENCES = Table(
    "silences",
    METADATA,
    Column("id", String(64), primary_key=True),
    Column("source", String(16), nullable=False),  # argus, alertmanager
    Column("matchers", Text, nullable=False),
    Column("starts_s", Float, nullable=False),
    Column("ends_s", Float, nullable=False),
    Column("by", String(128), nullable=False),
    Column("why", Text, nullable=False),
    Index(None, "ends_s"),
)

INVESTIGATIONS = Table(
    "investigations",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("run", String(256), nullable=False),
    Column("incident_id", String(64)),
    Column("question", Text, nullable=False),
    Column("status", String(16), nullable=False),  # queued, running, done, failed, cancelled, interrupted
    Column("asked_by", String(128), nullable=False),
    Column("idempotency", String(200)),
    Column("request", String(64), nullable=False),  # digest of what was asked under the key
    Column("created_s", Float, nullable=False),
    Column("updated_s", Float, nullable=False),
    Column("owner", String(64), nullable=False),
    Column("lease_s", Float, nullable=False),  # until when the owner has it
    Column("is_cancelled", Boolean, nullable=False),
    Column("callback_url", Text, nullable=False),
    Column("callback", String(16), nullable=False),  # none, waiting, sent, failed
    Column("callback_tries", Integer, nullable=False),
    Column("callback_next_s", Float, nullable=False),
    Column("outcome", Text),
    UniqueConstraint("idempotency"),
    Index(None, "incident_id"),
    Index(None, "status"),
    Index(None, "updated_s"),
)

INVESTIGATION_EVENTS = Table(
    "investigation_events",
    METADATA,
    Column("investigation_id", String(32), ForeignKey("investigations.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("at_s", Float, nullable=False),
    Column("what", String(16), nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("investigation_id", "number"),
)

APPROVALS = Table(
    "approvals",
    METADATA,
    Column("id", String(32), primary_key=True),
    Column("run", String(256), nullable=False),
    Column("incident_id", String(64), ForeignKey("incidents.id"), nullable=False),
    Column("action", Text, nullable=False),  # the action as it was proposed
    Column("digest", String(64), nullable=False),  # of what would be done to what
    Column("status", String(16), nullable=False),  # pending, approved, rejected
    Column("asked_by", String(128), nullable=False),
    Column("asked_s", Float, nullable=False),
    Column("expires_s", Float, nullable=False),
    Column("decided_by", String(128), nullable=False),
    Column("decided_s", Float),
    Column("note", Text, nullable=False),
    Index(None, "incident_id"),
    Index(None, "asked_s"),
)

HEARD = Table(
    "heard",
    METADATA,
    Column("source", String(32), nullable=False),  # alertmanager, grafana, slack
    Column("key", String(128), nullable=False),
    Column("at_s", Float, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("source", "key"),
    Index(None, "at_s"),
)
