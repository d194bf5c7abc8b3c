"""How many bytes of each window's rank windows are kept."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column and count what is there."""
    op.add_column(
        "windows", sa.Column("num_bytes", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    )
    windows = sa.table("windows", *_columns("attempt_id", "window", "num_bytes"))
    parts = sa.table("rank_windows", *_columns("attempt_id", "window", "body"))
    total = (
        sa.select(sa.func.coalesce(sa.func.sum(sa.func.length(parts.c.body)), 0))
        .where(parts.c.attempt_id == windows.c.attempt_id, parts.c.window == windows.c.window)
        .scalar_subquery()
    )
    op.execute(sa.update(windows).values(num_bytes=total))


def _columns(*names: str) -> list[sa.ColumnClause[int]]:
    return [sa.column(name) for name in names]


def downgrade() -> None:
    """Drop it."""
    op.drop_column("windows", "num_bytes")
