"""Phases inside the model (`self_attention`, `mlp`, `moe`, …) without code changes, in sampled steps only.

The steps are the same on every rank and stay out of baselines; in all others no module is watched.
Only forward is timed: hooks on a module's backward would change the autograd graph.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from argus.collectors.rank.guard import Part
from argus.collectors.rank.module_calls import hide_from_scripts, is_compiled, watch
from argus.collectors.rank.session import Session

if TYPE_CHECKING:
    from torch import nn

NEEDS = "torch.optim.optimizer"

MAX_MODULES = 512
"""Modules timed in a sampled step; a model of 200 layers has about 400 that matter."""

MIN_REPEATED = 4
"""Children of a container that is a stack of layers, where no name tells what they are."""

PATTERNS = (
    ("moe", re.compile(r"moe|mixture|experts")),
    ("self_attention", re.compile(r"attn|attention")),
    ("mlp", re.compile(r"mlp|feed_?forward|ffn")),
    ("embedding", re.compile(r"embed|wte|tok_embeddings")),
    ("lm_head", re.compile(r"lm_head|output_layer")),
)
"""Phase and what its modules are called, by class or attribute, in lower case; the first match counts."""


def install(session: Session, part: Part) -> None:
    """Note the modules when they are looked for; watch them while a profiled step runs."""
    hook = ModuleHook(session, part)
    session.on_modules(part.guard(hook.found))
    session.recorder.channels.on_profile.append(part.guard(hook.profile))
    hide_from_scripts(part)
    part.on_undo(hook.remove)


class ModuleHook:
    """Which modules to time, and how to stop."""

    def __init__(self, session: Session, part: Part) -> None:
        self._recorder = session.recorder
        self._session = session
        self._before, self._after = part.guard(self.before), part.guard(self.after)
        self._native: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
        self._undo: list[Callable[[], None]] = []

    def found(self, modules: Sequence[nn.Module]) -> None:
        """Choose among all modules of the process."""
        children = {
            id(child) for module in modules for child in module._modules.values() if child is not None
        }
        tops = [module for module in modules if id(module) not in children]
        self._native = WeakKeyDictionary()
        for top in tops:
            for module, native in chosen(top):
                if len(self._native) >= MAX_MODULES:
                    self._session.unseen(f"modules: more than {MAX_MODULES}, the rest is not timed")
                    return
                self._native[module] = self._recorder.ring.intern(native)

    def profile(self, is_on: bool) -> None:
        """A profiled step starts or is over."""
        self.remove()
        if not is_on:
            return
        for module in list(self._native):
            self._undo.append(watch(module, self._before, self._after))

    def remove(self) -> None:
        """Stop watching."""
        while self._undo:
            self._undo.pop()()

    def before(self, module: nn.Module, *_args: object) -> None:
        """A chosen module is called; outside of every phase it belongs to no step's time."""
        here = self._recorder.here()
        native = self._native.get(module, 0)
        top = here.stack[-1:]
        frame = self._recorder.open(top[0].name, native) if top else None
        here.tokens.append(frame)

    def after(self, _module: nn.Module) -> None:
        """It returned or raised."""
        tokens = self._recorder.here().tokens
        frame = tokens.pop() if tokens else None
        if frame is not None:
            self._recorder.close(frame)


def chosen(top: nn.Module) -> list[tuple[nn.Module, str]]:
    """Modules under `top` with their phase: by name, else the layers of a stack by their class."""
    named = list(_by_name(top))
    return named or list(_by_stack(top))


def _by_name(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    if is_compiled(module):
        return  # what runs inside a compiled graph cannot be timed from here
    for name, child in module.named_children():
        text = f"{name} {type(child).__name__}".lower()
        phase = next((phase for phase, pattern in PATTERNS if pattern.search(text)), None)
        is_list = type(child).__name__ in ("ModuleList", "ModuleDict")  # never called
        if phase is None or is_list:
            yield from _by_name(child)
        elif not is_compiled(child):
            yield child, phase


def _by_stack(module: nn.Module) -> Iterator[tuple[nn.Module, str]]:
    if is_compiled(module):
        return
    children = list(module.children())
    if len(children) >= MIN_REPEATED and len({type(child) for child in children}) < len(children):
        yield from ((child, type(child).__name__) for child in children if not is_compiled(child))
        return
    for child in children:
        yield from _by_stack(child)
