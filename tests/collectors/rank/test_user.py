"""Marks of the program inside those of a framework."""

from __future__ import annotations

from argus.collectors.rank.guard import Part
from argus.collectors.rank.native import Native
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.session import Session
from argus.collectors.rank.user import UserMarks


def test_a_mark_inside_another_ends_alone() -> None:
    session = Session(Recorder(ring=Ring(), now_ns=lambda: 1, cpu_ns=lambda: 0))
    part = Part("user", ring=session.ring, on_off=session.unseen)
    user, native, recorder = UserMarks(session.recorder, part), Native(session, part), session.recorder
    evaluation = native.open_mark("eval", native="evaluate")
    assert evaluation is not None
    user.open_mark("generate")
    user.open_mark("upload")
    assert recorder.mark == "upload"
    user.close_mark("upload")
    assert recorder.mark == "generate"
    user.close_mark("generate")
    assert recorder.mark == "eval"
    user.close_mark("never opened")
    assert recorder.mark == "eval"
    user.open_mark("late")
    native.close_mark(evaluation)
    assert recorder.mark == ""
    user.close_mark("late")
    assert recorder.mark == ""
