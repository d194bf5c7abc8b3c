"""Checkpoints: steps in which the job saves are known, not slow."""

from __future__ import annotations

from argus.collectors.rank.guard import Part
from argus.collectors.rank.open import Frame
from argus.collectors.rank.session import Session
from argus.collectors.rank.wrap import timed
from argus.collectors.records.events import FLAG_CHECKPOINT

NEEDS = "torch.serialization"


def install(session: Session, part: Part) -> None:
    """Wrap `torch.save`."""
    import torch

    recorder = session.recorder
    checkpoint, native = recorder.names["checkpoint"], recorder.ring.intern("torch.save")

    def before() -> Frame | None:
        recorder.flag(FLAG_CHECKPOINT)
        return recorder.open(checkpoint, native)

    def after(frame: Frame) -> None:
        recorder.close(frame)
        recorder.flag(FLAG_CHECKPOINT)

    part.patch(torch, "save", timed(torch.save, part, before=before, after=after))
