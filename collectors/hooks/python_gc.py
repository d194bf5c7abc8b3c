"""Garbage collections as the interpreter states them: generation and pause."""

from __future__ import annotations

import gc

from argus.collectors.rank.guard import Part
from argus.collectors.rank.session import Session

NEEDS = "gc"

MIN_PAUSE_NS = 100_000  # the youngest generation is collected many times a step in microseconds


def install(session: Session, part: Part) -> None:
    """Register the interpreter's own callback."""
    recorder = session.recorder
    started_ns = [0]

    def callback(when: str, info: dict[str, int]) -> None:
        if when == "start":
            started_ns[0] = recorder.now_ns()
            return
        start_ns = started_ns[0]
        dur_ns = recorder.now_ns() - start_ns
        if start_ns and dur_ns >= MIN_PAUSE_NS:
            recorder.event("gc", start_ns=start_ns, dur_ns=dur_ns, value=float(info["generation"]))

    guarded = part.guard(callback)
    gc.callbacks.append(guarded)
    part.on_undo(lambda: gc.callbacks.remove(guarded))
