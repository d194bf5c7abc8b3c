"""Projects, keys, browser sessions, and what was done with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "projects",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_projects")),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("scopes", sa.String(length=128), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("expires_s", sa.Float(), nullable=True),
        sa.Column("revoked_s", sa.Float(), nullable=True),
        sa.Column("used_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_keys")),
    )
    op.create_index(op.f("ix_keys_project"), "keys", ["project"], unique=False)
    _make_sessions()
    _make_audit()


def _make_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("key_id", sa.String(length=16), nullable=True),
        sa.Column("proof", sa.String(length=64), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("expires_s", sa.Float(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["keys.id"], name=op.f("fk_sessions_key_id_keys")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_expires_s"), "sessions", ["expires_s"], unique=False)


def _make_audit() -> None:
    op.create_table(
        "audit",
        sa.Column(
            "id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False
        ),
        sa.Column("at_s", sa.Float(), nullable=False),
        sa.Column("project", sa.String(length=32), nullable=False),
        sa.Column("who", sa.String(length=160), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=300), nullable=False),
        sa.Column("outcome", sa.String(length=64), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_project_id"), "audit", ["project", "id"], unique=False)
    op.create_index(op.f("ix_audit_at_s"), "audit", ["at_s"], unique=False)


def downgrade() -> None:
    """Drop them."""
    for table in ("audit", "sessions", "keys", "projects"):
        op.drop_table(table)
