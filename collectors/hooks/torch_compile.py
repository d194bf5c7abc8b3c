"""Compilations of torch.compile, from its own start and end callbacks."""

from __future__ import annotations

import sys
from typing import TypeVar

from argus.collectors.rank.guard import Part
from argus.collectors.rank.recorder import COMPILE_WARMUP_STEPS
from argus.collectors.rank.session import Session
from argus.collectors.records.events import FLAG_WARMUP
from argus.collectors.records.heartbeat import COMPILING

NEEDS = "torch._dynamo.callback"

T = TypeVar("T")


def install(session: Session, part: Part) -> None:
    """Register start and end callbacks; nested compilations count once."""
    import torch
    from torch._dynamo.callback import callback_handler

    recorder = session.recorder
    started_ns = [0]

    def start(*_args: object) -> None:
        started_ns[0] = recorder.now_ns()
        recorder.mark = recorder.mark or COMPILING

    def done() -> None:
        if recorder.mark == COMPILING:
            recorder.mark = ""

    def end(*_args: object) -> None:
        done()
        dur_ns = recorder.now_ns() - started_ns[0]
        recorder.event("compile", start_ns=started_ns[0], dur_ns=dur_ns)
        if "torch.distributed" in sys.modules and torch.distributed.is_initialized():
            session.unseen("collectives inside compiled graphs")
        if recorder.current_step < COMPILE_WARMUP_STEPS:
            recorder.flag(FLAG_WARMUP)

    start_safe, end_safe = part.guard(start), part.guard(end)
    callback_handler.register_start_callback(start_safe)
    callback_handler.register_end_callback(end_safe)
    part.on_undo(lambda: _remove(callback_handler.start_callbacks, start_safe))
    part.on_undo(lambda: _remove(callback_handler.end_callbacks, end_safe))
    part.on_undo(done)


def _remove(callbacks: list[T], ours: T) -> None:
    if ours in callbacks:  # torch._dynamo.reset() clears them
        callbacks.remove(ours)
