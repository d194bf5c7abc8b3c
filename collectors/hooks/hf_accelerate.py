"""Accelerate: clipping and checkpoints; its loaders, backward and optimizers are torch's own and seen there."""

from __future__ import annotations

import sys

from argus.collectors.rank.guard import Part
from argus.collectors.rank.native import Native
from argus.collectors.rank.session import Session

NEEDS = "accelerate.accelerator"


def install(session: Session, part: Part) -> None:
    """Wrap the methods of Accelerator."""
    accelerator = sys.modules[NEEDS].Accelerator
    native = Native(session, part)
    native.patch(accelerator, "clip_grad_norm_", native="clip_grad_norm_")
    for name in ("save_state", "load_state"):
        native.patch_mark(accelerator, name, mark="checkpoint")
