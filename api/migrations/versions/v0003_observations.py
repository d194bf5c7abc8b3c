"""Stacks, host samples, what processors say of themselves, runs switched off, orders and captures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    _stacks()
    _hosts()
    _captures()


def downgrade() -> None:
    """Drop them."""
    names = ("capture_parts", "captures", "orders")
    for name in (*names, "switches", "hosts", "host_samples", "stack_dumps", "stacks"):
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


def _captures() -> None:
    op.create_table(
        "orders",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("host", sa.String(length=256), nullable=False),
        sa.Column("expires_s", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_orders")),
    )
    op.create_index(op.f("ix_orders_expires_s"), "orders", ["expires_s"], unique=False)
    op.create_table(
        "captures",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_captures_attempt_id_attempts")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_captures")),
    )
    op.create_index(op.f("ix_captures_created_s"), "captures", ["created_s"], unique=False)
    op.create_table(
        "capture_parts",
        sa.Column("capture_id", sa.String(length=64), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("received_s", sa.Float(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["capture_id"], ["captures.id"], name=op.f("fk_capture_parts_capture_id_captures")
        ),
        sa.PrimaryKeyConstraint("capture_id", "rank", name=op.f("pk_capture_parts")),
    )
