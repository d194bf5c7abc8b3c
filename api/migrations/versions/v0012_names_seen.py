"""When each kernel's name was last used, so that names which nothing uses any more can go."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column: of names that are there, when the last summaries came in."""
    op.add_column(
        "kernel_names", sa.Column("seen_s", sa.Float(), server_default=sa.text("0"), nullable=False)
    )
    names = sa.table("kernel_names", sa.column("seen_s"))
    blobs = sa.table("kernel_blobs", sa.column("received_s"))
    last = sa.select(sa.func.coalesce(sa.func.max(blobs.c.received_s), 0)).scalar_subquery()
    op.execute(sa.update(names).values(seen_s=last))
    op.create_index(op.f("ix_kernel_names_seen_s"), "kernel_names", ["seen_s"], unique=False)


def downgrade() -> None:
    """Drop it."""
    op.drop_index(op.f("ix_kernel_names_seen_s"), "kernel_names")
    op.drop_column("kernel_names", "seen_s")
