"""FSDP2's own phases: gathering parameters, synchronising gradients."""

from __future__ import annotations

from collections.abc import Callable

from argus.collectors.rank.guard import Part
from argus.collectors.rank.session import Session
from argus.collectors.rank.wrap import timed

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
            part.patch(FSDPParamGroup, name, _phase(session, part, method, phase=phase))


def _phase(
    session: Session, part: Part, original: Callable[..., object], *, phase: str
) -> Callable[..., object]:
    recorder = session.recorder
    name, native = recorder.names[phase], recorder.ring.intern(f"FSDP {original.__name__}")
    return timed(original, part, before=lambda: recorder.open(name, native), after=recorder.close)
