"""What a rank keeps does not grow with its steps."""

from __future__ import annotations

import gc
import threading
import tracemalloc

import pytest
import torch

from argus.collectors.rank import attach
from argus.collectors.rank.fake_receiver import FakeReceiver
from tests.collectors.rank import jobs

pytestmark = pytest.mark.slow

WARM, STEPS = 120, 300
"""Two blocks of steps first: modules are sampled, names known, medians and tables full."""

MAX_BLOCKS = STEPS // 3
"""A leak of one object every third step would show; frames and rows that are on their way at the end are fewer."""


def steps(count: int) -> None:
    net, x = jobs.model(), jobs.batch(0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(count):
        optimizer.zero_grad()
        net(x).sum().backward()
        optimizer.step()


class Gauge:
    """Counts memory blocks that lines of our collectors allocated, on the writer thread once all is sent."""

    def __init__(self) -> None:
        session = attach.current_session()
        assert session is not None
        self._turns, self._done, self._blocks = 0, threading.Event(), 0
        session.on_tick(self._turn)

    def blocks(self) -> int:
        """The count three turns of the writer from now; the job rests meanwhile."""
        self._done.clear()
        self._turns = 3
        assert self._done.wait(30.0)
        return self._blocks

    def _turn(self) -> None:
        self._turns -= 1
        if self._turns == 0:
            gc.collect()
            mine = [tracemalloc.Filter(True, "*/collectors/*"), tracemalloc.Filter(False, "*/tests/*")]
            found = tracemalloc.take_snapshot().filter_traces(mine).statistics("lineno")
            self._blocks = sum(item.count for item in found)
            self._done.set()


def test_nothing_of_ours_grows_with_the_steps(
    receiver: FakeReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARGUS_GOVERNOR", "0")  # in a shadow step the writer rests, and rows wait

    def job(rank: int, world: int) -> None:
        steps(WARM)
        tracemalloc.start(1)
        steps(50)
        gauge = Gauge()
        before = gauge.blocks()
        steps(STEPS)
        grown = gauge.blocks() - before
        tracemalloc.stop()
        assert grown < MAX_BLOCKS, grown

    assert jobs.run(job, world=1, path=receiver.path) == [0]
