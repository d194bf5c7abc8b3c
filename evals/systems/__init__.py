"""Simple rules to stand beside Argus on the same trials: one file each, `accuse(seen, *, rng) -> suspicions`.

The file's name is the system's name, its docstring what it does, `READS` the tables of a rank's window it looks at.
They see the windows that Argus sees and nothing of the truth; a suspicion that repeats in the next windows is one
incident. A file that offers `answer(case, context, ask, *, endpoint, limits)` instead asks a language model, once of
the whole job or, with OF_EACH_INCIDENT, of every incident that the analysis opened; one with `accuse_traces(files)` and
`why_not()` is a peer: a tool of others, run on traces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Protocol, cast

import numpy as np

from argus.evals.systems._asked import AskedSystem
from argus.evals.systems._seen import Seen, Suspicion

OURS = "argus"
"""The system under test itself; it is no file here."""

ALL_TABLES = frozenset({"steps", "cells", "collectives", "events", "details", "kernels", "use"})


class System(Protocol):
    """A system module's `accuse`."""

    def __call__(self, seen: Sequence[Seen], *, rng: np.random.Generator) -> Iterator[Suspicion]:
        """Suspicions in the order of the windows they rest on; each may look back, never ahead."""


class Peer(Protocol):
    """A module for a tool of others that reads trace files instead of windows."""

    def why_not(self) -> str:
        """Why it cannot be run here, "" if it can."""

    def accuse_traces(self, files: Mapping[int, Path]) -> tuple[int, ...]:
        """The ranks it names, given each rank's file."""


@cache
def systems() -> Mapping[str, System]:
    """Every simple system by name, found by walking this folder."""
    return {name: cast(System, call) for name, call in _named("accuse")}


@cache
def asked_systems() -> Mapping[str, AskedSystem]:
    """Every system that asks a model, by name; they are measured where an endpoint is set up."""
    return {name: cast(AskedSystem, call) for name, call in _named("answer")}


def is_asked_of_each(name: str) -> bool:
    """Whether a system that asks a model is asked of every incident, not once of the job."""
    return bool(getattr(import_module(f"{__name__}.{name}"), "OF_EACH_INCIDENT", False))


@cache
def peers() -> Mapping[str, Peer]:
    """Every peer by name, found by walking this folder, installed or not."""
    return {name: cast(Peer, import_module(f"{__name__}.{name}")) for name, _ in _named("accuse_traces")}


def _named(what: str) -> Iterator[tuple[str, object]]:
    """Modules of this folder with a function of that name."""
    for name in sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_")):
        module = import_module(f"{__name__}.{name}")
        if hasattr(module, what):
            yield name, getattr(module, what)


def reads(name: str) -> frozenset[str]:
    """Tables of a rank's window that a system looks at; ours looks at all, and so do those that stand on it."""
    if name == OURS or name in asked_systems():
        return ALL_TABLES
    return frozenset(import_module(f"{__name__}.{name}").READS)
