"""What there is once a process: CUPTI's interface and the way its buffers come, kept over restarts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from argus.collectors.rank.cupti.api import Cupti, Unavailable
from argus.collectors.rank.cupti.names import cxx_demangler, shortener
from argus.collectors.rank.cupti.path import ObjectPath, Path
from argus.collectors.rank.cupti.raw import LibCupti, RawPath, loaded_library

shared_api = cache(Cupti)
"""CUPTI through cupti-python. Raises Unavailable."""


@cache
def shared_objects() -> Path:
    """The path of record objects."""
    return ObjectPath(shared_api())


@cache
def shared_raw() -> Path:
    """The raw path. Raises Unavailable."""
    api = shared_api()
    return RawPath(LibCupti(loaded_library()), module=api.module)


def best_path() -> tuple[Path, str]:
    """The raw path, else objects and why."""
    try:
        return shared_raw(), ""
    except (Unavailable, OSError, AttributeError) as error:
        return shared_objects(), f"kernels: read as objects, at a higher cost: {error}"


@cache
def shared_shortener() -> Callable[[str], str]:
    """Kernel names as they are shown."""
    return shortener(cxx_demangler())
