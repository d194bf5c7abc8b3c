"""Optimizer phases and the end of a step, for every optimizer of PyTorch's base class."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part
from argus.collectors.rank.optimizer_events import Args, Kwargs, optimizer_events
from argus.collectors.rank.session import Session

if TYPE_CHECKING:
    from torch.optim import Optimizer

NEEDS = "torch.optim.optimizer"


def install(session: Session, part: Part) -> None:
    """Be told of each step."""
    hook = OptimizerHook(session, part)
    optimizer_events().before(hook.pre_hook, part)
    optimizer_events().after(hook.post_hook, part)


class OptimizerHook:
    """What runs before and after each `step`.

    With a closure, forward and backward run inside `step` (Lightning does so): they are no part of the
    optimizer phase, which starts when the closure returns.
    """

    def __init__(self, session: Session, part: Part) -> None:
        self._recorder = session.recorder
        self._part = part
        self._optimizer = session.recorder.names["optimizer"]
        self._open_safe, self._close_safe = part.guard(self._open), part.guard(self._close)
        self._end_safe = part.guard(self._end)

    def pre_hook(self, instance: Optimizer, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs] | None:
        """A step starts; its closure is replaced by one that we see."""
        if state.is_compiling() or not self._part.is_on:
            return None
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        if not callable(closure):
            self._open_safe(instance)
            return None
        self._recorder.here().tokens.append(None)
        wrapped = self._seen(instance, closure)
        if len(args) > 1:
            return (args[0], wrapped, *args[2:]), kwargs
        return args, {**kwargs, "closure": wrapped}

    def post_hook(self, _instance: Optimizer, _args: Args, _kwargs: Kwargs) -> None:
        """It is done: the training step ends here unless another one follows."""
        if not state.is_compiling():
            self._end_safe()

    def _seen(self, instance: Optimizer, closure: Callable[[], object]) -> Callable[[], object]:
        def wrapped() -> object:
            self._close_safe()
            try:
                return closure()
            finally:
                self._open_safe(instance)

        return wrapped

    def _open(self, instance: Optimizer) -> None:
        recorder = self._recorder
        native = recorder.ring.intern(type(instance).__name__)
        recorder.here().tokens.append(recorder.open(self._optimizer, native))

    def _end(self) -> None:
        self._recorder.end_candidate(self._close())

    def _close(self) -> tuple[int, int] | None:
        tokens = self._recorder.here().tokens
        return self._recorder.close(tokens.pop()) if tokens else None
