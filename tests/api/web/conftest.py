"""The demo's database, made once; a service on a copy of it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from argus.analytics.store.engine import open_store
from argus.api.cli.serve import product_analyses
from argus.api.migrate import upgrade
from argus.api.service import Service, make_service
from argus.api.settings import Settings
from argus.evals.browser import chromium
from argus.evals.demo_data import make_demo
from argus.evals.served import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NOW_S = 1_780_000_000.0

Serve = Callable[..., AbstractContextManager[Service]]


@dataclass(frozen=True, kw_only=True)
class Lived:
    """Where the demo is, and what its service is to show."""

    db: Path
    topology: Path
    notice: str


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """Made by the first of the processes that share the tests; the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "demo"
    folder.mkdir(exist_ok=True)
    told = folder / "told.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            made = make_demo(folder, now_s=NOW_S)
            told.write_text(json.dumps({"db": made.db, "topology": made.topology, "notice": made.notice}))
    found = json.loads(told.read_text())
    return Lived(db=Path(found["db"]), topology=Path(found["topology"]), notice=found["notice"])


@contextmanager
def on_a_copy(
    demo: Lived, folder: Path, *, clock: Callable[[], float] = lambda: NOW_S, **settings: Any
) -> Iterator[Service]:
    """A service on a copy of the demo, with settings of one's own; its worker is not started."""
    db = folder / "copy.sqlite"
    shutil.copy(demo.db, db)
    store = open_store(str(db))
    upgrade(store)
    own = {"db": str(db), "topology": str(demo.topology), "notice": demo.notice, **settings}
    try:
        yield make_service(settings=Settings(**own), store=store, analyses=product_analyses(), clock=clock)
    finally:
        store.close()


@pytest.fixture
def serve_demo(demo: Lived, tmp_path: Path) -> Serve:
    return partial(on_a_copy, demo, tmp_path)


@pytest.fixture
def service(serve_demo: Serve) -> Iterator[Service]:
    with serve_demo() as service:
        yield service


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def url(demo: Lived, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service that these tests only read."""
    with on_a_copy(demo, tmp_path_factory.mktemp("read")) as service, served(service) as url:
        yield url
