"""Nothing of ours may raise into training: a part that fails is counted, logged once and switched off."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from argus.collectors.rank.ring import Ring

P = ParamSpec("P")
T = TypeVar("T")

LOGGER = "argus"


class Part:
    """One collector's switch. `undo` takes its patches out; `on_off` tells that it sees nothing more."""

    def __init__(self, name: str, *, ring: Ring, on_off: Callable[[str], None]) -> None:
        self.name = name
        self.is_on = True
        self._ring = ring
        self._on_off = on_off
        self._undo: list[Callable[[], None]] = []

    def on_undo(self, undo: Callable[[], None]) -> None:
        """Call `undo` when the part is switched off."""
        self._undo.append(undo)

    def off(self) -> None:
        """Take the part's patches out, newest first."""
        self.is_on = False
        while True:
            try:
                undo = self._undo.pop()
            except IndexError:  # at once: the training thread and the writer's may both be here
                return
            try:
                undo()
            except Exception as error:  # noqa: BLE001 training goes on whatever a patch's removal meets
                self._ring.drop(f"{self.name}_error", 1)
                logging.getLogger(LOGGER).debug("argus: %s: %r while switching off", self.name, error)

    def fail(self, error: BaseException) -> None:
        """Count the failure; the first one also says so and switches the part off."""
        self._ring.drop(f"{self.name}_error", 1)
        if not self.is_on:
            return
        self.off()
        logging.getLogger(LOGGER).warning(
            "argus: %s failed and is off for this process: %r", self.name, error
        )
        self._on_off(f"{self.name}: switched off after {type(error).__name__}")

    def guard(self, function: Callable[P, T]) -> Callable[P, T | None]:
        """`function` that returns None instead of raising or when the part is off."""

        def guarded(*args: P.args, **kwargs: P.kwargs) -> T | None:
            if not self.is_on:
                return None
            try:
                return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 a collector may fail, training may not
                self.fail(error)
                return None

        return guarded

    def patch(self, target: object, name: str, value: object) -> None:
        """Set an attribute until the part is switched off."""
        own = name in vars(target)
        before = vars(target).get(name)

        def restore() -> None:
            if vars(target).get(name) is not value:
                return  # somebody patched over us and calls us: we stay, switched off
            if own:
                setattr(target, name, before)
            else:
                delattr(target, name)

        setattr(target, name, value)
        self._undo.append(restore)
