"""Approvals: an action somebody proposed, what was decided of it, by whom; nothing is carried out."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, insert, select, update

from argus.analytics.store.desk_tables import APPROVALS
from argus.analytics.store.documents import dump, load
from argus.analytics.store.queries import Found, Json, page_of_rows

PENDING, APPROVED, REJECTED, EXPIRED = "pending", "approved", "rejected", "expired"
STATUSES = (PENDING, APPROVED, REJECTED, EXPIRED)


@dataclass(frozen=True, kw_only=True)
class Approval:
    """`digest` is made of the action's id, target and command: another command is another decision."""

    id: str
    run: str
    incident_id: str
    action: Json
    digest: str
    asked_by: str
    asked_s: float
    expires_s: float
    status: str = PENDING
    decided_by: str = ""
    decided_s: float | None = None
    note: str = ""

    def to_json(self, *, now_s: float) -> Json:
        """JSON-ready; one that nobody decided in time has expired."""
        is_over = self.status == PENDING and now_s >= self.expires_s
        return {**asdict(self), "status": EXPIRED if is_over else self.status}


def add_approval(connection: Connection, approval: Approval) -> None:
    """Keep a new one."""
    connection.execute(insert(APPROVALS), [{**asdict(approval), "action": dump(approval.action)}])


def approval(connection: Connection, approval_id: str) -> Approval | None:
    """One by id; None if there is none."""
    row = connection.execute(select(APPROVALS).where(APPROVALS.c.id == approval_id)).one_or_none()
    return None if row is None else _approval(row._mapping)


def pending_like(connection: Connection, *, incident_id: str, digest: str, now_s: float) -> Approval | None:
    """The same proposal, still to be decided; None if there is none."""
    wanted = (
        APPROVALS.c.incident_id == incident_id,
        APPROVALS.c.digest == digest,
        APPROVALS.c.status == PENDING,
        APPROVALS.c.expires_s > now_s,
    )
    row = connection.execute(select(APPROVALS).where(*wanted).limit(1)).one_or_none()
    return None if row is None else _approval(row._mapping)


def decide(
    connection: Connection, approval_id: str, *, status: str, by: str, note: str, now_s: float
) -> bool:
    """Decide a pending one; False if it was decided or has expired meanwhile."""
    here = (APPROVALS.c.id == approval_id, APPROVALS.c.status == PENDING, APPROVALS.c.expires_s > now_s)
    values = {"status": status, "decided_by": by, "decided_s": now_s, "note": note}
    return bool(connection.execute(update(APPROVALS).where(*here).values(**values)).rowcount)


def approvals(
    connection: Connection, *, incident_id: str | None, now_s: float, limit: int, offset: int
) -> Found:
    """The latest first."""
    wanted: list[Any] = [] if incident_id is None else [APPROVALS.c.incident_id == incident_id]
    statement = select(APPROVALS).where(*wanted).order_by(APPROVALS.c.asked_s.desc(), APPROVALS.c.id)
    return page_of_rows(
        connection,
        statement,
        limit=limit,
        offset=offset,
        read=lambda row: _approval(row).to_json(now_s=now_s),
    )


def _approval(row: RowMapping) -> Approval:
    return Approval(**{**row, "action": load(row["action"])})
