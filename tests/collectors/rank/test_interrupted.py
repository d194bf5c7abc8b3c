"""A collection between any two instructions of ours, as Python 3.12 and later may run one, changes nothing."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from argus.collectors.hooks import python_gc
from argus.collectors.rank import ring as ring_module
from argus.collectors.rank.guard import Part
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.session import Session

OURS = str(Path(ring_module.__file__).parent)
CAPACITY = 200  # the rows of training find room, those of collections soon do not
STEPS, PHASES = 12, ("forward", "backward", "optimizer")
WAIT_S = 60.0


@contextmanager
def collecting(callback: Callable[[str, dict[str, int]], object], *, inside: str) -> Iterator[list[int]]:
    """Between any two instructions of ours on this thread, or of the function `inside`, the callback hears of a
    collection; how many it were."""
    count, is_inside = [0], [False]

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        if is_inside[0] or not frame.f_code.co_filename.startswith(OURS):
            return None
        frame.f_trace_opcodes = inside in ("", frame.f_code.co_name)
        if event == "opcode":
            is_inside[0] = True
            callback("start", {})
            callback("stop", {"generation": 0})
            is_inside[0] = False
            count[0] += 1
        return trace

    sys._getframe().f_trace_opcodes = (
        True  # 3.12 asks at settrace whether any frame wants them, and not again
    )
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(None)


def train(recorder: Recorder) -> None:
    """Steps of three phases, with a new name and a loss in each."""
    for step in range(STEPS):
        recorder.begin_iteration()
        for name in PHASES:
            frame = recorder.open(recorder.names[name], recorder.ring.intern(f"{name}-{step}"))
            recorder.close(frame)
        recorder.end_candidate()
        recorder.ring.drop("lost", 1)
        recorder.ring.dropped()
    recorder.finish()


@pytest.mark.parametrize("inside", ["", "_new_name", "drop"])
def test_a_collection_between_any_two_instructions_neither_stops_nor_changes_anything(
    monkeypatch: pytest.MonkeyPatch, inside: str
) -> None:
    monkeypatch.setattr(python_gc, "MIN_PAUSE_NS", 0)
    clock = iter(range(1, 1 << 40))
    ring = Ring(capacity=CAPACITY)
    session = Session(Recorder(ring=ring, now_ns=lambda: next(clock), cpu_ns=lambda: 0, gpu=None))
    part = Part("python_gc", ring=ring, on_off=lambda text: None)
    python_gc.install(session, part)
    callback: Any = gc.callbacks.pop()
    seen: list[int] = []

    def run() -> None:
        with collecting(callback, inside=inside) as count:
            train(session.recorder)
        seen.extend(count)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert not thread.is_alive(), "a collection waits for what it interrupted"
    natives = [ring.names[int(row[2])] for row in ring.take("phases")]
    assert sorted(name for name in natives if "-" in name) == sorted(
        f"{name}-{step}" for step in range(STEPS) for name in PHASES
    )
    full = max(seen[0] - CAPACITY, 0)
    assert ring.dropped() == {"lost": STEPS} | ({"ring_full": full} if full else {})
    assert len(ring.take("events")) == seen[0] - full > 0 and part.is_on
    assert len(ring.take("steps")) == STEPS
