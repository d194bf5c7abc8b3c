"""That the compiler is at work is told while it is: whoever waits for the rank then waits for no hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
import torch._dynamo

from argus.collectors.hooks import torch_compile
from argus.collectors.records.heartbeat import COMPILING
from tests.collectors.hooks.bench import Bench

Doing = Callable[[], object]


@pytest.fixture
def bench() -> Iterator[Bench]:
    torch._dynamo.reset()  # which forgets callbacks, too
    made = Bench()
    made.add("torch_compile", torch_compile)
    yield made
    made.session.parts[0].off()


def compiled_while(bench: Bench, *, doing: Doing = lambda: None) -> list[str]:
    """The rank's mark inside the compiler and after it."""
    marks: list[str] = []

    def backend(graph: torch.fx.GraphModule, _inputs: object) -> Callable[..., object]:
        doing()
        marks.append(bench.recorder.status({}).in_mark)
        return graph.forward

    try:
        torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
    finally:
        marks.append(bench.recorder.status({}).in_mark)
    return marks


def test_the_compiler_is_a_mark_while_it_works(bench: Bench) -> None:
    assert compiled_while(bench) == [COMPILING, ""]


def test_a_mark_around_it_stays(bench: Bench) -> None:
    bench.recorder.mark = "eval"
    assert compiled_while(bench) == ["eval", "eval"]


def test_a_part_that_is_switched_off_meanwhile_leaves_no_mark(bench: Bench) -> None:
    assert compiled_while(bench, doing=lambda: bench.session.parts[0].off()) == ["", ""]


def test_a_compiler_that_fails_is_done(bench: Bench) -> None:
    def fail() -> None:
        raise RuntimeError("planted")

    with pytest.raises(Exception, match="planted"):
        compiled_while(bench, doing=fail)
    assert bench.recorder.status({}).in_mark == ""
