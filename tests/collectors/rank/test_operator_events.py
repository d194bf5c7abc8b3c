"""PyTorch's two profilers of operators: both real, and lists of calls as no real job can be made to write them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from torch import nn

from argus.collectors.hooks import cpu_operators
from argus.collectors.rank import operator_events
from argus.collectors.rank.operator_events import (
    ListProfiler,
    Profiler,
    Root,
    TorchProfiler,
    TreeProfiler,
    roots_of,
)
from argus.collectors.rank.operators import ENGINE


@pytest.mark.parametrize("kind", [ListProfiler, TreeProfiler, TorchProfiler])
def test_the_real_profilers_tell_outermost_operators_also_inside_an_annotation(
    kind: Callable[[], Profiler], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cpu_operators.KINETO_LEVEL, cpu_operators.QUIET)
    x, profiler, begun_ns = torch.ones(4, 8, requires_grad=True), kind(), time.time_ns()
    layer = nn.Linear(8, 1)
    layer(x).sum().backward()
    profiler.start()
    with torch.profiler.record_function("mine"):
        layer(x).sum().backward()
    events = sorted(profiler.stop()(), key=lambda event: event.start_time_ns)
    names = [event.name for event in events]
    assert {"aten::linear", "aten::sum", ENGINE + "AddmmBackward0"} <= set(names)
    assert not {"mine", "aten::addmm", "AddmmBackward0"} & set(names)
    assert all(a.start_time_ns + a.duration_time_ns <= b.start_time_ns for a, b in pairwise(events))
    assert all(begun_ns < event.start_time_ns < time.time_ns() for event in events)


def test_both_real_profilers_tell_the_same_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cpu_operators.KINETO_LEVEL, cpu_operators.QUIET)
    layer, told = nn.Linear(8, 1), []
    layer(torch.ones(4, 8)).sum().backward()
    for profiler in (ListProfiler(), TreeProfiler()):
        profiler.start()
        layer(torch.ones(4, 8)).sum().backward()
        told.append([event.name for event in sorted(profiler.stop()(), key=lambda e: e.start_time_ns)])
    assert told[0] == told[1]


@pytest.mark.parametrize("fault", ["gone", "raises", "blind", "clock"])
def test_without_the_cheap_profiler_the_other_is_used(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cpu_operators.KINETO_LEVEL, cpu_operators.QUIET)

    def refuse(*_: object) -> None:
        raise RuntimeError("planted")

    other = {"blind": [], "clock": [Root("aten::empty", 5, 5)]}.get(fault, [])
    if fault == "gone":
        monkeypatch.delattr(torch.autograd, "_enable_profiler_legacy")
    elif fault == "raises":
        monkeypatch.setattr(torch.autograd, "_enable_profiler_legacy", refuse)
    else:
        monkeypatch.setattr(operator_events, "roots_of", lambda _events: other)
    profiler = TorchProfiler()
    with pytest.raises(RuntimeError, match="no profile"):
        profiler.stop()
    for _ in range(2):
        profiler.start()
        torch.ones(2).sum()
        assert [event.name for event in profiler.stop()()] == ["aten::ones", "aten::sum"]


@dataclass(frozen=True)
class Call:
    """One event as PyTorch's list has it."""

    what: str
    number: int = 0
    at_us: float = 0.0
    kind_of: int = 0
    is_other: bool = False

    def kind(self) -> str:
        return self.what

    def name(self) -> str:
        return f"op{self.number}"

    def handle(self) -> int:
        return self.number

    def scope(self) -> int:
        return self.kind_of

    def is_async(self) -> bool:
        return self.is_other

    def start_us(self) -> float:
        return self.at_us


def push(number: int, at_us: float = 0.0, *, scope: int = 0, is_async: bool = False) -> Call:
    return Call("push", number, at_us, scope, is_async)


def pop(number: int, at_us: float = 0.0) -> Call:
    return Call("pop", number, at_us)


@pytest.mark.parametrize(
    ("calls", "roots"),
    [
        ([], []),
        ([Call("mark"), push(1, 1.0), pop(1, 3.5), Call("mark")], [(1, 1000, 2500)]),
        (
            [push(1, 1.0), push(2, 1.5), pop(2, 2.0), pop(1, 3.0), push(3, 4.0), pop(3, 4.0)],
            [(1, 1000, 2000), (3, 4000, 0)],
        ),
        (
            [push(9, scope=7), push(1, 1.0, scope=1), pop(1, 2.0), pop(9)],
            [(1, 1000, 1000)],
        ),  # inside an annotation
        (
            [push(9, is_async=True), push(1, 1.0), pop(9), pop(1, 2.0)],
            [(1, 1000, 1000)],
        ),  # ends when it likes
        ([pop(5), push(1, 1.0), pop(1, 2.0)], [(1, 1000, 1000)]),  # begun before the profile
        (
            [push(1, 1.0), pop(1, 2.0), push(2, 3.0), push(3, 3.0), pop(3, 4.0)],
            [(1, 1000, 1000)],
        ),  # ended after it
    ],
)
def test_roots_of_a_list_of_calls(calls: list[Call], roots: list[tuple[int, int, int]]) -> None:
    assert roots_of(calls) == [Root(f"op{number}", start_ns, took_ns) for number, start_ns, took_ns in roots]
    assert not calls
