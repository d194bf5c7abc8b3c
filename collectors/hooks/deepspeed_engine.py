"""DeepSpeed's engine: forward, backward, gradient reduction and step under its own timer names."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from argus.collectors.rank.guard import Part
from argus.collectors.rank.native import Args, Native, around
from argus.collectors.rank.open import Frame
from argus.collectors.rank.session import Session

NEEDS = "deepspeed.runtime.engine"

NATIVE = {"forward": "fwd", "backward": "bwd", "allreduce_gradients": "bwd_allreduce"}


def install(session: Session, part: Part) -> None:
    """Wrap the methods of the engine; a step ends where gradients are accumulated."""
    engine = sys.modules[NEEDS].DeepSpeedEngine
    native = Native(session, part)
    for name, phase in NATIVE.items():
        native.patch(engine, name, native=phase)
    for name in ("save_checkpoint", "load_checkpoint"):
        native.patch_mark(engine, name, mark="checkpoint")
    step = StepHook(session, native)
    wrapper = around(engine.step, part, before=step.before, after=step.after)
    part.patch(engine, "step", wrapper)


class StepHook:
    """`engine.step()`, of which only the one at the accumulation boundary ends the training step."""

    def __init__(self, session: Session, native: Native) -> None:
        self._recorder = session.recorder
        self._native = native

    def before(self, args: Args, _kwargs: Mapping[str, object]) -> tuple[object, Frame | None] | None:
        """Asked before the engine counts the micro-step."""
        engine = args[0]
        is_boundary = getattr(engine, "is_gradient_accumulation_boundary", None)
        if is_boundary is not None and not is_boundary():
            return None
        return engine, self._native.open("step")

    def after(self, opened: tuple[object, Frame | None]) -> None:
        """The optimizer is done."""
        engine, frame = opened
        if frame is not None:
            self._native.close(frame)
        number = getattr(engine, "global_steps", -1)
        self._recorder.number_step(number if isinstance(number, int) else -1)
        self._recorder.end_candidate()
