"""Checkpoints: steps in which the job saves are known, not slow."""

from __future__ import annotations

from functools import wraps

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part
from argus.collectors.rank.recorder import Frame
from argus.collectors.rank.session import Session
from argus.collectors.records.events import FLAG_CHECKPOINT

NEEDS = "torch.serialization"


def install(session: Session, part: Part) -> None:
    """Wrap `torch.save`."""
    import torch

    recorder = session.recorder
    checkpoint, native = recorder.names["checkpoint"], recorder.ring.intern("torch.save")
    original = torch.save

    def before() -> Frame:
        recorder.flag(FLAG_CHECKPOINT)
        return recorder.open(checkpoint, native)

    def after(frame: Frame) -> None:
        recorder.close(frame)
        recorder.flag(FLAG_CHECKPOINT)

    before_safe, after_safe = part.guard(before), part.guard(after)

    @wraps(original)
    def wrapper(*args: object, **kwargs: object) -> object:
        if not part.is_on or state.is_compiling():
            return original(*args, **kwargs)  # type: ignore[arg-type]
        frame = before_safe()
        try:
            return original(*args, **kwargs)  # type: ignore[arg-type]
        finally:
            if frame is not None:
                after_safe(frame)

    part.patch(torch, "save", wrapper)
