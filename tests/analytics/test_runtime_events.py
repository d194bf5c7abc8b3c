"""Events as a table say what the events said, in their order."""

from __future__ import annotations

from argus.analytics.runtime_events import NONE, RuntimeEvent, RuntimeEvents


def event(rank: int, kind: str, step: int) -> RuntimeEvent:
    return RuntimeEvent(rank=rank, kind=kind, step=step, start_s=1.5, dur_s=0.25, value=float(step))


EVENTS = [event(3, "gc", 7), event(1, "compile", 5), event(0, "gc", 5), event(3, "gc", 7)]


def test_a_table_gives_back_its_events_whole_and_by_kind() -> None:
    table = RuntimeEvents.of(EVENTS)
    assert list(table) == EVENTS and len(table) == 4
    assert list(table.by_kind) == ["gc", "compile"]
    assert list(table.of_kind("gc")) == [EVENTS[0], EVENTS[2], EVENTS[3]]
    assert list(RuntimeEvents.of(table.of_kind("compile"))) == [EVENTS[1]]


def test_what_nobody_stated_is_empty() -> None:
    assert not len(NONE) and not NONE.by_kind
    assert list(RuntimeEvents.of(EVENTS).of_kind("mark:eval")) == []
