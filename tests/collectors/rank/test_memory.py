"""What a rank keeps does not grow with its steps."""

from __future__ import annotations

import gc
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


def ours() -> int:
    """Memory blocks that lines of our collectors allocated and that live, once everything is sent."""
    attachment = attach._attachment
    assert attachment is not None and attachment.writer is not None
    for _ in range(3):
        attachment.writer._try(lambda: attachment.writer._tick(with_status=True))
    gc.collect()
    snapshot = tracemalloc.take_snapshot()
    mine = [tracemalloc.Filter(True, "*/collectors/*"), tracemalloc.Filter(False, "*/tests/*")]
    return sum(item.count for item in snapshot.filter_traces(mine).statistics("lineno"))


def test_nothing_of_ours_grows_with_the_steps(receiver: FakeReceiver) -> None:
    def job(rank: int, world: int) -> None:
        steps(WARM)
        tracemalloc.start(1)
        steps(50)
        before = ours()
        steps(STEPS)
        grown = ours() - before
        tracemalloc.stop()
        assert grown < MAX_BLOCKS, grown

    assert jobs.run(job, world=1, path=receiver.path) == [0]
