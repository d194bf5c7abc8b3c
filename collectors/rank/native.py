"""What the hooks of frameworks share: phases under their native names, marks, wrapped methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TypeVar

from argus.collectors.rank import state
from argus.collectors.rank.aliases import canonical
from argus.collectors.rank.guard import Part
from argus.collectors.rank.open import Frame
from argus.collectors.rank.recorder import MARK_FLAGS
from argus.collectors.rank.session import Session

Args = tuple[object, ...]
T = TypeVar("T")


def around(
    original: Callable[..., object],
    part: Part,
    *,
    before: Callable[[Args, Mapping[str, object]], T | None],
    after: Callable[[T], None],
) -> Callable[..., object]:
    """`original` between `before`, which sees the arguments, and `after`, which gets what `before` made."""
    before_safe, after_safe = part.guard(before), part.guard(after)

    @wraps(original)
    def wrapper(*args: object, **kwargs: object) -> object:
        if not part.is_on or state.is_compiling():
            return original(*args, **kwargs)
        token = before_safe(args, kwargs)
        try:
            return original(*args, **kwargs)
        finally:
            if token is not None:
                after_safe(token)

    return wrapper


class Native:
    """Opens phases by the names their framework gives them."""

    def __init__(self, session: Session, part: Part) -> None:
        self._recorder = session.recorder
        self._part = part
        names = session.recorder.names
        self._forward, self._backward = names["forward"], names["backward"]

    def open(self, native: str, *, chunk: int = -1, micro_batch: int = -1) -> Frame | None:
        """Open the phase `native` stands for; one that is open already only takes the name."""
        recorder = self._recorder
        if recorder.gpu is not None and recorder.gpu.is_capturing():
            return None
        name = recorder.names[canonical(native)]
        index = recorder.ring.intern(native)
        stack = recorder.here().stack
        if stack and stack[-1].name == name:
            stack[-1].native = index
            return None
        if name == self._forward:
            recorder.begin_iteration()
        frame = recorder.open(name, index)
        if frame is not None:
            frame.chunk, frame.micro_batch = min(chunk, 32767), micro_batch
        return frame

    def close(self, frame: Frame) -> None:
        """Close it."""
        if frame.name == self._backward:
            self._recorder.after_backward = True
        self._recorder.close(frame)

    def patch(self, target: object, name: str, *, native: str) -> None:
        """Time the method or function `name` of `target`, if this version has it."""
        original = getattr(target, name, None)
        if original is None:
            return
        wrapper = around(
            original, self._part, before=lambda _args, _kwargs: self.open(native), after=self.close
        )
        self._part.patch(target, name, wrapper)

    def patch_mark(self, target: object, name: str, *, mark: str) -> None:
        """Flag the steps in which the method or function runs: `mark` is checkpoint or eval."""
        original = getattr(target, name, None)
        if original is None:
            return
        wrapper = around(
            original,
            self._part,
            before=lambda _args, _kwargs: self.open_mark(mark, native=name),
            after=self.close_mark,
        )
        self._part.patch(target, name, wrapper)

    def open_mark(self, mark: str, *, native: str) -> Mark | None:
        """The job does something else than training; None inside another mark."""
        recorder = self._recorder
        if recorder.mark:
            return None
        recorder.mark = mark
        recorder.flag(MARK_FLAGS[mark])
        frame = recorder.open(recorder.names[mark], recorder.ring.intern(native))
        return Mark(mark, frame, recorder.now_ns())

    def close_mark(self, mark: Mark) -> None:
        """It is back."""
        recorder = self._recorder
        recorder.close(mark.frame)
        recorder.mark = ""
        recorder.flag(MARK_FLAGS[mark.name])
        dur_ns = recorder.now_ns() - mark.start_ns
        recorder.event(f"mark:{mark.name}", start_ns=mark.start_ns, dur_ns=dur_ns)


class Mark:
    """An open mark."""

    __slots__ = ("frame", "name", "start_ns")

    def __init__(self, name: str, frame: Frame | None, start_ns: int) -> None:
        self.name = name
        self.frame = frame
        self.start_ns = start_ns
