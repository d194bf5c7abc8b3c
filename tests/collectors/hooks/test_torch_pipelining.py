"""Stages, micro-batches and waiting of torch.distributed.pipelining as it is, over gloo."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B
from torch.distributed.pipelining.stage import _PipelineStageBase

from argus.collectors.rank.attach import current_session
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.records.events import RankRecords, Rows
from tests.collectors.rank.observe import assert_sound, observe

pytestmark = pytest.mark.slow

STEPS, MICRO_BATCHES, WIDTH = 5, 4, 16


def layer() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())


def loss(out: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (out - target).square().mean()


def one_stage_each(rank: int, world: int) -> None:
    stage = PipelineStage(layer(), rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=MICRO_BATCHES, loss_fn=loss)
    optimizer = torch.optim.SGD(stage.submod.parameters(), lr=0.1)
    x = torch.randn(8, WIDTH)
    for _ in range(STEPS):
        schedule.step(*([x] if rank == 0 else []), target=x if rank == world - 1 else None)
        optimizer.step()
        optimizer.zero_grad()


def one_stage_each_told(rank: int, world: int) -> None:
    one_stage_each(rank, world)
    session = current_session()
    assert session is not None and session.pipelines == [tuple(range(world))]


def two_stages_each(rank: int, world: int) -> None:
    stages: list[_PipelineStageBase] = [
        PipelineStage(layer(), i, 2 * world, torch.device("cpu")) for i in (rank, rank + world)
    ]
    schedule = ScheduleInterleaved1F1B(stages, n_microbatches=MICRO_BATCHES, loss_fn=loss)
    parameters = [p for stage in stages for p in stage.submod.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    x = torch.randn(8, WIDTH)
    for _ in range(STEPS):
        schedule.step(*([x] if rank == 0 else []), target=x if rank == world - 1 else None)
        optimizer.step()
        optimizer.zero_grad()


def rows(records: RankRecords, phase: str, *, step: int = 3) -> Rows:
    names = np.array([records.name(int(name)) for name in records.phases["name"]])
    found: Rows = records.phases[(names == phase) & (records.phases["step"] == step)]
    return found


def test_each_micro_batch_has_its_forward_and_backward(receiver: FakeReceiver) -> None:
    for records in observe(one_stage_each_told, receiver, world=2):
        assert_sound(records)
        assert len(records.steps) == STEPS
        for phase in ("forward", "backward"):
            found = rows(records, phase)
            assert sorted(found["micro_batch"]) == list(range(MICRO_BATCHES))
            assert set(found["chunk"]) == {0} and set(found["depth"]) == {0}
        received = rows(records, "pp_recv")
        assert len(received) and (received["wait_ns"] > 0).any()
        assert all(records.name(int(native)) for native in received["native"])


def test_interleaved_stages_are_chunks(receiver: FakeReceiver) -> None:
    for records in observe(two_stages_each, receiver, world=2):
        assert_sound(records)
        pairs = {(int(row["chunk"]), int(row["micro_batch"])) for row in rows(records, "forward")}
        assert pairs == {(chunk, batch) for chunk in range(2) for batch in range(MICRO_BATCHES)}
