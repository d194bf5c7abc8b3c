"""Backward phases: `torch.autograd.backward`, which `Tensor.backward` and pipelines call too."""

from __future__ import annotations

from argus.collectors.rank.guard import Part
from argus.collectors.rank.open import NO_FRAME, Frame
from argus.collectors.rank.session import Session
from argus.collectors.rank.wrap import timed

NEEDS = "torch.autograd"


def install(session: Session, part: Part) -> None:
    """Wrap the function where everybody looks it up."""
    import torch

    original = torch.autograd.backward
    recorder = session.recorder
    backward, native = recorder.names["backward"], recorder.ring.intern("autograd.backward")
    waiting, reducer = recorder.names["grad_sync"], recorder.ring.intern("DDP reducer")

    def before() -> Frame | None:
        if any(frame.name == backward for frame in recorder.here().stack):
            return None  # checkpointed recomputation calls it again inside itself
        recorder.begin_iteration()
        recorder.forget_bucket()
        return recorder.open(backward, native) or NO_FRAME

    def after(frame: Frame) -> None:
        recorder.after_backward = True
        if recorder.gpu is not None:
            frame.wait_stamp, recorder.last_bucket = recorder.last_bucket, None
        elif recorder.last_bucket_ns:
            # All gradients are there once the last bucket is: the rest is waiting for the others.
            recorder.detail(waiting, reducer, start_ns=recorder.last_bucket_ns, end_ns=recorder.now_ns())
            recorder.last_bucket_ns = 0
        recorder.close(frame)

    part.patch(torch.autograd, "backward", timed(original, part, before=before, after=after))
