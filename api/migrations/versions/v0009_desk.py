"""Notices, marks, silences, investigations, approvals, and what others told once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables."""
    _notices()
    _marks_and_silences()
    _investigations()
    _approvals_and_heard()


def _notices() -> None:
    op.create_table(
        "notices",
        sa.Column("notifier", sa.String(length=64), nullable=False),
        sa.Column("topic", sa.String(length=96), nullable=False),
        sa.Column("incident_id", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("severity", sa.String(length=16), nullable=False),
        sa.Column("told", sa.String(length=256), nullable=False),
        sa.Column("held", sa.Text(), nullable=False),
        sa.Column("times", sa.Integer(), nullable=False),
        sa.Column("posted_s", sa.Float(), nullable=True),
        sa.Column("delivered_s", sa.Float(), nullable=False),
        sa.Column("is_final", sa.Boolean(), nullable=False),
        sa.Column("claimed_by", sa.String(length=64), nullable=False),
        sa.Column("claimed_until_s", sa.Float(), nullable=False),
        sa.Column("is_sending", sa.Boolean(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_s", sa.Float(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("notifier", "topic", name=op.f("pk_notices")),
    )
    op.create_index(op.f("ix_notices_incident_id"), "notices", ["incident_id"], unique=False)
    op.create_index(op.f("ix_notices_delivered_s"), "notices", ["delivered_s"], unique=False)


def _marks_and_silences() -> None:
    op.create_table(
        "incident_marks",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("incident_id", sa.String(length=64), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("what", sa.String(length=16), nullable=False),
        sa.Column("by", sa.String(length=128), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incidents.id"], name=op.f("fk_incident_marks_incident_id_incidents")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incident_marks")),
    )
    op.create_index(op.f("ix_incident_marks_incident_id"), "incident_marks", ["incident_id"], unique=False)
    op.create_table(
        "silences",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("source", sa.String(length=16), nullable=False),
        sa.Column("matchers", sa.Text(), nullable=False),
        sa.Column("starts_s", sa.Float(), nullable=False),
        sa.Column("ends_s", sa.Float(), nullable=False),
        sa.Column("by", sa.String(length=128), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_silences")),
    )
    op.create_index(op.f("ix_silences_ends_s"), "silences", ["ends_s"], unique=False)


def _investigations() -> None:
    op.create_table(
        "investigations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("run", sa.String(length=256), nullable=False),
        sa.Column("incident_id", sa.String(length=64), nullable=True),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("asked_by", sa.String(length=128), nullable=False),
        sa.Column("idempotency", sa.String(length=200), nullable=True),
        sa.Column("request", sa.String(length=64), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("updated_s", sa.Float(), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("lease_s", sa.Float(), nullable=False),
        sa.Column("is_cancelled", sa.Boolean(), nullable=False),
        sa.Column("callback_url", sa.Text(), nullable=False),
        sa.Column("callback", sa.String(length=16), nullable=False),
        sa.Column("callback_tries", sa.Integer(), nullable=False),
        sa.Column("callback_next_s", sa.Float(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_investigations")),
        sa.UniqueConstraint("idempotency", name=op.f("uq_investigations_idempotency")),
    )
    for column in ("incident_id", "status", "updated_s"):
        op.create_index(op.f(f"ix_investigations_{column}"), "investigations", [column], unique=False)
    op.create_table(
        "investigation_events",
        sa.Column("investigation_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("what", sa.String(length=16), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["investigation_id"],
            ["investigations.id"],
            name=op.f("fk_investigation_events_investigation_id_investigations"),
        ),
        sa.PrimaryKeyConstraint("investigation_id", "number", name=op.f("pk_investigation_events")),
    )


def _approvals_and_heard() -> None:
    op.create_table(
        "approvals",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("run", sa.String(length=256), nullable=False),
        sa.Column("incident_id", sa.String(length=64), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("asked_by", sa.String(length=128), nullable=False),
        sa.Column("asked_s", sa.Float(), nullable=False),
        sa.Column("expires_s", sa.Float(), nullable=False),
        sa.Column("decided_by", sa.String(length=128), nullable=False),
        sa.Column("decided_s", sa.Float(), nullable=True),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incidents.id"], name=op.f("fk_approvals_incident_id_incidents")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_approvals")),
    )
    for column in ("incident_id", "asked_s"):
        op.create_index(op.f(f"ix_approvals_{column}"), "approvals", [column], unique=False)
    op.create_table(
        "heard",
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("source", "key", name=op.f("pk_heard")),
    )
    op.create_index(op.f("ix_heard_at_s"), "heard", ["at_s"], unique=False)


def downgrade() -> None:
    """Drop them."""
    for table in (
        "heard",
        "approvals",
        "investigation_events",
        "investigations",
        "silences",
        "incident_marks",
        "notices",
    ):
        op.drop_table(table)
