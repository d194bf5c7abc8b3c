"""GPUs day by day, bouts of windows in which one was bad, and out-of-band events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    _units()
    _bouts()
    _events()


def downgrade() -> None:
    """Drop them."""
    for name in ("outside_events", "bouts", "rolled_windows", "unit_days"):
        op.drop_table(name)


def _row_id() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _units() -> None:
    op.create_table(
        "unit_days",
        sa.Column("host", sa.String(length=256), nullable=False),
        sa.Column("device", sa.String(length=128), nullable=False),
        sa.Column("subject", sa.String(length=96), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.Column("num", sa.Integer(), nullable=False),
        sa.Column("sum_log", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("host", "device", "subject", "day", name=op.f("pk_unit_days")),
    )
    op.create_index(op.f("ix_unit_days_day"), "unit_days", ["day"], unique=False)
    op.create_table(
        "rolled_windows",
        sa.Column("attempt_id", _row_id(), nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("kernels_s", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_rolled_windows_attempt_id_attempts")
        ),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_rolled_windows")),
    )


def _bouts() -> None:
    op.create_table(
        "bouts",
        sa.Column("attempt_id", _row_id(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("first_window", sa.BigInteger(), nullable=False),
        sa.Column("last_window", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.String(length=256), nullable=False),
        sa.Column("device", sa.String(length=128), nullable=False),
        sa.Column("since_s", sa.Float(), nullable=False),
        sa.Column("until_s", sa.Float(), nullable=False),
        sa.Column("num", sa.Integer(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_bouts_attempt_id_attempts")),
        sa.PrimaryKeyConstraint("attempt_id", "rank", "first_window", name=op.f("pk_bouts")),
    )
    op.create_index(op.f("ix_bouts_until_s"), "bouts", ["until_s"], unique=False)
    op.create_index(op.f("ix_bouts_host_device"), "bouts", ["host", "device"], unique=False)


def _events() -> None:
    op.create_table(
        "outside_events",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("time_s", sa.Float(), nullable=False),
        sa.Column("received_s", sa.Float(), nullable=False),
        sa.Column("node", sa.String(length=256), nullable=False),
        sa.Column("source", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("value", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_outside_events")),
    )
    op.create_index(op.f("ix_outside_events_time_s"), "outside_events", ["time_s"], unique=False)
    op.create_index(op.f("ix_outside_events_received_s"), "outside_events", ["received_s"], unique=False)
