"""From every revision to the newest, on both databases, with rows of then that are read now."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, MetaData, insert, select

import argus.analytics.store
from argus.analytics.store import progress, queries
from argus.analytics.store.documents import dump
from argus.analytics.store.engine import Store, StoreError, open_store
from argus.analytics.store.tables import METADATA, WINDOWS
from argus.api.migrate import is_newest, upgrade
from tests.api.kit import FakeClock, make_layout, make_window, new_service

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ROOT / "api" / "migrations" / "versions"
REVISIONS = sorted(path.stem.removeprefix("v").split("_")[0] for path in VERSIONS.glob("v*.py"))
COUNTED_FROM = "0010"
"""The revision that counts the bytes of what is there."""

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sqlite", "postgresql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A database without any table."""
    if request.param == "sqlite":
        store = open_store(str(tmp_path / "a.sqlite"))
    else:
        store = open_store(request.getfixturevalue("postgres_url"))
        with store.engine.begin() as connection:
            connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    yield store
    store.close()


def fill(connection: Connection) -> bytes:
    """One analysed window of one rank, in the tables as they were; the bytes of the rank."""
    then = MetaData()
    then.reflect(connection)
    attempt = {"run": "old", "attempt": 0, "plan_first": 10, "first_seen_s": 1.0, "last_seen_s": 2.0}
    connection.execute(insert(then.tables["attempts"]), [{"id": 7, "world_size": 1, **attempt}])
    window = {"attempt_id": 7, "window": 0, "status": "analysed", "first_step": 0, "num_steps": 10}
    times = {"opened_s": 1.0, "analysed_s": 2.0, "ranks_in": 1}
    connection.execute(insert(then.tables["windows"]), [{**window, **times}])
    body = make_window(0, 0, run="old").to_bytes()
    part = {"attempt_id": 7, "window": 0, "rank": 0, "received_s": 1.0, "is_late": False, "body": body}
    connection.execute(insert(then.tables["rank_windows"]), [part])
    layout = dump(make_layout(0, run="old", world=1).to_json())
    named = {"attempt_id": 7, "rank": 0, "host": "h-0", "source": "live", "received_s": 1.0, "body": layout}
    connection.execute(insert(then.tables["layouts"]), [named])
    return body


@pytest.mark.parametrize("revision", REVISIONS)
def test_what_was_stored_at_a_revision_is_read_at_the_newest(revision: str, empty: Store) -> None:
    upgrade(empty, revision=revision)
    with empty.write() as connection:
        body = fill(connection)
    assert is_newest(empty) == (revision == REVISIONS[-1])
    upgrade(empty)
    assert is_newest(empty)
    for module in iter_modules(argus.analytics.store.__path__):
        import_module(f"argus.analytics.store.{module.name}")  # each brings its tables
    with empty.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []
    with empty.read() as connection:
        assert progress.bodies_of(connection, 7, 0) == [body]
        (run,) = queries.runs(connection, limit=10, offset=0).items
        kept = connection.execute(select(WINDOWS.c.num_bytes)).scalar_one()
    assert run["run"] == "old" and kept == (len(body) if revision < COUNTED_FROM else 0)


def test_a_database_of_a_newer_release_is_refused_in_one_sentence(empty: Store) -> None:
    upgrade(empty)
    with empty.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    assert not is_newest(empty)
    with pytest.raises(StoreError, match=rf"newer Argus \(schema 9999, .* {REVISIONS[-1]}\)"):
        upgrade(empty)


def test_it_may_be_installed_under_a_path_with_a_percent_sign(
    empty: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "100%s").mkdir()
    (tmp_path / "100%s" / "migrations").symlink_to(VERSIONS.parent)
    monkeypatch.setattr("argus.api.migrate.files", lambda _package: tmp_path / "100%s")
    upgrade(empty)
    assert is_newest(empty)


def test_a_service_goes_on_with_a_database_of_the_first_release(empty: Store) -> None:
    upgrade(empty, revision=REVISIONS[0])
    with empty.write() as connection:
        fill(connection)
    upgrade(empty)
    service = new_service(empty, clock=FakeClock(3.0))
    service.worker.turn(3.0)
    assert service.published.troubles_now() == () and service.obstacles() == [
        "the analysis thread does not run"
    ]
    service.worker.stop()


def test_replicas_that_start_together_migrate_once(postgres_url: str) -> None:
    store = open_store(postgres_url)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    code = "import sys; from argus.api import migrate; from argus.analytics.store import engine; "
    command = [sys.executable, "-c", f"{code}migrate.upgrade(engine.open_store(sys.argv[1]))", postgres_url]
    starting = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]
    assert [process.wait(120) for process in starting] == [0, 0, 0]
    assert is_newest(store)
    store.close()
