"""Optimizer phases and the end of a step, for every optimizer of PyTorch's base class."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part
from argus.collectors.rank.open import NO_FRAME
from argus.collectors.rank.optimizer_events import Args, Kwargs, optimizer_events
from argus.collectors.rank.session import Session

if TYPE_CHECKING:
    from types import CodeType, FrameType

    from torch.optim import Optimizer

NEEDS = "torch.optim.optimizer"


def install(session: Session, part: Part) -> None:
    """Be told of each step."""
    hook = OptimizerHook(session, part)
    session.recorder.on_left_open = part.guard(hook.drop_raised)
    optimizer_events().before(hook.pre_hook, part)
    optimizer_events().after(hook.post_hook, part)


class OptimizerHook:
    """What runs before and after each `step`.

    With a closure, forward and backward run inside `step` (Lightning does so): they are no part of the
    optimizer phase, which starts when the closure returns. PyTorch tells nobody of a `step` that raised:
    it is noticed when the next phase begins, and ends its training step there, as a loop that catches
    the error goes on to the next batch. How long its optimizer phase was is not known.
    """

    def __init__(self, session: Session, part: Part) -> None:
        from torch.optim import Optimizer

        self._recorder = session.recorder
        self._part = part
        self._optimizer = session.recorder.names["optimizer"]
        self._open_safe, self._close_safe = part.guard(self._open), part.guard(self._close)
        self._enter_safe, self._end_safe = part.guard(self._enter), part.guard(self._end)
        self._step_code = Optimizer.profile_hook_step(_nothing).__code__  # the same for every optimizer

    def pre_hook(self, instance: Optimizer, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs] | None:
        """A step starts; its closure is replaced by one that we see."""
        if state.is_compiling() or not self._part.is_on:
            return None
        closure = args[1] if len(args) > 1 else kwargs.get("closure")
        self._enter_safe()
        if not callable(closure):
            self._open_safe(instance)
            return None
        wrapped = self._seen(instance, closure)
        if len(args) > 1:
            return (args[0], wrapped, *args[2:]), kwargs
        return args, {**kwargs, "closure": wrapped}

    def post_hook(self, _instance: Optimizer, _args: Args, _kwargs: Kwargs) -> None:
        """It is done: the training step ends here unless another one follows."""
        if not state.is_compiling():
            self._end_safe()

    def drop_raised(self, *, num_entering: int = 0) -> None:
        """Forget the steps of this thread that were entered and run no more; `num_entering` are not noted yet."""
        updates = self._recorder.here().updates
        num_running = _num_running(self._step_code) - num_entering
        if len(updates) <= num_running:
            return
        while len(updates) > max(num_running, 0):
            frame = updates.pop()
            if frame is not None:
                self._recorder.discard(frame)
        self._recorder.end_candidate()

    def _seen(self, instance: Optimizer, closure: Callable[[], object]) -> Callable[[], object]:
        def wrapped() -> object:
            self._close_safe()
            try:
                return closure()
            finally:
                self._open_safe(instance)

        return wrapped

    def _enter(self) -> None:
        updates = self._recorder.here().updates
        if updates:
            self.drop_raised(num_entering=1)
        updates.append(NO_FRAME)

    def _open(self, instance: Optimizer) -> None:
        recorder = self._recorder
        native = recorder.ring.intern(type(instance).__name__)
        updates = recorder.here().updates
        if updates:
            updates[-1] = recorder.open(self._optimizer, native) or NO_FRAME

    def _close(self) -> tuple[int, int] | None:
        """The closure starts, or the step is done."""
        updates = self._recorder.here().updates
        if not updates:
            return None
        frame, updates[-1] = updates[-1], None
        return self._recorder.close(frame)

    def _end(self) -> None:
        updates = self._recorder.here().updates
        if len(updates) > 1:
            self.drop_raised()  # one inside this one
        at = self._close()
        if updates:
            updates.pop()
        self._recorder.end_candidate(at)


def _nothing() -> None:
    pass


def _num_running(code: CodeType) -> int:
    """How many calls of `code` this thread is in."""
    num = 0
    caller: FrameType | None = sys._getframe(1)
    while caller is not None:
        num += caller.f_code is code
        caller = caller.f_back
    return num
