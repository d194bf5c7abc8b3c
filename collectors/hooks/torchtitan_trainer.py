"""torchtitan: its step numbers, validation and checkpoints; FSDP2, pipelining and meshes are torch's own.

Its trainer often runs as `__main__`, so the components it calls in every step are hooked instead.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from argus.collectors.rank.guard import Part
from argus.collectors.rank.native import Args, Native, around
from argus.collectors.rank.session import Session

NEEDS = "torchtitan.components.metrics"

MARKS = (
    ("torchtitan.components.checkpoint", "CheckpointManager", "save", "checkpoint"),
    ("torchtitan.components.validate", "Validator", "validate", "eval"),
)
"""Module, class, method, mark; looked up once metrics are imported, as late as the trainer's first step."""


def install(session: Session, part: Part) -> None:
    """Wrap what the trainer asks its metrics in each step, and the marked methods."""
    processor = sys.modules[NEEDS].MetricsProcessor
    recorder = session.recorder

    def should_log(args: Args, kwargs: Mapping[str, object]) -> None:
        step = args[1] if len(args) > 1 else kwargs.get("step")
        if isinstance(step, int):
            recorder.number_step(step)

    def nothing(_token: None) -> None:
        """A question leaves nothing to undo."""

    wrapper = around(processor.should_log, part, before=should_log, after=nothing)
    part.patch(processor, "should_log", wrapper)
    native = Native(session, part)
    for module, owner, method, mark in MARKS:
        found = getattr(sys.modules.get(module), owner, None)
        if found is not None:
            native.patch_mark(found, method, mark=mark)
