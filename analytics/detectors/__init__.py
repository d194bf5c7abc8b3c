"""One file per detector: `detect(view, *, <settings>) -> tuple[Finding, ...]`, pure.

The file's name is the detector's name, its docstring its documentation, its keyword-only parameters
are its settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Protocol, cast

from argus.analytics.finding import Finding
from argus.analytics.view import View


class Detector(Protocol):
    """A detector module's `detect`."""

    def __call__(self, view: View) -> tuple[Finding, ...]:
        """Findings of this view; never raises on missing ranks or NaN."""


@cache
def detectors() -> Mapping[str, Detector]:
    """Every detector by name, found by walking this folder."""
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return {name: cast(Detector, import_module(f"{__name__}.{name}").detect) for name in names}


def run_detectors(view: View, *, level: str = "") -> tuple[Finding, ...]:
    """Findings of all detectors on one view, or of those whose names begin with `level`."""
    chosen = (detect for name, detect in detectors().items() if name.startswith(level))
    return tuple(replace(finding, launch=view.launch) for detect in chosen for finding in detect(view))
