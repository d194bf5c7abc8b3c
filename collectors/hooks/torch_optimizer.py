"""Optimizer phases and the end of a step, for every optimizer of PyTorch's base class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part
from argus.collectors.rank.open import Frame
from argus.collectors.rank.session import Session

if TYPE_CHECKING:
    from torch.optim import Optimizer

NEEDS = "torch.optim.optimizer"


def install(session: Session, part: Part) -> None:
    """Register the global hooks."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    recorder = session.recorder
    optimizer = recorder.names["optimizer"]

    def before(instance: Optimizer) -> None:
        native = recorder.ring.intern(type(instance).__name__)
        recorder.here().tokens.append(recorder.open(optimizer, native))

    def after() -> None:
        _close_last(recorder.here().tokens, recorder.close)
        recorder.end_candidate()

    before_safe, after_safe = part.guard(before), part.guard(after)

    def pre_hook(instance: Optimizer, _args: object, _kwargs: object) -> None:
        if not state.is_compiling():
            before_safe(instance)

    def post_hook(_instance: Optimizer, _args: object, _kwargs: object) -> None:
        if not state.is_compiling():
            after_safe()

    part.on_undo(register_optimizer_step_pre_hook(pre_hook).remove)
    part.on_undo(register_optimizer_step_post_hook(post_hook).remove)


def _close_last(tokens: list[Frame | None], close: Callable[[Frame], None]) -> None:
    frame = tokens.pop() if tokens else None
    if frame is not None:
        close(frame)
