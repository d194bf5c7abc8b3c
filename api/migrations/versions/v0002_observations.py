"""Stacks, host samples, what processors say of themselves, runs switched off."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    _stacks()
    _hosts()


def downgrade() -> None:
    """Drop them."""
    for name in ("switches", "hosts", "host_samples", "stack_dumps", "stacks"):
        op.drop_table(name)


def _stacks() -> None:
    op.create_table(
        "stacks",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("seen_s", sa.Float(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stacks")),
    )
    op.create_index(op.f("ix_stacks_seen_s"), "stacks", ["seen_s"], unique=False)
    op.create_table(
        "stack_dumps",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("ts_s", sa.Float(), nullable=False),
        sa.Column("received_s", sa.Float(), nullable=False),
        sa.Column("reason", sa.String(length=16), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_stack_dumps_attempt_id_attempts")
        ),
        sa.PrimaryKeyConstraint("attempt_id", "rank", "ts_s", name=op.f("pk_stack_dumps")),
    )
    op.create_index(op.f("ix_stack_dumps_received_s"), "stack_dumps", ["received_s"], unique=False)


def _hosts() -> None:
    op.create_table(
        "host_samples",
        sa.Column("host", sa.String(length=256), nullable=False),
        sa.Column("end_s", sa.Float(), nullable=False),
        sa.Column("received_s", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("host", "end_s", name=op.f("pk_host_samples")),
    )
    op.create_index(op.f("ix_host_samples_received_s"), "host_samples", ["received_s"], unique=False)
    op.create_table(
        "hosts",
        sa.Column("host", sa.String(length=256), nullable=False),
        sa.Column("received_s", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_hosts")),
    )
    op.create_table(
        "switches",
        sa.Column("run", sa.String(length=256), nullable=False),
        sa.Column("is_off", sa.Boolean(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("run", name=op.f("pk_switches")),
    )
