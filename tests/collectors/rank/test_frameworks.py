"""FSDP2, tensor parallelism and torch.compile as they are, over gloo."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from argus.collectors.rank.fake_receiver import FakeReceiver
from tests.collectors.rank import jobs
from tests.collectors.rank.observe import assert_sound, counts, observe, ops, phases

pytestmark = pytest.mark.slow

STEPS = 5


def train(net: nn.Module, x: torch.Tensor, *, steps: int = STEPS) -> None:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()


def fsdp(rank: int, world: int) -> None:
    net = jobs.model()
    for layer in net.children():
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(net)
    train(net, jobs.batch(rank))


def test_fsdp2_gathers_and_syncs_inside_forward_and_backward(receiver: FakeReceiver) -> None:
    all_records = observe(fsdp, receiver, world=3)
    for records in all_records:
        assert_sound(records)
        assert set(phases(records, 3)) == {"forward", "backward", "optimizer", "other"}
        assert set(phases(records, 3, depth=1)) == {"param_gather", "grad_sync"}
        assert sorted(ops(records, 3)) == ["all_gather"] * 4 + ["reduce_scatter"] * 2
        rows = records.collectives[records.collectives["step"] == 3]
        in_phase = {(records.name(int(r["op"])), records.name(int(r["phase"]))) for r in rows}
        assert in_phase == {("all_gather", "param_gather"), ("reduce_scatter", "grad_sync")}
        waited = records.phases[(records.phases["step"] == 3) & (records.phases["depth"] == 0)]["wait_ns"]
        assert waited.sum() == pytest.approx(rows["blocked_ns"].sum(), rel=0.2)
    assert set(counts(all_records).values()) == {3}


def tensor_parallel(rank: int, world: int) -> None:
    mesh = init_device_mesh("cpu", (2, world // 2), mesh_dim_names=("dp", "tp"))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    net = parallelize_module(jobs.model(), mesh["tp"], plan)
    train(net, jobs.batch(rank // 2).requires_grad_())


def test_functional_collectives_carry_their_mesh_group(receiver: FakeReceiver) -> None:
    all_records = observe(tensor_parallel, receiver, world=4)
    for records in all_records:
        assert_sound(records)
        descs = {group.desc: group for group in records.layout.groups}
        assert {"default_pg", "mesh_tp", "mesh_dp"} <= set(descs)
        rows = records.collectives[records.collectives["step"] == 3]
        assert len(rows) >= 1
        assert {records.name(int(row["group"])) for row in rows} == {descs["mesh_tp"].name}
        assert (rows["blocked_ns"] > 0).any()
        assert len(descs["mesh_tp"].ranks) == 2 and records.layout.rank in descs["mesh_tp"].ranks


def compiled(rank: int, world: int) -> None:
    net = DistributedDataParallel(jobs.model())
    train(cast(nn.Module, torch.compile(net, backend="eager")), jobs.batch(rank))


def test_a_compiled_model_is_seen_with_its_compilations(receiver: FakeReceiver) -> None:
    for records in observe(compiled, receiver, world=1):
        assert_sound(records)
        assert set(phases(records, 4)) == {"forward", "backward", "optimizer", "other"}
        assert ops(records, 4) == ["all_reduce"]
        events = {records.name(int(kind)) for kind in records.events["kind"]}
        assert "compile" in events
        assert "collectives inside compiled graphs" in records.unseen


class Plain(nn.Module):
    """Compiles in place, which PyTorch's own containers do not."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x)
        return out.relu()


def compiled_in_place(rank: int, world: int) -> None:
    net = Plain()
    net.compile(backend="eager")
    before = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    train(net, jobs.batch(rank), steps=8)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] - before == 1
    assert not torch._dynamo.utils.counters["graph_break"]


def test_a_module_compiled_in_place_is_timed_without_another_graph(receiver: FakeReceiver) -> None:
    for records in observe(compiled_in_place, receiver, world=1):
        assert_sound(records)
        assert "forward" in phases(records, 4)


def pipeline_like(rank: int, world: int) -> None:
    """Micro-batches through a stage: many forwards, then many backwards, one optimizer step."""
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        losses: list[torch.Tensor] = [net(jobs.batch(rank)).square().mean() for _ in range(3)]
        for loss in losses:
            torch.autograd.backward(loss)
        optimizer.step()
        optimizer.zero_grad()


def test_micro_batches_are_one_step(receiver: FakeReceiver) -> None:
    for records in observe(pipeline_like, receiver, world=2):
        assert_sound(records)
        assert len(records.steps) == STEPS
        names = [records.name(int(n)) for n in records.phases[records.phases["step"] == 3]["name"]]
        assert names.count("forward") == names.count("backward") == 3


class Holder(nn.Module):
    """Holds the model but is never called itself, as trainers' wrappers are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = jobs.model()

    def training_step(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.inner(x)
        return out.square().mean()


def held(rank: int, world: int) -> None:
    net = Holder()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(12):
        optimizer.zero_grad()
        net.training_step(jobs.batch(rank)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def test_a_model_inside_an_uncalled_wrapper_is_found(receiver: FakeReceiver) -> None:
    for records in observe(held, receiver, world=2):
        assert_sound(records)
        assert len(records.steps) == 12
        assert "forward" in phases(records, 10)


def test_wait_and_cpu_separate_the_waiting_from_the_late(receiver: FakeReceiver) -> None:
    all_records = observe(late, receiver, world=2)
    totals = []
    for records in all_records:
        rows = records.phases[(records.phases["step"] >= 3) & (records.phases["depth"] == 0)]
        backward = rows[[records.name(int(n)) == "backward" for n in rows["name"]]]
        forward = rows[[records.name(int(n)) == "forward" for n in rows["name"]]]
        totals.append((int(backward["wait_ns"].sum()), int((forward["dur_ns"] - forward["cpu_ns"]).sum())))
    (waiting, idle), (late_waiting, late_idle) = totals
    assert waiting > 3 * late_waiting  # rank 0 stands in the all-reduce
    assert late_idle > idle + 2 * LATE_S * 1e9  # rank 1 lost wall time, not CPU time
    ends = [np.sort(records.collectives["end_ns"])[-1] for records in all_records]
    assert abs(int(ends[0]) - int(ends[1])) < 50_000_000


LATE_S = 0.03


class Late(nn.Module):
    """Rank 1 sleeps in each forward."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.inner = jobs.model()
        self.rank = rank

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        import time

        if self.rank == 1:
            time.sleep(LATE_S)
        out: torch.Tensor = self.inner(x)
        return out


def late(rank: int, world: int) -> None:
    train(DistributedDataParallel(Late(rank)), jobs.batch(rank), steps=8)
