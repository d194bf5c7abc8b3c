"""Numbers from outside: JSON's whole numbers may be larger than any float."""

from __future__ import annotations

import math


def finite(value: object) -> float | None:
    """The number as a float; None if it is none, not finite, or larger than a float can be.

    >>> finite(3), finite(10**400), finite(True), finite("3")
    (3.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
