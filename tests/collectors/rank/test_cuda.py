"""What the CUDA hooks do on a machine without one: pass through, and break no graph."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from argus.collectors.hooks.torch_cuda import copy_timer
from argus.collectors.rank import attach
from argus.collectors.rank.guard import Part
from tests.collectors.rank import jobs

pytestmark = pytest.mark.slow


def test_copies_on_the_host_pass_untouched_and_compile_whole(tmp_path: Path) -> None:
    def job(rank: int, world: int) -> None:
        assert attach._attachment is not None and attach._attachment.session is not None
        session = attach._attachment.session
        part = Part("h2d", ring=session.ring, on_off=session.unseen)
        part.patch(torch.Tensor, "to", copy_timer(session, part, name="to"))
        x = torch.ones(3)
        assert x.to(torch.float64).dtype is torch.float64
        assert x.to("cpu") is x and x.to(device="cpu") is x
        whole = torch.compile(lambda y: y.to(torch.float64) + 1, backend="eager", fullgraph=True)
        assert whole(x).dtype is torch.float64
        assert part.is_on
        part.off()
        assert "to" not in vars(torch.Tensor)

    assert jobs.run(job, world=1, path=tmp_path / "none.sock") == [0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_phases_of_a_gpu_job_are_on_the_gpus_clock(tmp_path: Path) -> None:
    from argus.collectors.rank.clock import anchored_clock
    from argus.collectors.rank.gpu import cuda_clock

    clock = cuda_clock(anchored_clock())
    assert clock is not None
    got: list[list[int]] = []
    for _ in range(20):
        start = clock.stamp()
        torch.ones(1 << 24, device="cuda").sum()
        end = clock.stamp()
        assert start is not None and end is not None
        clock.deliver([start, end], got.append)
    torch.cuda.synchronize()
    clock.poll()
    assert len(got) == 20
    assert all(end_ns > start_ns for start_ns, end_ns in got)
