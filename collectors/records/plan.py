"""Which steps make which window: a function every host of an attempt computes alike."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_STEPS = 10
"""Steps per window until the service has seen how long a step lasts."""

MAX_STEPS = 100_000


@dataclass(frozen=True, kw_only=True)
class WindowPlan:
    """`first` steps a window up to step `switch`, then `then` steps a window; 0 = no switch yet.

    `switch` is a multiple of `first`, so no window straddles it. Window 0 begins at step `origin`, from which
    `switch` counts too: a profile rarely begins with the attempt.

    >>> plan = WindowPlan(switch=100, then=40)
    >>> plan.index(99), plan.index(100), plan.bounds(10)
    (9, 10, (100, 140))
    """

    first: int = DEFAULT_STEPS
    switch: int = 0
    then: int = 0
    origin: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.first <= MAX_STEPS or not 0 <= self.then <= MAX_STEPS:
            raise ValueError(f"steps per window must be in [1, {MAX_STEPS}], got {self.first}, {self.then}")
        if self.switch < 0 or self.switch % self.first or bool(self.switch) != bool(self.then):
            raise ValueError(f"switch must be a multiple of {self.first} with `then` set, got {self}")

    def index(self, step: int) -> int:
        """Index of the window that holds `step`."""
        step -= self.origin
        if not self.switch or step < self.switch:
            return step // self.first
        return self.switch // self.first + (step - self.switch) // self.then

    def bounds(self, index: int) -> tuple[int, int]:
        """First step and one past the last step of window `index`."""
        before = self.switch // self.first
        if not self.switch or index < before:
            start, size = index * self.first, self.first
        else:
            start, size = self.switch + (index - before) * self.then, self.then
        return self.origin + start, self.origin + start + size
