"""Packed kernel summaries and the names they refer to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "kernel_blobs",
        sa.Column("attempt_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("window", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.String(length=256), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("received_s", sa.Float(), nullable=False),
        sa.Column("num_bytes", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"], ["attempts.id"], name=op.f("fk_kernel_blobs_attempt_id_attempts")
        ),
        sa.PrimaryKeyConstraint("attempt_id", "window", "host", "rank", name=op.f("pk_kernel_blobs")),
    )
    op.create_index(op.f("ix_kernel_blobs_received_s"), "kernel_blobs", ["received_s"], unique=False)
    op.create_table(
        "kernel_names",
        sa.Column("hash", sa.String(length=16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_kernel_names")),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("kernel_names")
    op.drop_table("kernel_blobs")
