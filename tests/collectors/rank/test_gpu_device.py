"""Which GPU is a rank's: each thread has a current one of its own, at first that of index 0."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch

from argus.collectors.hooks.torch_cuda import AllocatorRetries
from argus.collectors.rank import layout
from argus.collectors.rank.gpu import GpuClock, cuda_clock
from argus.collectors.rank.identity import Place
from argus.collectors.rank.layout import LayoutWatch
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.session import Session


class Cuda(threading.local):
    """The runtime's current device, which is the calling thread's."""

    current = 0


class Event:
    """An event that has passed as soon as it is recorded."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self.device = torch.device("cuda", 0)

    def record(self) -> None:
        self.device = torch.device("cuda", self._cuda.current)

    def query(self) -> bool:
        assert self._cuda.current == self.device.index, "would make a context on another rank's GPU"
        return True

    def elapsed_time(self, end_event: Event) -> float:
        return 1.0


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Cuda:
    """A host of eight GPUs."""
    cuda = Cuda()
    names = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 8,
        "current_device": lambda: cuda.current,
        "set_device": lambda index: setattr(cuda, "current", index),
        "get_device_properties": lambda index: SimpleNamespace(uuid=f"u{index}", name="H"),
        "memory_stats": lambda index=None: {"num_alloc_retries": cuda.current if index is None else index},
        "Event": lambda enable_timing: Event(cuda),
        "is_current_stream_capturing": lambda: False,
    }
    for name, value in names.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(layout, "versions", dict)
    return cuda


def on_another_thread(call: Callable[[], object]) -> object:
    """What `call` returns on a thread of its own."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    thread.join()
    return found[0]


def stamped(clock: GpuClock) -> list[list[int]]:
    """A phase on the GPU, and where its times will come."""
    got: list[list[int]] = []
    start, end = clock.stamp(), clock.stamp()
    assert start is not None and end is not None
    clock.deliver([start, end], got.append)
    return got


def test_the_writer_thread_sees_the_gpu_that_training_uses(cuda: Cuda) -> None:
    clock = cuda_clock(lambda: 1)
    assert clock is not None
    recorder = Recorder(ring=Ring(), now_ns=lambda: 1, cpu_ns=lambda: 0, gpu=clock)
    watch = LayoutWatch(
        run="r",
        place=Place(rank=3, world_size=8, local_rank=3),
        env={},
        on_change=lambda: None,
        gpu_index=lambda: clock.device,
    )
    retries = AllocatorRetries(Session(recorder), clock)

    def turn() -> str:
        clock.poll()
        retries.look()
        told = watch()
        return "" if told is None else told.device

    cuda.current = 3
    assert on_another_thread(turn) == ""  # nothing ran on a GPU yet: none is named
    got = stamped(clock)
    assert on_another_thread(turn) == "GPU-u3"
    assert len(got) == 1
    assert [row[-1] for row in recorder.ring.take("events")] == [3.0]


def test_the_only_gpu_of_a_process_is_known_at_once(cuda: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    clock = cuda_clock(lambda: 1)
    assert clock is not None and clock.device == 0
