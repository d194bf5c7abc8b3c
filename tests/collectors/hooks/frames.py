"""The public shapes of frameworks that do not install here, as small modules of the same names."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import ModuleSpec


def module(name: str, members: Mapping[str, object]) -> types.ModuleType:
    """A module that looks imported."""
    made = types.ModuleType(name)
    made.__spec__ = ModuleSpec(name, None)
    vars(made).update(members)
    for value in members.values():
        if isinstance(value, type):
            value.__module__ = name
    return made


@contextmanager
def imported(*modules: types.ModuleType) -> Iterator[None]:
    """The modules in `sys.modules`, and out again."""
    sys.modules.update({made.__name__: made for made in modules})
    try:
        yield
    finally:
        for made in modules:
            del sys.modules[made.__name__]
