"""A service of two jobs on a clock that the test moves; a module with other needs has its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from argus.analytics.store.engine import Store
from argus.api.service import Service
from tests.api.desk.kit import announce
from tests.api.kit import FakeClock, service_at


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(1_000_000.0)


@pytest.fixture
def service(tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    with service_at(tmp_path / "a.sqlite", clock=clock) as service:
        announce(service, "job", "other")
        yield service


@pytest.fixture
def store(service: Service) -> Store:
    return service.store
