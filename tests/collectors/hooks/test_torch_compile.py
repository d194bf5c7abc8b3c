"""A compilation is told while it lasts: whoever waits for a rank that compiles is no sign of a hang."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch._dynamo.callback import callback_handler

from argus.collectors.hooks import torch_compile
from tests.collectors.hooks.bench import Bench

Backend = Callable[[torch.fx.GraphModule, list[torch.Tensor]], Callable[..., object]]


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    bench.add("torch_compile", torch_compile)
    yield bench
    bench.session.stop()
    assert not callback_handler.start_callbacks and not callback_handler.end_callbacks


def compiled(bench: Bench, seen: list[str], *, fails: bool = False) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function whose compilation takes a minute, notes what the rank says of itself meanwhile, and may fail."""

    def backend(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Callable[..., object]:
        bench.tick(60_000_000_000)
        seen.append(bench.recorder.status({}).in_mark)
        if fails:
            raise RuntimeError("no such instruction")
        return graph.forward

    return torch.compile(lambda x: x * 2 + 1, backend=backend)


def test_a_rank_says_that_it_compiles_and_that_it_is_done(bench: Bench) -> None:
    seen: list[str] = []
    compiled(bench, seen)(torch.ones(3))
    assert seen == ["compile"] and not bench.recorder.status({}).in_mark
    (told,) = (row for row in bench.rows("events") if row["kind"] == "compile")
    assert told["dur_ns"] == 60_000_000_000
    bench.ok()


def test_one_that_fails_is_over_too(bench: Bench) -> None:
    seen: list[str] = []
    with pytest.raises(Exception, match="no such instruction"):
        compiled(bench, seen, fails=True)(torch.ones(3))
    assert seen == ["compile"] and not bench.recorder.status({}).in_mark


def test_what_the_job_said_it_does_stays_said(bench: Bench) -> None:
    seen: list[str] = []
    bench.recorder.mark = "eval"
    compiled(bench, seen)(torch.ones(3))
    assert seen == ["eval"] and bench.recorder.status({}).in_mark == "eval"


def test_who_stops_observing_in_the_middle_leaves_nothing_said(bench: Bench) -> None:
    def backend(graph: torch.fx.GraphModule, _inputs: list[torch.Tensor]) -> Callable[..., object]:
        bench.session.stop()
        return graph.forward

    torch.compile(lambda x: x * 3 - 1, backend=backend)(torch.ones(3))
    assert not bench.recorder.status({}).in_mark
