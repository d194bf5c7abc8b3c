"""One pair of global optimizer hooks for the life of the process; ours come and go behind it.

PyTorch iterates over its hooks while they run: one that is added or removed in that moment, by the first
step or by a failing collector, would raise into training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from argus.collectors.rank.guard import Part

if TYPE_CHECKING:
    from torch.optim import Optimizer

Args = tuple[object, ...]
Kwargs = dict[str, object]
Before = Callable[["Optimizer", Args, Kwargs], tuple[Args, Kwargs] | None]
After = Callable[["Optimizer", Args, Kwargs], None]


class OptimizerEvents:
    """Who is told before and after each `optimizer.step`, in this order."""

    def __init__(self) -> None:
        self._before: list[Before] = []
        self._after: list[After] = []

    def before(self, call: Before, part: Part) -> None:
        """Call ahead of each step until `part` is off; what it returns replaces the step's arguments."""
        self._before.append(call)
        part.on_undo(lambda: self._before.remove(call))

    def after(self, call: After, part: Part) -> None:
        """Call behind each step until `part` is off."""
        self._after.append(call)
        part.on_undo(lambda: self._after.remove(call))

    def pre_hook(self, instance: Optimizer, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs] | None:
        """What PyTorch calls first."""
        changed = None
        for call in tuple(self._before):
            found = call(instance, args, kwargs)
            if found is not None:
                changed = args, kwargs = found
        return changed

    def post_hook(self, instance: Optimizer, args: Args, kwargs: Kwargs) -> None:
        """What PyTorch calls last."""
        for call in tuple(self._after):
            call(instance, args, kwargs)


_events: OptimizerEvents | None = None


def optimizer_events() -> OptimizerEvents:
    """The process's events; hooks PyTorch at the first call, which must not come from inside a step."""
    global _events
    if _events is None:
        from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

        _events = OptimizerEvents()
        register_optimizer_step_pre_hook(_events.pre_hook)
        register_optimizer_step_post_hook(_events.post_hook)
    return _events
