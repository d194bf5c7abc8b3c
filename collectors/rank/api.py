"""What a training script may call: `init`, `step`, `phase`, `mark`, `work`; no-ops where nothing observes it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import ParamSpec, TypeVar, cast

from argus.collectors.rank import state

P = ParamSpec("P")
T = TypeVar("T")


def init(run: str | None = None) -> None:
    """Observe this process without `argus run`. Safe to call twice, never raises.

    `run` names the run unless ARGUS_RUN does.
    """
    if run:
        os.environ.setdefault("ARGUS_RUN", run)
    from argus.collectors.rank.site.argus_torch_hook import watch

    watch(cast(list[object], sys.meta_path), arm=True)


def step(number: int) -> None:
    """Say that training step `number` ends here; from the first call on, only these calls end a step."""
    if state.is_compiling():
        return
    if state.user is None and state.arm is not None:
        state.arm()
    if state.user is not None:
        state.user.step(number)


def work(**units: float) -> None:
    """Say how much this step or micro-batch has to do: `argus.work(tokens=4096, sum_len2=2e6, samples=4)`.

    Ranks are then compared per unit of work. Units are free; `tokens`, `samples`, `sum_len2` (sum of squared
    sequence lengths) are what hooks find out by themselves from a batch of token numbers.
    """
    if state.user is not None and not state.is_compiling():
        state.user.work(units)


class phase:
    """Time a part of the step: `with argus.phase("loss"):` or `@argus.phase("loss")`.

    Names of `collectors.records.events.PHASES` are known to the analysis, others are shown as they are.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        if state.user is not None and not state.is_compiling():
            state.user.open(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if state.user is not None and not state.is_compiling():
            state.user.close(self._name)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """The function, timed at each call."""

        @wraps(function)
        def timed(*args: P.args, **kwargs: P.kwargs) -> T:
            if state.user is None or state.is_compiling():
                return function(*args, **kwargs)
            with self:
                return function(*args, **kwargs)

        return timed


class mark:
    """Say what the job does beside training: `with argus.mark("checkpoint"):`, `"eval"`, or any name.

    Steps that hold a checkpoint or an evaluation stay out of baselines.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        if state.user is not None and not state.is_compiling():
            state.user.open_mark(self._name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if state.user is not None and not state.is_compiling():
            state.user.close_mark(self._name)
