"""Shadow steps, sampled modules and stepping down in real jobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

import argus
from argus.collectors.rank import attach
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.records.channels import ALL, CHANNELS, is_profiled, shadowed
from argus.collectors.records.events import FLAG_PROFILED, FLAG_SHADOW, RankRecords, Rows
from tests.collectors.hooks.train import Model
from tests.collectors.rank import jobs
from tests.collectors.rank.observe import counts, observe

pytestmark = pytest.mark.slow

STEPS = 104
RUN = "job"  # what jobs.run calls it


def train(rank: int, world: int) -> None:
    net = DistributedDataParallel(Model())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    tokens = torch.randint(0, 16, (2, 8), generator=torch.Generator().manual_seed(rank))
    for _ in range(STEPS):
        optimizer.zero_grad()
        net(tokens)["loss"].backward()
        optimizer.step()


def of(records: RankRecords, kind: str, step: int) -> Rows:
    rows: Rows = getattr(records, kind)
    found: Rows = rows[rows["step"] == step]
    return found


def test_shadow_steps_are_empty_flagged_and_the_same_on_every_rank(receiver: FakeReceiver) -> None:
    all_records = observe(train, receiver, world=2)
    special = [step for step in range(STEPS - 1) if shadowed(RUN, step)]
    assert len(special) >= 2
    for records in all_records:
        flags = {int(row["step"]): int(row["flags"]) for row in records.steps}
        assert [step for step, flag in flags.items() if flag & FLAG_SHADOW] == special
        for step in special:
            channel = shadowed(RUN, step)
            assert bool(len(of(records, "phases", step))) == (channel not in (ALL, "phases"))
            assert bool(len(of(records, "collectives", step))) == (channel not in (ALL, "collectives"))
            after = of(records, "phases", step + 1)
            assert {"forward", "backward", "optimizer"} <= {records.name(int(n)) for n in after["name"]}
    assert set(counts(all_records).values()) == {2}  # numbers go on, and both ranks agree on them


def test_module_phases_are_seen_in_profiled_steps_only(receiver: FakeReceiver) -> None:
    all_records = observe(train, receiver, world=2)
    [sampled] = [step for step in range(STEPS - 1) if is_profiled(RUN, step)]
    for records in all_records:
        named = np.array([records.name(int(n)) for n in records.phases["native"]])
        modules = records.phases[np.isin(named, ("self_attention", "mlp", "embedding", "lm_head"))]
        assert set(modules["step"]) == {sampled}
        assert set(modules["depth"]) == {1}
        natives = [records.name(int(n)) for n in modules["native"]]
        assert {name: natives.count(name) for name in set(natives)} == {
            "self_attention": 3,
            "mlp": 3,
            "embedding": 1,
            "lm_head": 1,
        }
        assert {records.name(int(n)) for n in modules["name"]} == {"forward"}
        flags = {int(row["step"]): int(row["flags"]) for row in records.steps}
        assert flags[sampled] & FLAG_PROFILED  # as are the steps whose operators are sampled


def test_losses_are_the_same_with_and_without_shadow_steps(tmp_path: Path) -> None:
    def job(rank: int, world: int) -> None:
        sums = []
        for is_on in (True, False):
            if not is_on:
                attach.detach()
            torch.manual_seed(3)
            net = DistributedDataParallel(Model())
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            tokens = torch.randint(0, 16, (2, 8), generator=torch.Generator().manual_seed(rank))
            for _ in range(STEPS):
                optimizer.zero_grad()
                net(tokens)["loss"].backward()
                optimizer.step()
            sums.append([parameter.detach().clone() for parameter in net.parameters()])
        assert all(torch.equal(a, b) for a, b in zip(*sums, strict=True))

    assert jobs.run(job, world=2, path=tmp_path / "none.sock") == [0, 0]


def work(rank: int, world: int) -> None:
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(6):
        for micro_batch in range(2):
            argus.work(tokens=100 * step + micro_batch, samples=float("nan"))
            net(jobs.batch(rank)).sum().backward()
        optimizer.step()


def test_work_is_kept_per_step_and_micro_batch_as_the_script_says(receiver: FakeReceiver) -> None:
    [records] = observe(work, receiver, world=1)
    kinds = [records.name(int(kind)) for kind in records.events["kind"]]
    assert "work:samples" not in kinds[4:]  # not a number; and what hooks see gives way to the script
    rows = records.events[[kind == "work:tokens" for kind in kinds]]
    assert [(int(row["step"]), float(row["value"])) for row in rows if row["step"] >= 2] == [
        (step, 100.0 * step + micro_batch) for step in range(2, 6) for micro_batch in range(2)
    ]


def stepping_down(rank: int, world: int) -> None:
    session = attach.current_session()
    assert session is not None
    session.control({"level": len(CHANNELS), "from_step": 10})
    session.control({"level": "nonsense", "from_step": None})
    train(rank, world)


def test_channels_stepped_down_leave_steps_and_say_so(receiver: FakeReceiver) -> None:
    for records in observe(stepping_down, receiver, world=2):
        assert len(records.steps) == STEPS
        assert records.phases["step"].max() == records.collectives["step"].max() == 9
        kinds = {records.name(int(kind)): int(step) for kind, step in records.events[["kind", "step"]]}
        assert kinds["argus:off:" + "+".join(CHANNELS)] == 10
