"""A GPU for tests: a stream that passes its events when the test says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self


@dataclass(kw_only=True)
class FakeStream:
    """`pass_until_ns` is how far the GPU has come, on its own clock; `busy_until_ns` is when it is free."""

    gpu_now_ns: Callable[[], int]
    busy_until_ns: int = 0
    pass_until_ns: int = 0
    capturing: bool = False
    events: list[FakeEvent] = field(default_factory=list)

    def launch(self, dur_ns: int) -> None:
        """A kernel of `dur_ns` after everything launched before it."""
        self.busy_until_ns = max(self.busy_until_ns, self.gpu_now_ns()) + dur_ns

    def new_event(self) -> FakeEvent:
        """An event of this stream."""
        event = FakeEvent(stream=self)
        self.events.append(event)
        return event


@dataclass(kw_only=True)
class FakeEvent:
    """Passes once the stream has done what was launched before it was recorded."""

    stream: FakeStream
    at_ns: int = 0

    def record(self) -> None:
        """Put it behind the work launched so far."""
        self.at_ns = max(self.stream.busy_until_ns, self.stream.gpu_now_ns())

    def query(self) -> bool:
        """Whether the stream came this far."""
        return self.at_ns <= self.stream.pass_until_ns

    def elapsed_time(self, end_event: Self) -> float:
        """Milliseconds to `end_event`."""
        return (end_event.at_ns - self.at_ns) / 1e6
