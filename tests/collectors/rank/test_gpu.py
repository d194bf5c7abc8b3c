"""The GPU clock on a fake stream."""

from __future__ import annotations

import pytest
import torch

from argus.collectors.hooks.torch_cuda import pause_in_captures
from argus.collectors.rank import gpu as module
from argus.collectors.rank.fake_gpu import FakeStream
from argus.collectors.rank.gpu import GpuClock
from argus.collectors.rank.guard import Part
from argus.collectors.rank.ring import Ring


class Machine:
    """Host and GPU clocks `offset_ns` apart, the GPU's running `drift` per second faster."""

    def __init__(self, *, offset_ns: int, drift: float = 0.0) -> None:
        self.host_ns = 10**9
        self.stream = FakeStream(gpu_now_ns=lambda: round(self.host_ns * (1 + drift)) - offset_ns)
        self.clock = GpuClock(
            new_event=self.stream.new_event, is_capturing=lambda: False, now_ns=lambda: self.host_ns
        )
        self.got: list[list[int]] = []

    def span(self, kernel_ns: int) -> tuple[int, int]:
        """Stamp, launch, stamp, on an idle stream; host times of the two stamps."""
        start = self.clock.stamp()
        assert start is not None
        host_ns = start.host_ns
        self.stream.launch(kernel_ns)
        end = self.clock.stamp()
        assert end is not None
        self.clock.deliver([start, end], self.got.append)
        self.host_ns += kernel_ns
        return host_ns, self.host_ns

    def poll(self) -> None:
        self.stream.pass_until_ns = 1 << 62
        self.clock.poll()


def test_an_idle_stream_gives_the_hosts_times_exactly() -> None:
    machine = Machine(offset_ns=123_456)
    expected = []
    for _ in range(10):
        machine.host_ns += 1_000_000
        expected.append(list(machine.span(50_000)))
    machine.poll()
    assert machine.got == expected


def test_events_are_pooled() -> None:
    machine = Machine(offset_ns=0)
    for _ in range(50):
        machine.host_ns += 1_000_000
        machine.span(1000)
        machine.poll()
    assert len(machine.stream.events) <= 4


def test_a_full_pool_stops_stamping_and_counts() -> None:
    machine = Machine(offset_ns=0)
    stamps = [machine.clock.stamp() for _ in range(module.POOL + 3)]
    assert sum(stamp is None for stamp in stamps) == machine.clock.lost == 3


def test_drift_is_followed() -> None:
    machine = Machine(offset_ns=0, drift=20e-6)
    errors = []
    for _ in range(3600):
        machine.host_ns += 1_000_000_000
        expected = machine.span(1_000)
        machine.poll()
        errors.append(abs(machine.got[-1][0] - expected[0]))
    assert max(errors[100:]) < 300_000  # two anchor periods of drift, not an hour of it


def test_each_anchor_tells_how_far_the_clock_had_moved() -> None:
    machine, residuals = Machine(offset_ns=0, drift=-20e-6), list[int]()
    machine.clock.on_anchor = residuals.append
    for _ in range(60):
        machine.host_ns += 1_000_000_000
        machine.span(1_000)
        machine.poll()
    # 20 µs a second over the six seconds between anchors; at least every minute one.
    assert len(residuals) >= 8 and all(100_000 <= one <= 140_000 for one in residuals)


def test_no_event_is_asked_for_while_a_graph_is_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(offset_ns=0)
    fails = [RuntimeError("capture")]

    def begin(_graph: object) -> None:
        if fails:
            raise fails.pop()

    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", begin)
    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_end", lambda _graph: None)
    part = Part("gpu", ring=Ring(), on_off=lambda _text: None)
    pause_in_captures(machine.clock, part)
    graph = object()
    torch.cuda.CUDAGraph.capture_end(graph)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="capture"):
        torch.cuda.CUDAGraph.capture_begin(graph)  # type: ignore[arg-type]
    machine.span(1000)
    machine.poll()
    assert len(machine.got) == 1
    machine.span(1000)
    torch.cuda.CUDAGraph.capture_begin(graph)  # type: ignore[arg-type]
    machine.poll()
    assert len(machine.got) == 1
    torch.cuda.CUDAGraph.capture_end(graph)  # type: ignore[arg-type]
    machine.poll()
    assert len(machine.got) == 2
    part.off()
    assert torch.cuda.CUDAGraph.capture_begin is begin
