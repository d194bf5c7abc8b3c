"""GradScaler, which skips the optimizer after an overflow: that is a step too."""

from __future__ import annotations

from argus.collectors.rank.guard import Part
from argus.collectors.rank.open import NO_FRAME, Frame
from argus.collectors.rank.session import Session
from argus.collectors.rank.wrap import timed

NEEDS = "torch.amp.grad_scaler"


def install(session: Session, part: Part) -> None:
    """Wrap `step` and `update`."""
    from torch.amp.grad_scaler import GradScaler

    recorder = session.recorder
    optimizer, native = recorder.names["optimizer"], recorder.ring.intern("GradScaler")

    def before() -> Frame:
        return recorder.open(optimizer, native) or NO_FRAME

    def after(frame: Frame) -> None:
        recorder.close(frame)
        recorder.end_candidate()

    for name in ("step", "update"):
        part.patch(GradScaler, name, timed(getattr(GradScaler, name), part, before=before, after=after))
