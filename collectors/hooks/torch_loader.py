"""Data phases: how long the training thread stands in the DataLoader's `next`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part
from argus.collectors.rank.recorder import Frame
from argus.collectors.rank.session import Session

NEEDS = "torch.utils.data.dataloader"


def install(session: Session, part: Part) -> None:
    """Wrap the one `__next__` all loader iterators share."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    recorder = session.recorder
    data, native = recorder.names["data"], recorder.ring.intern("DataLoader")
    original: Callable[..., object] = _BaseDataLoaderIter.__next__
    open_safe = part.guard(recorder.open)

    def after(frame: Frame) -> None:
        recorder.close(frame)
        if recorder.here() is recorder.train:
            dur_ns = recorder.now_ns() - frame.start_ns
            recorder.event("loader_wait", start_ns=frame.start_ns, dur_ns=dur_ns)

    after_safe = part.guard(after)

    @wraps(original)
    def wrapper(iterator: object) -> object:
        if not part.is_on or state.is_compiling():
            return original(iterator)
        frame = open_safe(data, native)
        try:
            return original(iterator)
        finally:
            if frame is not None:
                after_safe(frame)

    part.patch(_BaseDataLoaderIter, "__next__", wrapper)
