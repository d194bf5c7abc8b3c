"""The demo's database, made once; a service on a copy of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from argus.analytics.store.engine import open_store
from argus.api.cli.serve import product_analyses
from argus.api.migrate import upgrade
from argus.api.service import Service, make_service
from argus.api.settings import Settings
from argus.evals.demo_data import Demo, make_demo

NOW_S = 1_780_000_000.0

Serve = Callable[..., AbstractContextManager[Service]]


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return make_demo(tmp_path_factory.mktemp("demo"), now_s=NOW_S)


@contextmanager
def on_a_copy(demo: Demo, folder: Path, **settings: Any) -> Iterator[Service]:
    """A service on a copy of the demo, with settings of one's own; its worker is not started."""
    db = folder / "copy.sqlite"
    shutil.copy(demo.db, db)
    store = open_store(str(db))
    upgrade(store)
    own = {"db": str(db), "topology": demo.topology, "notice": demo.notice, **settings}
    try:
        yield make_service(
            settings=Settings(**own), store=store, analyses=product_analyses(), clock=lambda: NOW_S
        )
    finally:
        store.close()


@pytest.fixture
def serve_demo(demo: Demo, tmp_path: Path) -> Serve:
    return partial(on_a_copy, demo, tmp_path)


@pytest.fixture
def service(serve_demo: Serve) -> Iterator[Service]:
    with serve_demo() as service:
        yield service
