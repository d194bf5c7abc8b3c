"""Calls of a module, seen where PyTorch looks up a compiled one: neither copies nor pickles nor scripts have that.

A hook would be part of the module: TorchScript compiles every hook it finds, a copy and a checkpoint
carry it, a compiled graph is traced again when it comes or goes. `nn.Module` leaves `_compiled_call_impl`
out of all that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from weakref import ref

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part

if TYPE_CHECKING:
    from torch import nn

SLOT = "_compiled_call_impl"

Before = Callable[["nn.Module", tuple[object, ...], dict[str, object]], object]
After = Callable[["nn.Module"], object]


class WatchedCall:
    """What a watched module is called through: `before` and `after` around the call it would have had."""

    def __init__(self, module: nn.Module) -> None:
        self._module: Callable[[], Any] = ref(module)
        self._had = SLOT in module.__dict__
        self.compiled: Callable[..., object] | None = getattr(module, SLOT)
        self.pairs: tuple[tuple[Before, After], ...] = ()

    def __call__(self, *args: object, **kwargs: object) -> object:
        module = self._module()
        if state.is_compiling():
            return (self.compiled or module._call_impl)(*args, **kwargs)
        caller: Any = sys._getframe(1).f_locals.get("self")
        if caller is not module and getattr(caller, "__dict__", {}).get(SLOT) is self:
            # A copy that shares our attributes, as data parallelism makes them: it means itself.
            return (self.compiled or caller._call_impl)(*args, **kwargs)
        call: Callable[..., object] = self.compiled or module._call_impl
        pairs = self.pairs
        for before, _ in pairs:
            before(module, args, kwargs)
        try:
            return call(*args, **kwargs)
        finally:
            for _, after in reversed(pairs):
                after(module)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()  # a class whose own __getstate__ keeps it has none in its copies

    def drop(self, pair: tuple[Before, After]) -> None:
        """Stop calling `pair`; with the last one the module is as it was."""
        self.pairs = tuple(one for one in self.pairs if one is not pair)
        module = self._module()
        if self.pairs or module is None or module.__dict__.get(SLOT) is not self:
            return
        if self._had:
            module.__dict__[SLOT] = self.compiled
        else:
            del module.__dict__[SLOT]


def watch(module: nn.Module, before: Before, after: After) -> Callable[[], None]:
    """Call `before(module, args, kwargs)` and `after(module)` around each call of it, until what is returned is called.

    Neither may raise. Nothing is called while a graph is traced.
    """
    call = module.__dict__.get(SLOT)
    if not isinstance(call, WatchedCall):
        call = WatchedCall(module)
        module.__dict__[SLOT] = call  # some classes pass on what is set on them to a module inside
    pair = (before, after)
    call.pairs = (*call.pairs, pair)
    watched = call
    return lambda: watched.drop(pair)


def hide_from_scripts(part: Part) -> None:
    """Have `torch.jit.script` pass over the slot as over a module's hooks and buffers, until `part` is off."""
    from torch.jit import _recursive

    ignored: list[str] = _recursive.ignored_attributes
    ignored.append(SLOT)
    part.on_undo(lambda: ignored.remove(SLOT))


def is_compiled(module: nn.Module) -> bool:
    """Whether the user compiled it in place or around it."""
    call = getattr(module, SLOT, None)
    if isinstance(call, WatchedCall):
        call = call.compiled
    return call is not None or hasattr(module, "_torchdynamo_orig_callable")
