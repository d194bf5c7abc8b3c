"""Forward phases, from the calls of the outermost modules only: to watch each of thousands would cost."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part
from argus.collectors.rank.module_calls import hide_from_scripts, watch
from argus.collectors.rank.open import Frame
from argus.collectors.rank.optimizer_events import Args, Kwargs, optimizer_events
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.session import Session
from argus.collectors.rank.work import work_of
from argus.collectors.records.events import FLAG_EVAL

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

NEEDS = "torch.optim.optimizer"

INSIDE = ("forward", "eval", "backward", "rollout", "reward", "ref")
"""Phases in which a model that is called is part of them: a root in a root, recomputation, generation."""

MAX_LEVEL = 3  # how far below the roots to look when the roots themselves are never called
BLIND_STEPS = (
    2  # whole steps without a forward, not the one of a second optimizer, before anything is changed
)
MAX_PAUSE_STEPS = 512  # between looks for modules while steps have no forward
MAX_EVALS_IN_A_ROW = 3  # steps; a model evaluated in each step is part of the loop, not an evaluation


def install(session: Session, part: Part) -> None:
    """Look for the modules at each optimizer step that follows steps without a forward."""
    hook = ForwardHook(session, part)
    look_safe = part.guard(hook.look)

    def before_step(instance: Optimizer, _args: Args, _kwargs: Kwargs) -> None:
        if not state.is_compiling():
            look_safe(instance)

    optimizer_events().before(before_step, part)
    hide_from_scripts(part)
    part.on_undo(hook.remove)


class ForwardHook:
    """Watches the roots; looks for modules again when optimizers are new or steps showed no forward.

    Where the roots are not called, as those that trainers wrap around a model, their children are watched
    too, until a root is.
    """

    def __init__(self, session: Session, part: Part) -> None:
        import torch

        self._session = session
        self._recorder: Recorder = session.recorder
        self._before, self._after = part.guard(self.before), part.guard(self.after)
        self._before_below = part.guard(self.before_below)
        self._is_grad_enabled: Callable[[], bool] = torch.is_grad_enabled
        self._is_tracing: Callable[[], bool] = torch._C._is_tracing
        self._undo: list[Callable[[], None]] = []
        self._undo_below: list[Callable[[], None]] = []
        self._optimizers: WeakValueDictionary[int, Optimizer] = WeakValueDictionary()
        self._known: set[int] = set()  # ids of the parameters that were looked for, or are in a root
        self._is_new = False
        self._level = 0
        self._looked_at_step = -1
        self._pause_steps = 1
        self._seen_step = -1  # the last one with a forward
        self._below_step = -1  # the last one with a forward that no root was part of
        self._eval_steps: list[int] = []
        names = self._recorder.names
        self._forward, self._eval = names["forward"], names["eval"]
        self._inside = {names[name] for name in INSIDE}

    def look(self, optimizer: Optimizer) -> None:
        """Find the modules that hold the parameters of the optimizers seen so far, if there is a reason to."""
        if self._optimizers.get(id(optimizer)) is not optimizer:
            self._optimizers[id(optimizer)] = optimizer
            self._is_new = self._is_new or not parameters_of([optimizer]) <= self._known
        step = self._recorder.step
        if self._looked_at_step < 0:
            self._find(step)
            return
        since = step - self._looked_at_step
        is_blind = step - self._seen_step >= BLIND_STEPS and since >= BLIND_STEPS
        if since >= self._pause_steps and (is_blind or self._is_new):
            self._level = min(self._level + is_blind, MAX_LEVEL)
            self._pause_steps = min(self._pause_steps * 2, MAX_PAUSE_STEPS)
            self._find(step)
        elif (
            self._undo_below
            and not is_blind
            and step - max(self._below_step, self._looked_at_step) >= BLIND_STEPS
        ):
            self._level = 0
            undo_all(self._undo_below)

    def _find(self, step: int) -> None:
        self._looked_at_step, self._is_new = step, False
        self.remove()
        modules = all_modules()
        self._session.modules_found(modules)
        wanted = parameters_of(self._optimizers.values())
        roots = roots_of(modules, wanted)
        self._known = wanted | {id(parameter) for root in roots for parameter in root.parameters()}
        if not roots:
            self._session.unseen("forward: no module holds the optimizer's parameters")
        for root in roots:
            self._undo.append(watch(root, self._before, self._after))
        for module in below(roots, self._level):
            self._undo_below.append(watch(module, self._before_below, self._after))

    def remove(self) -> None:
        """Watch no module."""
        undo_all(self._undo)
        undo_all(self._undo_below)

    def before(self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """A root is called."""
        recorder = self._recorder
        here = recorder.here()
        if here.stack and any(frame.name in self._inside for frame in here.stack):
            self._seen_step = recorder.current_step  # a framework's hook may time it: the modules are known
            here.tokens.append(None)  # a root inside a root, or recomputation in backward
            return
        native = recorder.ring.intern(type(module).__name__)
        if self._is_grad_enabled() and module.training:
            recorder.begin_iteration()
            self._seen_step = recorder.step
            if not recorder.has_user_work and not self._is_tracing():
                recorder.work(work_of(args, kwargs))
            here.tokens.append(recorder.open(self._forward, native))
            return
        if not module.training:
            self._flag_eval()
        here.tokens.append(recorder.open(self._eval, native))

    def before_below(self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """A module below a root is called."""
        if not self._recorder.here().stack:
            self._below_step = self._recorder.current_step
        self.before(module, args, kwargs)

    def after(self, _module: nn.Module) -> None:
        """It returned or raised."""
        tokens = self._recorder.here().tokens
        frame: Frame | None = tokens.pop() if tokens else None
        if frame is not None:
            self._recorder.close(frame)

    def _flag_eval(self) -> None:
        step = self._recorder.current_step
        if not self._eval_steps or self._eval_steps[-1] != step:
            follows = self._eval_steps and self._eval_steps[-1] == step - 1
            self._eval_steps = [*self._eval_steps, step] if follows else [step]
        if len(self._eval_steps) <= MAX_EVALS_IN_A_ROW:
            self._recorder.flag(FLAG_EVAL)
        else:
            self._eval_steps = self._eval_steps[-MAX_EVALS_IN_A_ROW - 1 :]


def all_modules() -> list[nn.Module]:
    """Every module object of this process."""
    from torch import nn

    # type() and not isinstance: a proxy's __class__ may run anything.
    return [item for item in gc.get_objects() if issubclass(type(item), nn.Module)]


def parameters_of(optimizers: Iterable[Optimizer]) -> set[int]:
    """The ids of their parameters."""
    return {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}


def roots_of(modules: Sequence[nn.Module], wanted: set[int]) -> list[nn.Module]:
    """Those that are no other module's child and hold a parameter whose id is `wanted`."""
    children = {id(child) for module in modules for child in module._modules.values() if child is not None}
    tops = [module for module in modules if id(module) not in children]
    return [module for module in tops if any(id(parameter) in wanted for parameter in module.parameters())]


def below(roots: Sequence[nn.Module], num_levels: int) -> list[nn.Module]:
    """The modules at most `num_levels` below `roots`, each once."""
    found: dict[int, nn.Module] = {}
    level = list(roots)
    for _ in range(num_levels):
        level = [child for module in level for child in module.children()]
        found.update((id(module), module) for module in level)
    return list(found.values())


def undo_all(undo: list[Callable[[], None]]) -> None:
    """Call and forget each."""
    while undo:
        undo.pop()()
