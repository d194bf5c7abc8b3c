"""DDP's gradients with a process group that is seen: the same bits as without, and the user's hooks as they were."""

from __future__ import annotations

import gc
import pickle
from itertools import product
from pathlib import Path

import pytest
import torch
from torch._C._distributed_c10d import BuiltinCommHookType, ProcessGroup
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from argus.collectors.hooks.torch_collectives import Buckets
from argus.collectors.rank import attach
from argus.collectors.rank.fake_receiver import FakeReceiver
from tests.collectors.rank import jobs
from tests.collectors.rank.observe import observe, ops

pytestmark = pytest.mark.slow

WIDTH = 33


def gradients(rank: int, *, steps: int, views: bool = False, dtype: torch.dtype = torch.float32) -> bytes:
    """All gradients of a short run, as bytes."""
    torch.manual_seed(3)
    net = DistributedDataParallel(
        jobs.model(WIDTH).to(dtype), bucket_cap_mb=0.001, gradient_as_bucket_view=views
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    seen = b""
    for step in range(steps):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        net(jobs.batch(rank + 10 * step, WIDTH).to(dtype)).float().square().mean().backward()
        for parameter in net.parameters():
            assert parameter.grad is not None
            seen += parameter.grad.float().numpy().tobytes()
        optimizer.step()
    return seen


@pytest.mark.parametrize("world", [2, 3])
def test_gradients_are_the_same_to_the_bit(tmp_path: Path, world: int) -> None:
    def job(rank: int, size: int) -> None:
        for views, dtype in product((False, True), (torch.float32, torch.bfloat16)):
            attach.start()
            with_us = gradients(rank, steps=6, views=views, dtype=dtype)
            session = attach.current_session()
            assert session is not None and not session.notes
            attach.detach()
            assert with_us == gradients(rank, steps=6, views=views, dtype=dtype)

    assert jobs.run(job, world=world, path=tmp_path / "none.sock") == [0] * world


def users(rank: int, world: int) -> None:
    net = DistributedDataParallel(jobs.model())
    net.register_comm_hook(None, default_hooks.fp16_compress_hook)
    train(net, rank)


def train(net: DistributedDataParallel, rank: int) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        net(jobs.batch(rank)).square().mean().backward()
        optimizer.step()


def test_the_users_own_hook_stays_and_what_it_calls_is_seen(receiver: FakeReceiver) -> None:
    for records in observe(users, receiver, world=2):
        assert ops(records, 3) == ["all_reduce"]
        sizes = {int(row["bytes"]) for row in records.collectives if row["step"] == 3}
        assert sizes == {2 * sum(p.numel() for p in jobs.model().parameters())}


def late_hook(rank: int, world: int) -> None:
    net = DistributedDataParallel(jobs.model())
    train(net, rank)
    calls = []

    def hook(state, bucket):  # type: ignore[no-untyped-def] # DDP refuses annotations that are strings
        calls.append(state)
        return default_hooks.allreduce_hook(None, bucket)  # type: ignore[arg-type]

    net.register_comm_hook("state", hook)
    train(net, rank)
    assert calls == ["state"] * 5


def test_a_hook_registered_late_takes_over(receiver: FakeReceiver) -> None:
    for records in observe(late_hook, receiver, world=2):
        assert ops(records, 8) == ["all_reduce"]


def builtin(rank: int, world: int) -> None:
    net = DistributedDataParallel(jobs.model())
    net._register_builtin_comm_hook(BuiltinCommHookType.ALLREDUCE)  # type: ignore[no-untyped-call]
    train(net, rank)


def test_a_builtin_hook_is_seen_as_well(receiver: FakeReceiver) -> None:
    for records in observe(builtin, receiver, world=2):
        assert ops(records, 3) == ["all_reduce"]
        assert not any("grad_sync" in text for text in records.unseen)


def early(rank: int, world: int) -> None:
    attach.detach()
    net = DistributedDataParallel(jobs.model())
    attach.start()
    train(net, rank)


def test_a_model_made_before_is_said_to_be_unseen(receiver: FakeReceiver) -> None:
    assert jobs.run(early, world=2, path=receiver.path) == [0, 0]
    receiver.drain()
    for heard in receiver.by_rank().values():
        assert ops(heard.records(), 3) == []
        assert any("made before Argus" in text for text in heard.records().unseen)


def unused(rank: int, world: int) -> None:
    inner = torch.nn.ModuleDict({"used": jobs.model(), "unused": torch.nn.Linear(4, 4)})
    inner.forward = inner["used"].forward
    train(DistributedDataParallel(inner, find_unused_parameters=True), rank)


def test_the_map_of_unused_parameters_is_seen_beside_the_bucket(receiver: FakeReceiver) -> None:
    for records in observe(unused, receiver, world=2):
        assert ops(records, 3) == ["all_reduce", "all_reduce"]


def copied(rank: int, world: int) -> None:
    net = DistributedDataParallel(jobs.model())
    train(net, rank)
    again = pickle.loads(pickle.dumps(net))
    del net
    gc.collect()
    train(again, rank)


def test_a_model_out_of_a_pickle_is_seen(receiver: FakeReceiver) -> None:
    for records in observe(copied, receiver, world=2):
        assert ops(records, 3) == ops(records, 8) == ["all_reduce"]


def buffers(rank: int, world: int) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.BatchNorm1d(16))
    train(DistributedDataParallel(net), rank)


def test_the_broadcast_of_buffers_is_seen_and_waited_for(receiver: FakeReceiver) -> None:
    for records in observe(buffers, receiver, world=2):
        assert ops(records, 3) == ["broadcast", "all_reduce"]
        [row] = [r for r in records.collectives if r["step"] == 3 and r["peer"] == 0]
        assert records.name(int(row["phase"])) == "forward"
        assert row["blocked_ns"] > 0


def wrapped_again(rank: int, world: int) -> None:
    net = DistributedDataParallel(jobs.model())
    train(net, rank)
    ours, calls = ProcessGroup.allreduce, []

    def theirs(group: ProcessGroup, *args: object) -> object:
        calls.append(group)
        return ours(group, *args)  # type: ignore[call-overload]

    setattr(ProcessGroup, "allreduce", theirs)  # noqa: B010 as a user would
    train(net, rank)
    setattr(ProcessGroup, "allreduce", ours)  # noqa: B010
    assert len(calls) >= 5


def test_a_method_somebody_wrapped_after_us_is_called_and_seen(receiver: FakeReceiver) -> None:
    for records in observe(wrapped_again, receiver, world=2):
        assert ops(records, 8) == ["all_reduce"]


def broken(rank: int, world: int) -> None:
    def fail(*_args: object) -> None:
        raise KeyError("planted")

    train(DistributedDataParallel(jobs.model()), rank)
    setattr(Buckets, "_issued", fail)  # noqa: B010
    train(DistributedDataParallel(jobs.model()), rank)


def test_a_failure_behind_a_bucket_is_counted_and_training_goes_on(receiver: FakeReceiver) -> None:
    assert jobs.run(broken, world=2, path=receiver.path) == [0, 0]
    receiver.drain()
    for heard in receiver.by_rank().values():
        assert heard.dropped == {"torch_collectives_error": 1}
        assert len(heard.records().steps) == 10
