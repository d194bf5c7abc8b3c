"""Bringing a database to the newest schema."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import as_file, files

from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.runtime.migration import MigrationContext, RevisionStep
from alembic.script import ScriptDirectory
from sqlalchemy import text

from argus.analytics.store.engine import Store, StoreError
from argus.collectors.records.text import tame

HEAD = "head"

LOCK_ID = 0x41524756
"""Held for the transaction of a migration; another than that of who leads."""


_WAIT = "SELECT pg_advisory_xact_lock(:key, hashtext(current_schema()))"


def upgrade(store: Store, *, revision: str = HEAD) -> None:
    """Apply the migrations up to `revision`; nothing happens where they are applied already.

    Raises StoreError where a newer release has been there.
    """
    with as_file(files("argus.api").joinpath("migrations")) as folder:
        script = ScriptDirectory(str(folder))  # not by a Config, which would read a % in the path

        def steps(have: Iterable[str], _context: MigrationContext) -> list[RevisionStep]:
            known = {one.revision for one in script.walk_revisions()}
            if newer := sorted(set(have) - known):
                raise StoreError(
                    f"it is of a newer Argus (schema {tame(newer[0], 40)}, this one knows up to {max(known)}): "
                    "start that release, or restore a backup of before"
                )
            return script._upgrade_revs(revision, have)  # type: ignore[arg-type]

        with EnvironmentContext(Config(), script, fn=steps) as environment, store.write() as connection:
            if connection.dialect.name == "postgresql":  # replicas that start together wait for one another
                connection.execute(text(_WAIT), {"key": LOCK_ID})
            environment.configure(connection=connection, transactional_ddl=False)
            environment.run_migrations()


def is_newest(store: Store) -> bool:
    """Whether the database has the newest schema."""
    with as_file(files("argus.api").joinpath("migrations")) as folder:
        newest = set(ScriptDirectory(str(folder)).get_heads())
    with store.read() as connection:
        return set(MigrationContext.configure(connection).get_current_heads()) == newest
