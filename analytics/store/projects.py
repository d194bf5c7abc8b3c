"""The projects of a service; the default one is always there and has no row."""

from __future__ import annotations

from sqlalchemy import Connection, select

from argus.analytics.store.engine import insert_new
from argus.analytics.store.key_tables import PROJECTS

DEFAULT = "default"


def add_project(connection: Connection, name: str, *, now_s: float) -> None:
    """Remember a project; one that is there already stays as it is."""
    if name != DEFAULT:
        connection.execute(insert_new(connection, PROJECTS), [{"name": name, "created_s": now_s}])


def project_names(connection: Connection) -> list[str]:
    """Every project, the default one first."""
    return [DEFAULT, *connection.execute(select(PROJECTS.c.name).order_by(PROJECTS.c.name)).scalars()]
