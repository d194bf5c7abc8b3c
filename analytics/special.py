"""What is used of scipy.special, imported when it is first called: the import takes a quarter of a service's start."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@cache
def _scipy() -> ModuleType:
    return import_module("scipy.special")


def ndtr(score: Floats | float) -> Floats:
    """The normal distribution function."""
    found: Floats = _scipy().ndtr(score)
    return found


def ndtri(probability: Floats | float) -> Floats:
    """Its inverse."""
    found: Floats = _scipy().ndtri(probability)
    return found


def log_ndtr(score: Floats | float) -> Floats:
    """Its logarithm, also where it is too small for a float.

    >>> round(float(log_ndtr(-40.0)))
    -805
    """
    found: Floats = _scipy().log_ndtr(score)
    return found


def stdtrit(freedom: Floats, probability: float) -> Floats:
    """The inverse of Student's distribution function."""
    found: Floats = _scipy().stdtrit(freedom, probability)
    return found


def betainc(a: Floats, b: Floats, x: Floats | float) -> Floats:
    """The regularized incomplete beta function."""
    found: Floats = _scipy().betainc(a, b, x)
    return found
