"""Simple rules to stand beside Argus on the same trials: one file each, `accuse(seen, *, rng) -> suspicions`.

The file's name is the system's name, its docstring what it does. They see the windows that Argus sees and nothing
of the truth; a suspicion that repeats in the next windows is one incident. A file with
`answer(case, context, ask, *, endpoint, limits)` instead asks a language model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

import numpy as np

from argus.evals.systems._asked import AskedSystem
from argus.evals.systems._seen import Seen, Suspicion

OURS = "argus"
"""The system under test itself; it is no file here."""


class System(Protocol):
    """A system module's `accuse`."""

    def __call__(self, seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
        """Suspicions in the order of the windows they rest on; each may look back, never ahead."""


@cache
def systems() -> Mapping[str, System]:
    """Every simple system by name, found by walking this folder."""
    return {name: cast(System, call) for name, call in _named("accuse")}


@cache
def asked_systems() -> Mapping[str, AskedSystem]:
    """Every system that asks a model, by name; they are measured where an endpoint is set up (`argus eval agent`)."""
    return {name: cast(AskedSystem, call) for name, call in _named("answer")}


def _named(what: str) -> Iterator[tuple[str, object]]:
    """Modules of this folder with a function of that name."""
    for name in sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_")):
        module = import_module(f"{__name__}.{name}")
        if hasattr(module, what):
            yield name, getattr(module, what)
