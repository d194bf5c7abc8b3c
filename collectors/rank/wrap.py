"""The wrapper most hooks need: a frame opened before a call and closed after it, whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part
from argus.collectors.rank.open import Frame


def timed(
    original: Callable[..., object],
    part: Part,
    *,
    before: Callable[[], Frame | None],
    after: Callable[[Frame], object],
) -> Callable[..., object]:
    """`original` between `before` and `after`, both guarded; left alone while a graph is traced."""
    before_safe, after_safe = part.guard(before), part.guard(after)

    @wraps(original)
    def wrapper(*args: object, **kwargs: object) -> object:
        if not part.is_on or state.is_compiling():
            return original(*args, **kwargs)
        frame = before_safe()
        try:
            return original(*args, **kwargs)
        finally:
            if frame is not None:
                after_safe(frame)

    return wrapper
