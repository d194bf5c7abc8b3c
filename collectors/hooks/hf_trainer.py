"""The Hugging Face Trainer: its step numbers, evaluations and checkpoints; the rest torch's hooks see.

It is the callback handler that is hooked, so no callback has to be passed to the Trainer.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from argus.collectors.rank.guard import Part
from argus.collectors.rank.native import Args, Native, around
from argus.collectors.rank.session import Session

NEEDS = "transformers.trainer"


def install(session: Session, part: Part) -> None:
    """Wrap the event every callback gets, evaluation, prediction and saving."""
    trainer = sys.modules[NEEDS].Trainer
    handler = sys.modules["transformers.trainer_callback"].CallbackHandler
    recorder = session.recorder

    def event(args: Args, _kwargs: Mapping[str, object]) -> None:
        # call_event(self, event, args, state, control)
        if args[1] == "on_step_end":
            recorder.number_step(int(getattr(args[3], "global_step", -1)))

    def nothing(_token: None) -> None:
        """`event` leaves nothing to undo."""

    part.patch(
        handler,
        "call_event",
        around(handler.call_event, part, before=event, after=nothing),
    )
    native = Native(session, part)
    for name in ("evaluate", "predict"):
        native.patch_mark(trainer, name, mark="eval")
    native.patch_mark(trainer, "_save_checkpoint", mark="checkpoint")
