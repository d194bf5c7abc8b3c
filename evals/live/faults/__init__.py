"""One file per fault of a real job.

The file's name is the fault's name, its docstring its documentation. `WORKLOADS` are the jobs it makes sense in, the
first by default; `SETTING` is what it needs of them from the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from argus.evals.live.machine import Machine
from argus.evals.live.scene import Scene, Setting
from argus.evals.live.truth import Truth


class Fault(Protocol):
    """A fault's module."""

    __doc__: str | None
    WORKLOADS: tuple[str, ...]
    SETTING: Setting

    def truth(self, *, rank: int, ranks: int) -> Truth:
        """What is to be named when it strikes `rank`."""

    def can(self, machine: Machine) -> str | None:
        """Why it cannot be played here, None if it can."""

    def hit(self, scene: Scene) -> AbstractContextManager[object]:
        """Applied on entering, undone on leaving, whatever happened in between."""


@cache
def faults() -> Mapping[str, Fault]:
    """Every fault by name, found by walking this folder."""
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return {name: cast(Fault, import_module(f"{__name__}.{name}")) for name in names}
