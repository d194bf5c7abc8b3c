"""The user's own torch.profiler: ours make way for it, and the steps it runs in are marked."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from argus.collectors.rank.guard import Part
from argus.collectors.rank.session import Session
from argus.collectors.records.events import FLAG_PROFILED

NEEDS = "torch.autograd.profiler"

P = ParamSpec("P")
T = TypeVar("T")


def install(session: Session, part: Part) -> None:
    """Wrap the three calls that every use of the profiler from Python goes through."""
    from torch.autograd import profiler

    recorder, claims = session.recorder, session.claims

    def claim() -> None:
        claims.claim()
        mark(recorder.step)

    def release() -> None:
        mark(recorder.step)
        claims.release()

    def mark(_step: int) -> None:
        if claims.is_claimed:
            recorder.flag(FLAG_PROFILED)

    if profiler_runs():
        claim()  # it was started before we came
    nothing = part.guard(lambda: None)
    before, after = part.guard(claim), part.guard(release)
    for name in ("_prepare_profiler", "_enable_profiler"):
        part.patch(profiler, name, _around(getattr(profiler, name), before=before, after=nothing))
    disable = vars(profiler)["_disable_profiler"]
    part.patch(profiler, "_disable_profiler", _around(disable, before=nothing, after=after))
    mark_safe = part.guard(mark)
    recorder.on_step.append(mark_safe)
    part.on_undo(lambda: recorder.on_step.remove(mark_safe))
    part.on_undo(claims.release)


def profiler_runs() -> bool:
    """Whether a profiler is on in the calling thread."""
    import torch

    return bool(vars(torch.autograd)["_profiler_enabled"]())


def _around(
    original: Callable[P, T], *, before: Callable[[], object], after: Callable[[], object]
) -> Callable[P, T]:
    @wraps(original)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        before()
        try:
            return original(*args, **kwargs)
        finally:
            after()

    return wrapper
