"""Array work on a second thread: numpy lets go of the interpreter while it works, and there are two cores at least."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T")

WORTH_ROWS = 200_000
"""Rows below which a thread costs more than it saves."""


class Begin(Protocol):
    """Begins a piece of work."""

    def __call__(self, work: Callable[[], T], /) -> Future[T]:
        """Its future."""


@contextmanager
def beside(num_rows: int) -> Iterator[Begin]:
    """Gives what begins a piece of work on a second thread and returns its future; few rows are worked on at once.

    >>> with beside(10) as begin:
    ...     begin(lambda: 6 * 7).result()
    42
    """
    if num_rows < WORTH_ROWS:
        yield _done
        return
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit


def _done(work: Callable[[], T]) -> Future[T]:
    future: Future[T] = Future()
    future.set_result(work())
    return future
