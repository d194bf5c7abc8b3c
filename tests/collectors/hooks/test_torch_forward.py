"""Forward phases of jobs with several models and optimizers; a watched model is like any other."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import pytest
import torch
from torch import nn

from argus.collectors.hooks import torch_forward
from argus.collectors.rank import state
from tests.collectors.hooks.bench import Bench


class Pair(nn.Module):
    """Two layers, both called by its own forward."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.b(torch.relu(self.a(x)))
        return out


class Critic(Pair):
    """Another one."""


X = torch.ones(2, 4)


def train(
    bench: Bench, loss_of: list[nn.Module], optimizers: list[torch.optim.Optimizer], *, steps: int
) -> None:
    for _ in range(steps):
        bench.tick(10)
        total = torch.stack([net(X).sum() for net in loss_of]).sum()
        total.backward()  # type: ignore[no-untyped-call]
        for optimizer in optimizers:
            optimizer.step()


def forwards(bench: Bench) -> dict[int, list[str]]:
    """Classes whose calls were outermost forward phases, by step."""
    found: dict[int, list[str]] = {}
    for row in bench.rows("phases"):
        if row["name"] == "forward" and row["depth"] == 0:
            found.setdefault(int(row["step"]), []).append(str(row["native"]))
    return found


def sgd(*modules: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=0.01)


def test_two_optimizers_of_one_model_leave_its_forward_whole(bench: Bench) -> None:
    net = Pair()
    train(bench, [net], [sgd(net.a), sgd(net.b)], steps=12)
    found = forwards(bench)
    assert [found[step] for step in range(1, 12)] == [["Pair"]] * 11
    bench.ok()


def test_models_with_an_optimizer_each_are_all_seen(bench: Bench) -> None:
    actor, critic = Pair(), Critic()
    train(bench, [actor, critic], [sgd(critic), sgd(actor)], steps=12)
    found = forwards(bench)
    assert [found[step] for step in range(2, 12)] == [["Pair", "Critic"]] * 10
    bench.ok()


def test_an_optimizer_that_comes_later_brings_its_model(bench: Bench) -> None:
    actor, critic = Pair(), Critic()
    optimizers = [sgd(actor)]
    train(bench, [actor], optimizers, steps=6)
    optimizers.append(sgd(critic))
    train(bench, [actor, critic], optimizers, steps=6)
    assert forwards(bench)[10] == ["Pair", "Critic"]
    bench.ok()


def test_one_step_without_a_forward_changes_nothing(bench: Bench) -> None:
    net = Pair()
    optimizer = sgd(net)
    weight = net.a.weight
    for number in range(12):
        loss = weight.sum() if number == 5 else net(X).sum()
        loss.backward()
        optimizer.step()
    found = forwards(bench)
    assert all(found[step] == ["Pair"] for step in range(1, 12) if step != 5)
    bench.ok()


def test_children_are_watched_while_their_root_is_not_called(bench: Bench) -> None:
    net = Pair()
    optimizer = sgd(net)
    for number in range(20):
        out = net(X) if number >= 10 else net.b(net.a(X))
        out.sum().backward()
        optimizer.step()
    found = forwards(bench)
    assert found[5] == ["Linear", "Linear"]
    assert all(found[step] == ["Pair"] for step in range(10, 20))
    assert "_compiled_call_impl" not in net.a.__dict__  # nobody watches the children any more
    bench.ok()


def test_each_optimizer_of_one_parameter_does_not_look_for_modules_anew(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    whole = torch_forward.all_modules

    def counted() -> list[nn.Module]:
        looks.append(1)
        return whole()

    monkeypatch.setattr(torch_forward, "all_modules", counted)
    net = Pair()
    optimizers: list[torch.optim.Optimizer] = [torch.optim.SGD([p], lr=0.01) for p in net.parameters()]
    train(bench, [net], optimizers, steps=12)
    assert len(looks) == 1
    bench.ok()


@pytest.fixture
def watched(bench: Bench) -> Pair:
    net = Pair()
    train(bench, [net], [sgd(net)], steps=3)
    assert forwards(bench)[2] == ["Pair"]
    return net


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_watched_model_and_its_copy_can_be_scripted(watched: Pair, bench: Bench) -> None:
    expected = watched(X)
    for net in (watched, copy.deepcopy(watched), nn.Sequential(watched)):
        assert torch.equal(torch.jit.script(net)(X), expected)
    train(bench, [watched], [sgd(watched)], steps=2)
    assert ["Pair"] in forwards(bench).values()
    bench.ok()


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_tracing_a_watched_model_warns_of_nothing_of_ours(watched: Pair, bench: Bench) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.jit.trace(watched, X)  # type: ignore[no-untyped-call]
    assert not [one for one in caught if issubclass(one.category, torch.jit._trace.TracerWarning)]
    bench.ok()


def test_copies_and_checkpoints_of_a_watched_model_carry_nothing_of_ours(watched: Pair, bench: Bench) -> None:
    for net in (copy.deepcopy(watched), copy.copy(watched), pickle.loads(pickle.dumps(watched))):
        assert set(net.__dict__) == set(Pair().__dict__)
        assert not net._forward_hooks and not net._forward_pre_hooks
        assert torch.equal(net(X), watched(X))
    file = io.BytesIO()
    torch.save(watched, file)
    file.seek(0)
    with torch.serialization.safe_globals([Pair, nn.Linear, set]):
        assert torch.equal(torch.load(file, weights_only=True)(X), watched(X))
    bench.ok()


def test_a_module_made_of_anothers_attributes_calls_itself(watched: Pair, bench: Bench) -> None:
    replica = Pair.__new__(Pair)
    replica.__dict__ = dict(watched.__dict__)  # as nn.DataParallel does it
    replica._modules = {"a": nn.Identity(), "b": nn.Identity()}
    assert torch.equal(replica(X), X)
    bench.ok()


def test_a_forward_that_raises_is_closed(watched: Pair, bench: Bench) -> None:
    with pytest.raises(RuntimeError):
        watched(torch.ones(3, 3))
    assert not bench.recorder.here().stack and not bench.recorder.here().tokens
    bench.ok()


def test_nothing_is_left_on_a_model_afterwards(watched: Pair, bench: Bench) -> None:
    bench.session.stop()
    assert set(watched.__dict__) == set(Pair().__dict__)
    assert torch.jit._recursive.ignored_attributes.count("_compiled_call_impl") == 0


def test_a_watched_model_compiles_without_graph_breaks_and_is_found_again(
    watched: Pair, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "is_compiling", torch.compiler.is_compiling)
    compiled = torch.compile(watched, backend="eager", fullgraph=True)
    train(bench, [compiled], [sgd(watched)], steps=8)  # type: ignore[list-item]
    assert list(forwards(bench).values())[-1] == ["OptimizedModule"]
    bench.ok()
