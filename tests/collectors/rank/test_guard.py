"""A part that fails is counted, logged once and out of the way."""

from __future__ import annotations

import logging

import pytest

from argus.collectors.rank.guard import Part
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.ring import Ring
from argus.collectors.rank.session import Session


class Target:
    """Something to patch."""

    def value(self) -> int:
        return 1


class Child(Target):
    """Inherits what is patched on it."""


def test_the_first_failure_switches_off_and_the_patch_is_out(caplog: pytest.LogCaptureFixture) -> None:
    ring, said = Ring(), list[str]()
    part = Part("thing", ring=ring, on_off=said.append)
    part.patch(Target, "value", lambda self: 2)
    failing = part.guard(lambda: 1 // 0)
    with caplog.at_level(logging.WARNING, logger="argus"):
        assert failing() is None
        assert failing() is None
    assert Target().value() == 1
    assert not part.is_on
    assert ring.dropped() == {"thing_error": 1}
    assert said == ["thing: switched off after ZeroDivisionError"]
    assert len(caplog.records) == 1


def test_somebody_elses_patch_over_ours_stays() -> None:
    part = Part("thing", ring=Ring(), on_off=lambda _text: None)
    part.patch(Child, "value", lambda self: 2)
    theirs = lambda self: 3
    before = Child.value
    Child.value = theirs  # type: ignore[method-assign]
    part.off()
    assert Child().value() == 3
    Child.value = before  # type: ignore[method-assign]
    del Child.value
    assert Child().value() == 1


def test_an_inherited_attribute_is_inherited_again() -> None:
    part = Part("thing", ring=Ring(), on_off=lambda _text: None)
    part.patch(Child, "value", lambda self: 2)
    assert Child().value() == 2
    part.off()
    assert "value" not in vars(Child)
    assert Child().value() == 1


def test_an_undo_that_fails_does_not_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    part = Part("thing", ring=Ring(), on_off=lambda _text: None)
    part.patch(Child, "value", lambda self: 2)
    part.on_undo(lambda: [].remove(1))  # type: ignore[arg-type]
    part.off()
    assert Child().value() == 1


def test_a_warning_of_the_processor_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    session = Session(Recorder(ring=Ring(), now_ns=lambda: 0, cpu_ns=lambda: 0))
    session.control({"warning": "the recording r is full"})
    session.control({"warning": 7})
    assert [record.getMessage() for record in caplog.records] == ["argus: the recording r is full"]


class Shared(list[object]):
    """A list of which another thread takes the last item once it was asked whether there is one."""

    def __len__(self) -> int:
        num = super().__len__()
        if num == 1:
            self.clear()
        return num


def test_two_threads_may_switch_a_part_off_at_once() -> None:
    undone: list[str] = []
    part = Part("thing", ring=Ring(), on_off=lambda _text: None)
    part._undo = Shared([lambda: undone.append("first"), lambda: undone.append("second")])  # type: ignore[assignment]
    part.off()
    assert undone[:1] == ["second"]
