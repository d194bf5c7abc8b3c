"""Optimizer phases and the end of a step, for every optimizer of PyTorch's base class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part
from argus.collectors.rank.open import Frame
from argus.collectors.rank.session import Session

Args = tuple[object, ...]
Kwargs = dict[str, object]

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

    before_safe = part.guard(before)

    def around_closure(instance: Optimizer, closure: Callable[[], object]) -> Callable[[], object]:
        """Forward and backward run inside the step: they are no part of the optimizer phase."""

        def wrapped() -> object:
            after_closure(False)
            try:
                return closure()
            finally:
                before_safe(instance)

        return wrapped

    def close_open(is_end: bool = True) -> None:
        _close_last(recorder.here().tokens, recorder.close)
        if is_end:
            recorder.end_candidate()

    after_closure = part.guard(close_open)

    def pre_hook(instance: Optimizer, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs] | None:
        if state.is_compiling() or not part.is_on:
            return None
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if not callable(closure):
            before_safe(instance)
            return None
        wrapped = around_closure(instance, closure)
        recorder.here().tokens.append(None)
        if len(args) > 1:
            return (args[0], wrapped, *args[2:]), kwargs
        return args, {**kwargs, "closure": wrapped}

    def post_hook(_instance: Optimizer, _args: object, _kwargs: object) -> None:
        if not state.is_compiling():
            after_closure()

    part.on_undo(register_optimizer_step_pre_hook(pre_hook).remove)
    part.on_undo(register_optimizer_step_post_hook(post_hook).remove)


def _close_last(tokens: list[Frame | None], close: Callable[[Frame], None]) -> None:
    frame = tokens.pop() if tokens else None
    if frame is not None:
        close(frame)
