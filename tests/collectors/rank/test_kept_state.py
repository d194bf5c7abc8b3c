"""What Python knows of a backend's thread is kept from one call to the next."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from argus.collectors.rank import attach
from argus.collectors.rank.kept_state import keep_state
from tests.collectors.rank import jobs


class Seen(threading.local):
    calls = 0


def callbacks(rank: int, world: int) -> None:
    attach.detach()
    seen, most = Seen(), [0]
    done, main = threading.Semaphore(0), threading.get_ident()

    def over(_future: object) -> None:
        keep_state()
        seen.calls += 1  # a thread that Python met anew would start at 0 each time
        if threading.get_ident() != main:
            most.append(seen.calls)
        done.release()

    for _ in range(60):
        work = dist.all_reduce(torch.ones(4), async_op=True)
        assert work is not None
        work.get_future().add_done_callback(over)
        assert done.acquire(timeout=20)
    assert max(most) > 1 or len(most) < 8


@pytest.mark.slow
def test_a_backends_thread_is_known_again(tmp_path: Path) -> None:
    assert jobs.run(callbacks, world=2, path=tmp_path / "none.sock") == [0, 0]
