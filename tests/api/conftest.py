"""A service on a clock of the test's, and a real PostgreSQL for tests that can use one; they skip where none is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import pytest

from argus.analytics.store.engine import Store, open_store
from argus.api.migrate import upgrade
from argus.api.service import Service
from tests.api.kit import FakeClock, service_at

PG_USER = "postgres"


def _tool(name: str) -> str:
    found = shutil.which(name) or next(iter(sorted(glob(f"/usr/lib/postgresql/*/bin/{name}"))), "")
    if not found:
        pytest.skip(f"PostgreSQL is not installed: no {name}")
    return found


def _run(*command: str, user: str | None) -> None:
    subprocess.run(command, user=user, cwd="/", check=True, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A fresh server on a unix socket, as long as the tests last."""
    initdb, control = _tool("initdb"), _tool("pg_ctl")
    user = PG_USER if os.getuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="argus-pg-"))
    if user:
        shutil.chown(folder, user)
    where = ("-D", str(folder / "db"))
    options = f"-k {folder} -c listen_addresses= -c fsync=off -c shared_buffers=16MB"
    _run(initdb, *where, "-U", PG_USER, "-A", "trust", "-N", user=user)
    _run(control, *where, "-w", "-l", str(folder / "log"), "-o", options, "start", user=user)
    try:
        yield f"postgresql://{PG_USER}@/postgres?host={folder}"
    finally:
        _run(control, *where, "-w", "-m", "immediate", "stop", user=user)
        shutil.rmtree(folder)


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Store]:
    """A migrated, empty PostgreSQL store."""
    store = open_store(postgres_url)
    with store.engine.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    upgrade(store)
    yield store
    store.close()


@pytest.fixture
def clock() -> FakeClock:
    """The time as the test sets it."""
    return FakeClock()


@pytest.fixture
def service(tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    """The service on a database of its own, with the fake analysis."""
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        yield service
