"""Forward phases, from hooks on the outermost modules only: a hook on each of thousands would cost."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from argus.collectors.rank import state
from argus.collectors.rank.guard import LOGGER, Part
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
    part.on_undo(hook.remove)


class RootHook:
    """A module hook that leaves nothing of ours in a pickled or copied model."""

    def __init__(self, call: Callable[..., None]) -> None:
        self._call = call

    def __call__(self, module: nn.Module, *args: object) -> None:
        if not state.is_compiling():
            self._call(module, *args)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        # A bound method of the standard library that takes anything and returns None stands in for us.
        return getattr, (logging.getLogger(LOGGER), "debug")


class ForwardHook:
    """Hooks on the roots, looked for again after steps that showed no forward."""

    def __init__(self, session: Session, part: Part) -> None:
        import torch

        self._session = session
        self._recorder: Recorder = session.recorder
        self._before = RootHook(part.guard(self.before))
        self._after = RootHook(part.guard(self.after))
        self._is_grad_enabled: Callable[[], bool] = torch.is_grad_enabled
        self._undo: list[Callable[[], None]] = []
        self._guard = part.guard
        self._level = 0
        self._looked_at_step = -1
        self._pause_steps = 1
        self._seen = 0
        self._eval_steps: list[int] = []
        names = self._recorder.names
        self._forward, self._eval = names["forward"], names["eval"]
        self._inside = {names[name] for name in INSIDE}

    def look(self, optimizer: Optimizer) -> None:
        """Find the modules that hold this optimizer's parameters, unless forwards are seen already."""
        step = self._recorder.step
        if self._seen or (self._looked_at_step >= 0 and step < self._looked_at_step + self._pause_steps):
            self._seen = 0
            return
        if self._looked_at_step >= 0:
            self._level = min(self._level + 1, MAX_LEVEL)
            self._pause_steps = min(self._pause_steps * 2, MAX_PAUSE_STEPS)
        self._looked_at_step = step
        self.remove()
        modules = all_modules()
        self._session.modules_found(modules)
        roots = roots_of(modules, optimizer)
        for _ in range(self._level):
            roots = [child for root in roots for child in (list(root.children()) or [root])]
        if not roots:
            self._session.unseen("forward: no module holds the optimizer's parameters")
        for root in roots:
            self._hook(root)

    def _hook(self, root: nn.Module) -> None:
        compiled = getattr(root, "_compiled_call_impl", None)
        if compiled is not None:
            # Hooks would be traced into the graph; the compiled call itself is timed instead.
            timed = self._timed(root, compiled)
            root._compiled_call_impl = timed
            self._undo.append(lambda: _restore_compiled(root, timed, compiled))
            return
        self._undo.append(root.register_forward_pre_hook(self._before, prepend=True, with_kwargs=True).remove)
        self._undo.append(root.register_forward_hook(self._after, always_call=True).remove)

    def _timed(self, root: nn.Module, compiled: Callable[..., object]) -> Callable[..., object]:
        before, after = self._guard(self.before), self._guard(self.after)

        def timed(*args: object, **kwargs: object) -> object:
            if state.is_compiling():
                return compiled(*args, **kwargs)
            before(root, args, kwargs)
            try:
                return compiled(*args, **kwargs)
            finally:
                after(root)

        return timed

    def remove(self) -> None:
        """Take the hooks off the modules."""
        while self._undo:
            self._undo.pop()()

    def before(self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """A root is called."""
        recorder = self._recorder
        here = recorder.here()
        if here.stack and any(frame.name in self._inside for frame in here.stack):
            self._seen += 1  # a framework's hook times it: the modules are known all the same
            here.tokens.append(None)  # a root inside a root, or recomputation in backward
            return
        native = recorder.ring.intern(type(module).__name__)
        if self._is_grad_enabled() and module.training:
            self._seen += 1
            recorder.begin_iteration()
            if not recorder.has_user_work:
                recorder.work(work_of(args, kwargs))
            here.tokens.append(recorder.open(self._forward, native))
            return
        if not module.training:
            self._flag_eval()
        here.tokens.append(recorder.open(self._eval, native))

    def after(self, _module: nn.Module, *_args: object) -> None:
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


def roots_of(modules: Sequence[nn.Module], optimizer: Optimizer) -> list[nn.Module]:
    """Those that are no other module's child and hold a parameter of `optimizer`."""
    wanted = {id(p) for group in optimizer.param_groups for p in group["params"]}
    children = {id(child) for module in modules for child in module._modules.values() if child is not None}
    tops = [module for module in modules if id(module) not in children]
    return [module for module in tops if _holds(module.parameters(), wanted)]


def _holds(parameters: Iterable[object], wanted: set[int]) -> bool:
    return any(id(parameter) in wanted for parameter in parameters)


def _restore_compiled(root: nn.Module, ours: object, before: Callable[..., object]) -> None:
    if root._compiled_call_impl is ours:
        root._compiled_call_impl = before
