"""An exception in each framework's hook: what the framework does stays as it was, and the failure is counted."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.distributed.fsdp import fully_shard

from argus.collectors import hooks
from argus.collectors.hooks import deepspeed_engine, megatron_timers, torchtitan_trainer, verl_workers
from argus.collectors.hooks.torch_cuda import copy_timer
from argus.collectors.rank import attach
from argus.collectors.rank.fake_nccl import FakeNcclGroup
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.rank.guard import Part
from argus.collectors.rank.session import Hook
from tests.collectors import test_robustness
from tests.collectors.hooks import (
    test_deepspeed_engine,
    test_megatron_timers,
    test_torch_pipelining,
    test_torchtitan_trainer,
    test_verl_workers,
)
from tests.collectors.hooks.bench import Bench
from tests.collectors.hooks.frames import imported, module
from tests.collectors.hooks.planted import planted
from tests.collectors.rank import jobs, test_nccl

Driven = Callable[[Bench], object]


def megatron(bench: Bench) -> object:
    timers = test_megatron_timers.Timers(log_level=2)
    for _ in range(2):
        test_megatron_timers.schedule(timers, bench)
    return {name: vars(timer) for name, timer in timers.made.items()}


def deepspeed(bench: Bench) -> object:
    engine = sys.modules["deepspeed.runtime.engine"].DeepSpeedEngine()
    done = []
    for _ in range(4):
        done.append(engine.backward(engine.forward(1)))
        engine.step()
    return done, engine.micro_steps, engine.global_steps, engine.save_checkpoint("there")


def verl(bench: Bench) -> object:
    worker = sys.modules["verl.workers.fsdp_workers"].ActorRolloutRefWorker()
    done = [worker.generate_sequences(i) for i in range(3)]
    worker.compute_ref_log_prob(1)
    return done


def torchtitan(bench: Bench) -> object:
    metrics = test_torchtitan_trainer.MetricsProcessor()
    test_torchtitan_trainer.Validator().validate(1)
    test_torchtitan_trainer.CheckpointManager().save(1)
    return [metrics.should_log(step) for step in range(9, 12)]


def modules_of(name: str, bench: Bench) -> dict[str, dict[str, object]]:
    titan = test_torchtitan_trainer
    shapes: dict[str, dict[str, dict[str, object]]] = {
        "megatron_timers": {"megatron.core.timers": {"Timers": test_megatron_timers.Timers}},
        "deepspeed_engine": {
            "deepspeed.runtime.engine": {"DeepSpeedEngine": test_deepspeed_engine.engine_type(bench)}
        },
        "verl_workers": {
            "verl.workers.fsdp_workers": {"ActorRolloutRefWorker": test_verl_workers.worker_type(bench)}
        },
        "torchtitan_trainer": {
            "torchtitan.components.metrics": {"MetricsProcessor": titan.MetricsProcessor},
            "torchtitan.components.checkpoint": {"CheckpointManager": titan.CheckpointManager},
            "torchtitan.components.validate": {"Validator": titan.Validator},
        },
    }
    return shapes[name]


SHAPES: dict[str, tuple[Hook, Driven]] = {
    "megatron_timers": (megatron_timers, megatron),
    "deepspeed_engine": (deepspeed_engine, deepspeed),
    "verl_workers": (verl_workers, verl),
    "torchtitan_trainer": (torchtitan_trainer, torchtitan),
}
REAL = ("hf_trainer", "hf_accelerate", "lightning", "pytorch_lightning", "torch_pipelining", "torch_fsdp")
"""Hooks driven by the real thing: below, and where the framework is watched anyway."""
ELSEWHERE = ("cuda_kernels", "torch_cuda", "torch_nccl")
"""Hooks of a GPU; their failures are in the tests of the kernel channel and below."""


@pytest.mark.parametrize("name", list(SHAPES))
def test_a_framework_known_by_its_shape_goes_on(name: str) -> None:
    hook, drive = SHAPES[name]

    def outcome() -> tuple[object, dict[str, int]]:
        bench = Bench()
        shapes = [module(key, members) for key, members in modules_of(name, bench).items()]
        with imported(*shapes):
            bench.session.add(name, hook)
            result = drive(bench)
            bench.session.stop()
        return result, dict(bench.recorder.ring.dropped())

    expected, clean = outcome()
    with planted(name):
        result, counted = outcome()
    assert result == expected and clean == {} and counted == {f"{name}_error": 1}


def sharded(rank: int, world: int) -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "job"),
    [("torch_pipelining", test_torch_pipelining.one_stage_each), ("torch_fsdp", sharded)],
)
def test_pipelining_and_fsdp_go_on(receiver: FakeReceiver, name: str, job: jobs.Job) -> None:
    def watched(rank: int, world: int) -> None:
        attach.detach()
        with planted(name):
            attach.start()
            session = attach.current_session()
            assert session is not None
            job(rank, world)
            assert session.ring.dropped().get(f"{name}_error") == 1
            attach.detach()

    assert jobs.run(watched, world=2, path=receiver.path) == [0, 0]


def test_every_hook_has_a_failure_planted_somewhere() -> None:
    names = {name for name, _ in attach.find_hooks()}
    driven = {*SHAPES, *REAL, *ELSEWHERE, *test_robustness.TRAINED, *test_robustness.ASIDE}
    assert names == driven and hooks.__doc__


def test_a_copy_to_the_gpu_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor: tensor + 1)
    bench = Bench()
    with planted("torch_cuda"):
        part = Part("torch_cuda", ring=bench.recorder.ring, on_off=bench.session.part_failed)
        part.patch(torch.Tensor, "cuda", copy_timer(bench.session, part, name="cuda"))
        assert [int(torch.ones(()).cuda()) for _ in range(2)] == [2, 2]
    assert not part.is_on and bench.recorder.ring.dropped() == {"torch_cuda_error": 1}


def test_nccl_goes_on() -> None:
    group = FakeNcclGroup("0")
    with planted("nccl"):
        rank = test_nccl.Rank(group)
        for _ in range(2):
            group.finish(rank.call(), ran_us=3.0)
    assert rank.session.ring.dropped() == {"nccl_error": 1}
