"""Data phases: how long the training thread stands in the DataLoader's `next`."""

from __future__ import annotations

from argus.collectors.rank.guard import Part
from argus.collectors.rank.open import Frame
from argus.collectors.rank.session import Session
from argus.collectors.rank.wrap import timed

NEEDS = "torch.utils.data.dataloader"


def install(session: Session, part: Part) -> None:
    """Wrap the one `__next__` all loader iterators share."""
    from torch.utils.data.dataloader import _BaseDataLoaderIter

    recorder = session.recorder
    data, native = recorder.names["data"], recorder.ring.intern("DataLoader")

    def before() -> Frame | None:
        return recorder.open(data, native)

    def after(frame: Frame) -> None:
        recorder.close(frame)
        if recorder.here() is recorder.train:
            dur_ns = recorder.now_ns() - frame.start_ns
            recorder.event("loader_wait", start_ns=frame.start_ns, dur_ns=dur_ns)

    wrapper = timed(_BaseDataLoaderIter.__next__, part, before=before, after=after)
    part.patch(_BaseDataLoaderIter, "__next__", wrapper)
