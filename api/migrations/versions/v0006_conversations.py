"""Conversations with the agent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "conversations",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("run", sa.String(length=256), nullable=False),
        sa.Column("incident_id", sa.String(length=64), nullable=True),
        sa.Column("title", sa.String(length=200), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("updated_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_conversations")),
    )
    op.create_index(op.f("ix_conversations_updated_s"), "conversations", ["updated_s"], unique=False)
    op.create_table(
        "conversation_entries",
        sa.Column("conversation_id", sa.String(length=32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conversation_id"],
            ["conversations.id"],
            name=op.f("fk_conversation_entries_conversation_id_conversations"),
        ),
        sa.PrimaryKeyConstraint("conversation_id", "number", name=op.f("pk_conversation_entries")),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("conversation_entries")
    op.drop_index(op.f("ix_conversations_updated_s"), table_name="conversations")
    op.drop_table("conversations")
