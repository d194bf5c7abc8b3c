"""Real gloo jobs, unchanged: what is recorded of them."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from argus.collectors.rank.fake_receiver import FakeReceiver
from tests.collectors.rank import jobs
from tests.collectors.rank.observe import assert_sound, counts, observe, ops, phases

pytestmark = pytest.mark.slow

STEPS = 6


def plain(rank: int, world: int) -> None:
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(jobs.batch(rank)).square().mean().backward()
        optimizer.step()


def test_plain_loop_without_a_process_group_is_world_one(receiver: FakeReceiver) -> None:
    assert jobs.start(plain, receiver.path) == 0
    receiver.drain()
    records = receiver.by_rank()[0].records()
    assert_sound(records)
    assert len(records.steps) == STEPS
    assert set(phases(records, 3)) == {"forward", "backward", "optimizer", "other"}
    assert (records.layout.rank, records.layout.world_size, records.layout.groups) == (0, 1, ())


def ddp(rank: int, world: int) -> None:
    net = DistributedDataParallel(jobs.model())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(jobs.batch(rank)).square().mean().backward()
        optimizer.step()


def test_ddp_buckets_and_waiting_are_seen(receiver: FakeReceiver) -> None:
    all_records = observe(ddp, receiver, world=3)
    for records in all_records:
        assert_sound(records)
        assert len(records.steps) == STEPS
        assert set(phases(records, 3)) == {"forward", "backward", "optimizer", "other"}
        assert set(phases(records, 3, depth=1)) == {"grad_sync"}
        assert ops(records, 3) == ["all_reduce"]
        [group] = records.layout.groups
        assert (group.desc, group.ranks) == ("default_pg", (0, 1, 2))
    assert set(counts(all_records).values()) == {3}


def manual(rank: int, world: int) -> None:
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(jobs.batch(rank)).square().mean().backward()
        works = [dist.all_reduce(p.grad, async_op=True) for p in net.parameters()]
        for work in works:
            work.wait()
        optimizer.step()
        dist.broadcast(torch.zeros(4), src=1)
        dist.barrier()


def test_gradients_reduced_by_hand_are_a_grad_sync_phase(receiver: FakeReceiver) -> None:
    all_records = observe(manual, receiver, world=2)
    for records in all_records:
        assert_sound(records)
        assert ops(records, 3) == ["broadcast", "barrier"] + ["all_reduce"] * 4
        assert set(phases(records, 3)) == {"forward", "backward", "grad_sync", "optimizer", "other"}
        rows = records.collectives
        roots = {int(row["peer"]) for row in rows if records.name(int(row["op"])) == "broadcast"}
        assert roots == {1}
        reduced = rows[[records.name(int(op)) == "all_reduce" for op in rows["op"]]]
        assert {records.name(int(p)) for p in reduced["phase"]} == {"grad_sync"}
        assert set(reduced["bytes"]) == {16 * 4, 16 * 16 * 4}
    assert set(counts(all_records).values()) == {2}


def accumulate(rank: int, world: int) -> None:
    net = DistributedDataParallel(jobs.model())
    first = torch.optim.SGD(net.module[0].parameters(), lr=0.1)
    second = torch.optim.AdamW(net.module[2].parameters())
    for _ in range(STEPS):
        with net.no_sync():
            net(jobs.batch(rank)).square().mean().backward()
        net(jobs.batch(rank)).square().mean().backward()
        first.step()
        second.step()
        first.zero_grad()
        second.zero_grad()


def test_accumulation_and_two_optimizers_are_one_step(receiver: FakeReceiver) -> None:
    for records in observe(accumulate, receiver, world=2):
        assert_sound(records)
        assert len(records.steps) == STEPS
        rows = records.phases[records.phases["step"] == 3]
        names = [records.name(int(name)) for name in rows["name"]]
        assert names.count("forward") == names.count("backward") == 2
        natives = {records.name(int(n)) for n in rows["native"]}
        assert {"SGD", "AdamW"} <= natives
        assert ops(records, 3) == ["all_reduce"]


def ring(rank: int, world: int) -> None:
    plain(rank, world)
    for _ in range(3):
        out, into = torch.full((4,), float(rank)), torch.zeros(4)
        send = dist.P2POp(dist.isend, out, (rank + 1) % world)
        recv = dist.P2POp(dist.irecv, into, (rank - 1) % world)
        for work in dist.batch_isend_irecv([send, recv]):
            work.wait()
        assert into[0] == (rank - 1) % world


def test_point_to_point_calls_pair_up(receiver: FakeReceiver) -> None:
    all_records = observe(ring, receiver, world=3)
    pairs: dict[tuple[int, int, int], list[str]] = {}
    for rank, records in enumerate(all_records):
        for row in records.collectives:
            op, peer = records.name(int(row["op"])), int(row["peer"])
            ends = (rank, peer) if op == "send" else (peer, rank)
            pairs.setdefault((*ends, int(row["seq"])), []).append(op)
        assert {"pp_send", "pp_recv"} >= {records.name(int(p)) for p in records.collectives["phase"]}
    assert len(pairs) == 9
    assert all(sorted(ends) == ["recv", "send"] for ends in pairs.values())


class Scaled(nn.Module):
    """Overflows in every other step."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = jobs.model()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        out: torch.Tensor = self.inner(x)
        return out * float("inf") if self.calls % 2 else out


def scaled(rank: int, world: int) -> None:
    net = Scaled()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        scaler.scale(net(jobs.batch(rank)).square().mean()).backward()
        scaler.step(optimizer)
        scaler.update()


def test_a_step_the_scaler_skips_is_a_step(receiver: FakeReceiver) -> None:
    for records in observe(scaled, receiver, world=2):
        assert_sound(records)
        assert len(records.steps) == STEPS


def loader(rank: int, world: int) -> None:
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    samples = list(torch.randn(4 * STEPS, 16))
    batches: DataLoader[torch.Tensor] = DataLoader(
        samples,  # type: ignore[arg-type]
        batch_size=4,
        num_workers=2,
        multiprocessing_context="fork",
    )
    for _epoch in range(2):
        for x in batches:
            optimizer.zero_grad()
            net(x).square().mean().backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            net(jobs.batch(rank))
        net.train()


def test_loader_waits_are_data_and_its_workers_are_no_ranks(receiver: FakeReceiver) -> None:
    for records in observe(loader, receiver, world=2):
        assert_sound(records)
        assert len(records.steps) == 2 * STEPS
        assert {"data", "forward"} <= set(phases(records, 3))
        waits = [e for e in records.events if records.name(int(e["kind"])) == "loader_wait"]
        assert len(waits) == 2 * (STEPS + 1)
        flagged = records.steps["step"][records.steps["flags"] & 16 != 0]
        assert list(flagged) == [STEPS]
        assert "eval" in phases(records, STEPS)
    assert len(receiver.heard) == 2


def refused(rank: int, world: int) -> None:
    """A call that raises before it is issued, on one rank only, and a program that goes on."""
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    everybody = dist.group.WORLD
    assert everybody is not None
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(jobs.batch(rank)).square().mean().backward()
        optimizer.step()
        if rank == 1:
            with pytest.raises((RuntimeError, ValueError)):
                dist.all_gather([torch.zeros(3)], torch.zeros(5))
            with pytest.raises((RuntimeError, ValueError)):
                functional.all_reduce(torch.zeros(4), "no such operation", everybody)
        dist.all_reduce(torch.zeros(4))
        result = functional.all_reduce(torch.zeros(4), "sum", everybody)
        functional.wait_tensor(result)  # type: ignore[no-untyped-call]


def test_a_call_that_raised_has_no_number(receiver: FakeReceiver) -> None:
    all_records = observe(refused, receiver, world=2)
    for records in all_records:
        assert_sound(records)
    assert set(counts(all_records).values()) == {2}
