"""Lightning as the package `lightning`: step numbers, evaluations and checkpoints; no callback to pass."""

from __future__ import annotations

import sys

from argus.collectors.rank import lightning_events
from argus.collectors.rank.guard import Part
from argus.collectors.rank.session import Session

NEEDS = "lightning.pytorch.trainer.trainer"


def install(session: Session, part: Part) -> None:
    """Follow the events of its trainer."""
    call = sys.modules["lightning.pytorch.trainer.call"]
    trainer = sys.modules[NEEDS].Trainer
    lightning_events.install(call, trainer, session=session, part=part)
