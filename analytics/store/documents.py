"""Text documents of the store: JSON that every database and every JSON reader takes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def dump(value: object) -> str:
    """Compact ASCII JSON; what is not a finite number becomes null.

    >>> dump({"ratio": float("nan"), "ranks": (1, 2)})
    '{"ratio":null,"ranks":[1,2]}'
    """
    return json.dumps(clean(value), separators=(",", ":"), allow_nan=False)


def dump_plain(value: Mapping[str, object]) -> str:
    """The same for what holds nothing but JSON's own types and finite numbers, without looking at each."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def load(text: str) -> dict[str, Any]:
    """The object that `dump` wrote."""
    body: dict[str, Any] = json.loads(text)
    return body


def clean(value: object) -> object:
    """`value` with numpy scalars as Python's, non-finite numbers as None and tuples as lists."""
    if isinstance(value, Mapping):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | np.ndarray):
        return [clean(item) for item in value]
    if isinstance(value, np.generic):
        return clean(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
