"""The first schema: runs, windows, heartbeats, findings, incidents."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    _attempts()
    _findings()
    _heartbeats()
    _incidents()
    _layouts()
    _rank_windows()
    _windows()
    _incident_events()


def downgrade() -> None:
    """Drop every table."""
    for name in (
        "incident_events",
        "windows",
        "rank_windows",
        "layouts",
        "incidents",
        "heartbeats",
        "findings",
        "attempts",
    ):
        op.drop_table(name)


def _attempts() -> None:
    op.create_table(
        "attempts",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("run", sa.String(length=256), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(length=16), server_default="live", nullable=False),
        sa.Column("end_reason", sa.String(length=64), server_default="", nullable=False),
        sa.Column("world_size", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("layouts_version", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("plan_first", sa.Integer(), nullable=False),
        sa.Column("plan_switch", sa.BigInteger(), server_default=sa.text("0"), nullable=False),
        sa.Column("plan_then", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("highest_step", sa.BigInteger(), server_default=sa.text("-1"), nullable=False),
        sa.Column("closed_window", sa.BigInteger(), server_default=sa.text("-1"), nullable=False),
        sa.Column("first_seen_s", sa.Float(), nullable=False),
        sa.Column("last_seen_s", sa.Float(), nullable=False),
        sa.Column("ended_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint("run", "attempt", name=op.f("uq_attempts_run_attempt")),
    )
    op.create_index(op.f("ix_attempts_status"), "attempts", ["status"], unique=False)


def _findings() -> None:
    op.create_table(
        "findings",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("level", sa.String(length=8), nullable=False),
        sa.Column("detector", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_findings_attempt_id_attempts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_findings")),
    )
    op.create_index(op.f("ix_findings_attempt_id_window"), "findings", ["attempt_id", "window"], unique=False)


def _heartbeats() -> None:
    op.create_table(
        "heartbeats",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=256), nullable=False),
        sa.Column("ts_s", sa.Float(), nullable=False),
        sa.Column("received_s", sa.Float(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_heartbeats_attempt_id_attempts")
        ),
        sa.PrimaryKeyConstraint("attempt_id", "rank", name=op.f("pk_heartbeats")),
    )


def _incidents() -> None:
    op.create_table(
        "incidents",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("severity", sa.String(length=16), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("fault_class", sa.String(length=64), nullable=False),
        sa.Column("opened_window", sa.BigInteger(), nullable=False),
        sa.Column("opened_s", sa.Float(), nullable=False),
        sa.Column("updated_s", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("diagnosis", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_incidents_attempt_id_attempts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incidents")),
    )
    op.create_index(
        op.f("ix_incidents_attempt_id_status"), "incidents", ["attempt_id", "status"], unique=False
    )
    op.create_index(
        op.f("ix_incidents_status_fault_class"), "incidents", ["status", "fault_class"], unique=False
    )


def _layouts() -> None:
    op.create_table(
        "layouts",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("host", sa.String(length=256), nullable=False),
        sa.Column("source", sa.String(length=32), nullable=False),
        sa.Column("received_s", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_layouts_attempt_id_attempts")),
        sa.PrimaryKeyConstraint("attempt_id", "rank", "host", "source", name=op.f("pk_layouts")),
    )


def _rank_windows() -> None:
    op.create_table(
        "rank_windows",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("received_s", sa.Float(), nullable=False),
        sa.Column("is_late", sa.Boolean(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_rank_windows_attempt_id_attempts")
        ),
        sa.PrimaryKeyConstraint("attempt_id", "window", "rank", name=op.f("pk_rank_windows")),
    )


def _windows() -> None:
    op.create_table(
        "windows",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("first_step", sa.BigInteger(), nullable=False),
        sa.Column("num_steps", sa.Integer(), nullable=False),
        sa.Column("ranks_in", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("opened_s", sa.Float(), nullable=False),
        sa.Column("closed_s", sa.Float(), nullable=True),
        sa.Column("analysed_s", sa.Float(), nullable=True),
        sa.Column("coverage", sa.Text(), nullable=True),
        sa.Column("numbers", sa.LargeBinary(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_windows_attempt_id_attempts")),
        sa.PrimaryKeyConstraint("attempt_id", "window", name=op.f("pk_windows")),
    )
    op.create_index(op.f("ix_windows_status_attempt_id"), "windows", ["status", "attempt_id"], unique=False)


def _incident_events() -> None:
    op.create_table(
        "incident_events",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("incident_id", sa.String(length=64), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("what", sa.String(length=16), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incidents.id"], name=op.f("fk_incident_events_incident_id_incidents")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incident_events")),
    )
    op.create_index(op.f("ix_incident_events_incident_id"), "incident_events", ["incident_id"], unique=False)
