"""What CUDA adds: GPU times resolved by polling, the allocator's retries, copies to the device."""

from __future__ import annotations

import sys
from functools import wraps
from typing import TYPE_CHECKING

from argus.collectors.rank import state
from argus.collectors.rank.gpu import GpuClock
from argus.collectors.rank.guard import Part
from argus.collectors.rank.session import Session

if TYPE_CHECKING:
    import torch

NEEDS = "torch.cuda"

RESIDUAL_EVENT = "clock_residual:cuda"
"""EVENT kind: value is by how many ns the stream's clock had moved since it was last anchored."""


def install(session: Session, part: Part) -> None:
    """Poll on the writer thread but while a graph is captured; wrap `Tensor.to` and `Tensor.cuda`."""
    import torch

    gpu = session.recorder.gpu
    if gpu is None:
        return
    recorder = session.recorder

    def anchored(residual_ns: int) -> None:
        recorder.event(RESIDUAL_EVENT, start_ns=recorder.now_ns(), dur_ns=0, value=float(residual_ns))

    gpu.on_anchor = anchored
    pause_in_captures(gpu, part)
    session.on_tick(part.guard(gpu.poll))
    session.on_tick(part.guard(AllocatorRetries(session, gpu).look))
    for name in ("to", "cuda"):
        part.patch(torch.Tensor, name, copy_timer(session, part, name=name))


def pause_in_captures(gpu: GpuClock, part: Part) -> None:
    """Have the clock rest from a graph's `capture_begin` to its `capture_end`, which all ways to capture go through."""
    import torch

    graph = torch.cuda.CUDAGraph
    begin, end = graph.capture_begin, graph.capture_end

    @wraps(begin)
    def capture_begin(*args: object, **kwargs: object) -> None:
        gpu.begin_capture()
        try:
            begin(*args, **kwargs)  # type: ignore[arg-type]
        except BaseException:
            gpu.end_capture()
            raise

    @wraps(end)
    def capture_end(*args: object, **kwargs: object) -> None:
        try:
            end(*args, **kwargs)  # type: ignore[arg-type]
        finally:
            gpu.end_capture()

    part.patch(graph, "capture_begin", capture_begin)
    part.patch(graph, "capture_end", capture_end)


class AllocatorRetries:
    """An event when the caching allocator had to flush and ask the driver again."""

    def __init__(self, session: Session, gpu: GpuClock) -> None:
        self._recorder = session.recorder
        self._gpu = gpu
        self._known = 0

    def look(self) -> None:
        """Compare with the last look; never initialises CUDA."""
        torch = sys.modules["torch"]
        device = self._gpu.device
        if device is None or not torch.cuda.is_initialized():
            return
        retries = int(torch.cuda.memory_stats(device).get("num_alloc_retries", 0))
        if retries > self._known:
            now_ns = self._recorder.now_ns()
            self._recorder.event("alloc_retry", start_ns=now_ns, dur_ns=0, value=float(retries - self._known))
        self._known = retries


def copy_timer(session: Session, part: Part, *, name: str) -> object:
    """The wrapper of a method that copies a host tensor to the device: the h2d phase."""
    import torch

    recorder = session.recorder
    original = getattr(torch.Tensor, name)
    h2d, native = recorder.names["h2d"], recorder.ring.intern(f"Tensor.{name}")
    open_safe, close_safe = part.guard(recorder.open), part.guard(recorder.close)
    always = name == "cuda"

    @wraps(original)
    def wrapper(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        if not part.is_on or state.is_compiling() or tensor.is_cuda:
            return original(tensor, *args, **kwargs)  # type: ignore[no-any-return]
        target = args[0] if args else kwargs.get("device")
        if not always and not str(target).startswith("cuda"):
            return original(tensor, *args, **kwargs)  # type: ignore[no-any-return]
        frame = open_safe(h2d, native)
        try:
            return original(tensor, *args, **kwargs)  # type: ignore[no-any-return]
        finally:
            if frame is not None:
                close_safe(frame)

    return wrapper
