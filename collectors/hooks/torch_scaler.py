"""GradScaler, which skips the optimizer after an overflow: that is a step too."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part
from argus.collectors.rank.session import Session

NEEDS = "torch.amp.grad_scaler"


def install(session: Session, part: Part) -> None:
    """Wrap `step` and `update`."""
    from torch.amp.grad_scaler import GradScaler

    recorder = session.recorder
    optimizer, native = recorder.names["optimizer"], recorder.ring.intern("GradScaler")
    open_safe, close_safe = part.guard(recorder.open), part.guard(recorder.close)
    end_safe = part.guard(recorder.end_candidate)

    def wrapper_of(original: Callable[..., object]) -> Callable[..., object]:
        @wraps(original)
        def wrapper(*args: object, **kwargs: object) -> object:
            if not part.is_on or state.is_compiling():
                return original(*args, **kwargs)
            frame = open_safe(optimizer, native)
            try:
                return original(*args, **kwargs)
            finally:
                if frame is not None:
                    close_safe(frame)
                    end_safe()

        return wrapper

    for name in ("step", "update"):
        part.patch(GradScaler, name, wrapper_of(getattr(GradScaler, name)))
