"""What was done about an incident, and whether it helped."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "incident_outcomes",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("incident_id", sa.String(length=64), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("did", sa.Text(), nullable=False),
        sa.Column("result", sa.String(length=16), nullable=False),
        sa.Column("by", sa.String(length=128), nullable=False),
        sa.Column("action", sa.String(length=128), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["incident_id"], ["incidents.id"], name=op.f("fk_incident_outcomes_incident_id_incidents")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_incident_outcomes")),
    )
    op.create_index(
        op.f("ix_incident_outcomes_incident_id"), "incident_outcomes", ["incident_id"], unique=False
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("incident_outcomes")
