"""Operators of one step in fifty by torch.profiler, on jobs without a GPU; such steps are marked."""

from __future__ import annotations

import os

from argus.collectors.rank.channels import OPERATOR_STEPS
from argus.collectors.rank.guard import Part
from argus.collectors.rank.operators import Operators, TorchProfiler
from argus.collectors.rank.session import Session

NEEDS = "torch.autograd.profiler"

KINETO_LEVEL = "KINETO_LOG_LEVEL"
QUIET = "6"
"""Above Kineto's own levels: it writes a line to stderr at each start and stop."""


def install(session: Session, part: Part) -> None:
    """Begin and end at the steps' boundaries; nothing on a job with a GPU."""
    if session.recorder.gpu is not None or os.environ.get(OPERATOR_STEPS) == "0":
        return
    if KINETO_LEVEL not in os.environ:
        os.environ[KINETO_LEVEL] = QUIET
        part.on_undo(_speak_again)
    recorder = session.recorder
    operators = Operators(
        recorder=recorder,
        claims=session.claims,
        profiler=TorchProfiler(),
        wants=lambda _step: recorder.channels.is_profiled,
    )

    def ending_failed(text: str) -> None:
        session.unseen(text)
        part.off()

    ending = Part("cpu_operators_end", ring=session.ring, on_off=ending_failed)
    begin, end = part.guard(operators.on_step), ending.guard(operators.stop)

    def on_step(step: int) -> None:
        begin(step)
        if not part.is_on:
            end()  # switched off on another thread, which could not end the profile

    def undo() -> None:
        end()
        if not operators.is_running:
            recorder.on_step.remove(on_step)
            recorder.on_optimized.remove(end)

    recorder.on_step.append(on_step)
    recorder.on_optimized.append(end)
    session.on_tick(part.guard(operators.read))
    part.on_undo(operators.read)
    part.on_undo(undo)
    part.on_undo(session.claims.on_claim(end))


def _speak_again() -> None:
    os.environ.pop(KINETO_LEVEL, None)
