"""One file per fault, with its truth: `scenario(*, seed, ranks, severity) -> Scenario`, pure.

The file's name is the scenario's name, its docstring its documentation. Nothing a detector sees may
hold the name, the seed or the truth. MIN_RANKS is the least size its fault can be told at; MISSED says why Argus is
wrong in it today, so that the miss is on record and its end is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, wraps
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Protocol, cast

from argus.evals.expected import completed
from argus.evals.truth import Scenario


class Maker(Protocol):
    """A scenario module's `scenario`."""

    def __call__(self, *, seed: int = 0, ranks: int = 8, severity: float = 1.5) -> Scenario:
        """The trial of this seed, size and severity (see `simulator.job.Fault`)."""


@cache
def scenarios() -> Mapping[str, Maker]:
    """Every scenario by name, found by walking this folder."""
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return {name: _maker(cast(Maker, import_module(f"{__name__}.{name}").scenario)) for name in names}


def _maker(make: Maker) -> Maker:
    """The module's function, its truths filled in with what follows from class and layout."""

    @wraps(make)
    def made(**settings: Any) -> Scenario:
        return completed(make(**settings))

    return cast(Maker, made)
