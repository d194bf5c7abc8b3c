"""FSDP2's own phases: gathering parameters, synchronising gradients."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from argus.collectors.rank import state
from argus.collectors.rank.guard import Part
from argus.collectors.rank.session import Session

NEEDS = "torch.distributed.fsdp._fully_shard._fsdp_param_group"

PHASE_OF = {
    "unshard": "param_gather",
    "wait_for_unshard": "param_gather",
    "post_backward": "grad_sync",
    "finalize_backward": "grad_sync",
}


def install(session: Session, part: Part) -> None:
    """Wrap the methods of a parameter group; names this version lacks are said, not missed."""
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

    missing = [name for name in PHASE_OF if not hasattr(FSDPParamGroup, name)]
    if missing:
        session.unseen(f"FSDP2: this torch has no FSDPParamGroup.{', '.join(missing)}")
    for name, phase in PHASE_OF.items():
        if name not in missing:
            method = getattr(FSDPParamGroup, name)
            part.patch(FSDPParamGroup, name, _timed(session, part, method, phase=phase))


def _timed(
    session: Session, part: Part, original: Callable[..., object], *, phase: str
) -> Callable[..., object]:
    recorder = session.recorder
    name, native = recorder.names[phase], recorder.ring.intern(f"FSDP {original.__name__}")
    open_safe, close_safe = part.guard(recorder.open), part.guard(recorder.close)

    @wraps(original)
    def wrapper(*args: object, **kwargs: object) -> object:
        if not part.is_on or state.is_compiling():
            return original(*args, **kwargs)
        frame = open_safe(name, native)
        try:
            return original(*args, **kwargs)
        finally:
            if frame is not None:
                close_safe(frame)

    return wrapper
