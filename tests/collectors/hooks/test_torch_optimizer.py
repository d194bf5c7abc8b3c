"""Optimizer steps that do not end in order: what follows them is recorded as after any other step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.collectors.hooks.bench import Bench


class Faulty(torch.optim.Optimizer):
    """Its steps of the numbers in `raise_at` raise, before its closure is called.

    No subclass of another optimizer, whose own step would be one inside its step.
    """

    def __init__(self, net: nn.Module, *, raise_at: tuple[int, ...]) -> None:
        super().__init__(net.parameters(), {})
        self.raise_at, self.num_steps = raise_at, 0

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        self.num_steps += 1
        if self.num_steps - 1 in self.raise_at:
            raise torch.OutOfMemoryError("planted")
        return None if closure is None else closure()


class Nested(torch.optim.Optimizer):
    """Asks another optimizer first, and goes on when that one raises."""

    def __init__(self, net: nn.Module, *, inner: Faulty) -> None:
        super().__init__(net.parameters(), {})
        self.inner = inner

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        with contextlib.suppress(torch.OutOfMemoryError):
            self.inner.step()
        return None if closure is None else closure()


def loss_of(net: nn.Module) -> torch.Tensor:
    out: torch.Tensor = net(torch.ones(2, 4))
    return out.sum()


def by_step(bench: Bench) -> dict[int, list[tuple[str, int]]]:
    found: dict[int, list[tuple[str, int]]] = {}
    for row in bench.rows("phases"):
        if row["native"] != "between phases":
            found.setdefault(int(row["step"]), []).append((str(row["name"]), int(row["depth"])))
    return found


WHOLE = [("forward", 0), ("backward", 0), ("optimizer", 0)]


def test_a_step_that_raises_leaves_the_phases_after_it_as_they_were(bench: Bench) -> None:
    net = nn.Linear(4, 4)
    optimizer = Faulty(net, raise_at=(4,))
    for number in range(8):
        bench.tick(10)
        loss_of(net).backward()  # type: ignore[no-untyped-call]
        bench.tick(1_000 if number == 4 else 5)
        if number == 4:
            with pytest.raises(torch.OutOfMemoryError):
                optimizer.step()
        else:
            optimizer.step()
    bench.recorder.finish()
    phases = by_step(bench)
    assert [phases[step] for step in (3, 5, 6, 7)] == [WHOLE] * 4
    assert phases[4] == WHOLE[:2]  # how long its optimizer was is not known
    assert [row["step"] for row in bench.rows("steps")] == list(range(8))
    bench.ok()


def test_the_batch_fetched_after_a_step_that_raised_is_outermost(bench: Bench) -> None:
    net = nn.Linear(4, 4)
    optimizer = Faulty(net, raise_at=(1,))
    recorder = bench.recorder
    for number in range(3):
        frame = recorder.open(recorder.names["data"])
        bench.tick(7)
        recorder.close(frame)
        loss_of(net).backward()  # type: ignore[no-untyped-call]
        if number == 1:
            with pytest.raises(torch.OutOfMemoryError):
                optimizer.step()
        else:
            optimizer.step()
    assert by_step(bench)[2] == [("data", 0), *WHOLE]
    bench.ok()


def test_forward_and_backward_inside_a_running_closure_end_no_step(bench: Bench) -> None:
    net = nn.Linear(4, 4)
    optimizer = torch.optim.LBFGS(net.parameters(), lr=0.01, max_iter=3)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(net).square()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    for _ in range(4):
        optimizer.step(closure)  # type: ignore[no-untyped-call]
    bench.recorder.finish()
    assert [row["step"] for row in bench.rows("steps")] == [0, 1, 2, 3]
    phases = by_step(bench)
    assert {depth for rows in phases.values() for _, depth in rows} == {0}
    assert [name for name, _ in phases[2]].count("backward") == 3
    bench.ok()


def test_a_closure_that_raises_and_a_step_that_never_calls_it_end_like_others(bench: Bench) -> None:
    net = nn.Linear(4, 4)
    optimizer = Faulty(net, raise_at=(2,))
    calls = 0

    def closure() -> float:
        nonlocal calls
        calls += 1
        loss = loss_of(net)
        loss.backward()  # type: ignore[no-untyped-call]
        if calls == 2:
            raise torch.OutOfMemoryError("planted")
        return float(loss.detach())

    for number in range(6):
        if number in (1, 2):
            with pytest.raises(torch.OutOfMemoryError):
                optimizer.step(closure)
        else:
            optimizer.step(closure)
    bench.recorder.finish()
    phases = by_step(bench)
    # The step that never called its closure has nothing in it, so it is none.
    assert [phases[step] for step in (1, 2, 3, 4)] == [WHOLE[:2], WHOLE, WHOLE, WHOLE]
    assert len(bench.rows("steps")) == 5
    bench.ok()


def test_an_optimizer_goes_on_after_one_inside_it_raised(bench: Bench) -> None:
    net = nn.Linear(4, 4)
    outer = Nested(net, inner=Faulty(net, raise_at=(1,)))
    for _ in range(4):
        loss_of(net).backward()  # type: ignore[no-untyped-call]
        outer.step()
    bench.recorder.finish()
    phases = by_step(bench)
    assert phases[1] == WHOLE
    assert phases[2] == phases[3] == [*WHOLE[:2], ("optimizer", 1), ("optimizer", 0)]
    assert len(bench.rows("steps")) == 4
    assert not bench.recorder.here().updates and not bench.recorder.here().stack
    bench.ok()
