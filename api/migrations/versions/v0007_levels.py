"""Which channels the service has off in a run."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "level_changes",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("run", sa.String(length=256), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("level", sa.Integer(), nullable=False),
        sa.Column("from_step", sa.BigInteger(), nullable=False),
        sa.Column("patience", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_level_changes")),
    )
    op.create_index(op.f("ix_level_changes_run_attempt"), "level_changes", ["run", "attempt"], unique=False)


def downgrade() -> None:
    """Drop it."""
    op.drop_table("level_changes")
