"""A listening processor, and the hooks of a plain training loop, for the rank's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from argus.collectors.hooks import torch_backward, torch_forward, torch_optimizer
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.rank.session import Hook
from tests.collectors.hooks.bench import Bench

LOOP = {"torch_forward": torch_forward, "torch_backward": torch_backward, "torch_optimizer": torch_optimizer}


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[FakeReceiver]:
    fake = FakeReceiver(tmp_path / "s" / "p.sock").start()
    yield fake
    fake.stop()


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    for name, hook in LOOP.items():
        one: Hook = hook
        bench.session.add(name, one)
    yield bench
    bench.session.stop()
