"""A failure in the place of every function of some hooks, their installation aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from argus.collectors.rank.guard import Part


class PlantedError(Exception):
    """Raised inside our own code."""


def plant(*names: str) -> None:
    """From now on whatever the hooks `names` guard raises."""
    whole = Part.guard

    def guard(part: Part, function: Callable[..., object]) -> object:
        if part.name not in names or getattr(function, "__name__", "") == "install":
            return whole(part, function)

        def planted(*_args: object, **_kwargs: object) -> None:
            raise PlantedError(part.name)

        return whole(part, planted)

    type.__setattr__(Part, "guard", guard)


@contextmanager
def planted(*names: str) -> Iterator[None]:
    """`plant`, and as before afterwards."""
    before = Part.guard
    plant(*names)
    try:
        yield
    finally:
        type.__setattr__(Part, "guard", before)
