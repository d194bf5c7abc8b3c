"""Lightning's callback events, for both names under which it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from argus.collectors.rank.guard import Part
from argus.collectors.rank.native import Args, Mark, Native, around
from argus.collectors.rank.session import Session

BEGINS = frozenset({"on_validation_start", "on_test_start", "on_sanity_check_start"})
ENDS = frozenset({"on_validation_end", "on_test_end", "on_sanity_check_end"})


class LightningEvents:
    """Step numbers at the end of each batch, evaluations between their events."""

    def __init__(self, session: Session, native: Native) -> None:
        self._recorder = session.recorder
        self._native = native
        self._mark: Mark | None = None

    def event(self, args: Args, _kwargs: Mapping[str, object]) -> None:
        """`_call_callback_hooks(trainer, hook_name, ...)` starts."""
        name = str(args[1])
        if name == "on_train_batch_end":
            self._recorder.number_step(int(getattr(args[0], "global_step", -1)))
        elif name in BEGINS and self._mark is None:
            self._mark = self._native.open_mark("eval", native="validation")
        elif name in ENDS and self._mark is not None:
            self._native.close_mark(self._mark)
            self._mark = None


def install(call: ModuleType, trainer: object, *, session: Session, part: Part) -> None:
    """Wrap the one function of module `trainer.call` all events go through, and the trainer's saving."""
    native = Native(session, part)
    events = LightningEvents(session, native)

    def nothing(_token: None) -> None:
        """An event leaves nothing to undo."""

    wrapper = around(call._call_callback_hooks, part, before=events.event, after=nothing)
    part.patch(call, "_call_callback_hooks", wrapper)
    native.patch_mark(trainer, "save_checkpoint", mark="checkpoint")
