"""A listening processor for the rank's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from argus.collectors.rank.fake_receiver import FakeReceiver


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[FakeReceiver]:
    fake = FakeReceiver(tmp_path / "s" / "p.sock").start()
    yield fake
    fake.stop()
