"""Many callers, one transaction: whoever has the turn does the work of all who wait behind it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from anyio import to_thread

LOOK_S = 0.01
"""How often whoever pauses looks whether enough wait."""

ENOUGH = 8
"""Items that make a commit worth while: with them its fixed part is less than theirs."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(kw_only=True)
class _Slot(Generic[T, R]):
    """One caller's item and what became of it."""

    item: T
    answers: tuple[R, ...] = ()
    error: Exception | None = None
    is_done: bool = False


class Combiner(Generic[T, R]):
    """`work` takes several items and gives one answer for each; it runs in the thread of one of the callers.

    A commit costs an fsync and a dozen statements, however much is in it: under the heartbeats of a thousand
    hosts, requests that arrive while one is being committed share the next. An error of several items' work is
    no answer to any of them: each is then tried alone. Between two pieces of work lie at least `pause_s`, so that
    the second is worth its commit, unless `enough` wait for it; who comes alone does not wait.

    >>> Combiner(lambda numbers: [2 * number for number in numbers])(4)
    8
    """

    def __init__(
        self, work: Callable[[Sequence[T]], Sequence[R]], *, pause_s: float = 0.0, enough: int = ENOUGH
    ) -> None:
        self._work, self._pause_s, self._enough = work, pause_s, enough
        self._free_s = float("-inf")
        self._turn = threading.Lock()
        self._guard = threading.Lock()
        self._waiting: list[_Slot[T, R]] = []

    def __call__(self, item: T) -> R:
        """The answer for `item`, once the work it was part of is done. Raises what the work raises."""
        slot: _Slot[T, R] = _Slot(item=item)
        with self._guard:
            self._waiting.append(slot)
        with self._turn:
            if not slot.is_done:
                while len(self._waiting) < self._enough and (left_s := self._free_s - time.monotonic()) > 0:
                    time.sleep(min(left_s, LOOK_S))
                with self._guard:
                    slots, self._waiting = self._waiting, []
                self._do(slots)
                self._free_s = time.monotonic() + self._pause_s
        if slot.error is not None:
            raise slot.error
        return slot.answers[0]

    def _do(self, slots: Sequence[_Slot[T, R]]) -> None:
        try:
            answers = self._work([slot.item for slot in slots])
        except Exception as error:  # noqa: BLE001 - it is raised again, in the thread of each caller
            if len(slots) > 1:
                for slot in slots:
                    self._do([slot])
                return
            slots[0].error, slots[0].is_done = error, True
            return
        for slot, answer in zip(slots, answers, strict=True):
            slot.answers, slot.is_done = (answer,), True


class Gathering(Generic[T, R]):
    """The same for callers on the event loop: those who ask while `work` runs in a thread are its next items.

    `work` gives an answer or an error for each item. One thread at a time works, so a thousand small requests
    cost as many hops between threads as there are commits, and not as there are requests. `pause_s` as there.
    """

    def __init__(
        self, work: Callable[[Sequence[T]], Sequence[R | Exception]], *, pause_s: float = 0.0
    ) -> None:
        self._work, self._pause_s = work, pause_s
        self._free_s = float("-inf")
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._draining: asyncio.Task[None] | None = None

    async def __call__(self, item: T) -> R:
        """The answer for `item`. Raises its error."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain())
        return await answer

    async def _drain(self) -> None:
        clock = asyncio.get_running_loop().time
        while self._waiting:
            if (left_s := self._free_s - clock()) > 0:
                await asyncio.sleep(left_s)
            slots, self._waiting = self._waiting, []
            results: Sequence[R | Exception]
            try:
                results = await to_thread.run_sync(self._work, [item for item, _ in slots])
            except Exception as error:  # noqa: BLE001 - it is raised again, for each caller
                results = [error] * len(slots)
            self._free_s = clock() + self._pause_s
            for (_, answer), result in zip(slots, results, strict=True):
                if answer.done():  # its caller has gone away
                    continue
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)
