"""What may happen around a rank under `argus run`: nothing of it is the training's business."""

from __future__ import annotations

import gc
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
import torch

import argus
from argus.collectors.rank import attach
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.rank.guard import Part
from argus.collectors.rank.writer import Writer
from argus.collectors.readers.recording import read
from tests.collectors.rank import jobs
from tests.collectors.rank.test_faults import PlantedError, train
from tests.collectors.under_run import PLAIN, ROOT, SCRIPT, argus_run

pytestmark = pytest.mark.slow


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return path


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[FakeReceiver]:
    fake = FakeReceiver(tmp_path / "s" / "p.sock").start()
    yield fake
    fake.stop()


RESTARTED = (
    PLAIN
    + """
import os
import torch.distributed as dist
is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if not is_first:
    dist.init_process_group("gloo")
net = torch.nn.Linear(4, 4)
optimizer = Plain(net.parameters(), {})
for i in range(8):
    if i == 5 and is_first:
        os._exit(9)
    net(torch.ones(2, 4)).sum().backward()
    if not is_first:
        for parameter in net.parameters():
            dist.all_reduce(parameter.grad)
    optimizer.step()
print("trained\\n", end="", flush=True)
"""
)


@pytest.mark.long
def test_workers_of_torchrun_are_ranks_and_an_elastic_restart_is_another_attempt(
    receiver: FakeReceiver, tmp_path: Path
) -> None:
    script = tmp_path / "restarted.py"
    script.write_text(RESTARTED)
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1")
    done = argus_run(receiver, "--", sys.executable, *torchrun, str(script))
    assert done.returncode == 0 and done.stdout == "trained\n" * 2, done.stderr
    assert "exitcode: 9" in done.stderr  # a hard exit is as without us
    heard = {(h.layouts[-1].attempt, h.layouts[-1].rank): h for h in receiver.heard if h.layouts}
    assert {key for key in heard if key[0] == 1} == {(1, 0), (1, 1)}  # torchrun itself is no rank
    assert all(not one.said_bye for key, one in heard.items() if key[0] == 0)
    assert len({h.layouts[-1].run for h in receiver.heard if h.layouts}) == 1
    for rank in range(2):
        records = heard[1, rank].records()
        assert (records.layout.world_size, len(records.steps)) == (2, 8) and heard[1, rank].said_bye
        assert {records.name(int(op)) for op in records.collectives["op"]} >= {"all_reduce"}


def test_sigterm_in_the_middle_of_a_step_ends_the_rank_as_without_us(
    receiver: FakeReceiver, script: Path
) -> None:
    done = argus_run(receiver, "--", sys.executable, str(script), env={"END": "sigterm"})
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, ""), done.stderr
    assert all(not heard.said_bye for heard in receiver.heard)


def test_an_isolated_python_trains_unobserved(receiver: FakeReceiver, script: Path) -> None:
    done = argus_run(receiver, "--", sys.executable, "-I", str(script))
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr
    assert receiver.heard == []  # -I ignores PYTHONPATH, and that is the user's word


UNCHANGED = """
import builtins, os, sys, torch
from torch.utils.data import DataLoader
torch.set_num_threads(1)

def main():
    net = torch.nn.Linear(4, 4)
    run = torch.compile(net, backend="eager")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in DataLoader(torch.ones(16, 4), batch_size=2, num_workers=2, multiprocessing_context="fork"):
        run(x).sum().backward()
        optimizer.step()
    print(builtins.users_site, os.getpid(), flush=True)
    sys.exit(3)

main()
"""


def test_an_unchanged_script_is_recorded_with_all_it_brings(receiver: FakeReceiver, tmp_path: Path) -> None:
    """Its own sitecustomize, forked workers of a loader, a compiled model, GPUs numbered anew, an exit code."""
    (tmp_path / "train.py").write_text(UNCHANGED)
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins; builtins.users_site = 'theirs'\n")
    env = {"CUDA_VISIBLE_DEVICES": "3,1", "RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2"}
    env["PYTHONPATH"] = f"{ROOT}:{site}"
    words = ("--run", "mine", "--", sys.executable, str(tmp_path / "train.py"))
    done = argus_run(receiver, *words, env=env)
    [heard] = receiver.heard  # the workers are no ranks
    records, layout = heard.records(), heard.layouts[-1]
    assert (done.returncode, done.stdout) == (3, f"theirs {layout.pid}\n"), done.stderr
    assert (layout.run, layout.rank, layout.local_rank, layout.world_size) == ("mine", 1, 1, 2)
    assert layout.env["CUDA_VISIBLE_DEVICES"] == "3,1"
    assert len(records.steps) == 8 and heard.said_bye
    names = {records.name(int(name)) for name in records.phases["name"]}
    assert {"forward", "backward", "optimizer"} <= names


TRAINED = (
    "open_step",
    "torch_backward",
    "torch_collectives",
    "torch_ddp",
    "torch_forward",
    "torch_loader",
    "torch_modules",
    "torch_optimizer",
)
"""Hooks that a plain DDP job comes by."""

ASIDE = (
    "cpu_operators",
    "python_gc",
    "torch_checkpoint",
    "torch_compile",
    "torch_functional",
    "torch_profiler",
    "torch_scaler",
)
"""Hooks of what else a job does; those of frameworks are driven in their own tests."""


def aside(rank: int) -> float:
    """Compiles, scales, profiles, saves, reduces by function, collects; its last loss."""
    torch.manual_seed(1)
    net, loss = jobs.model(), torch.zeros(())

    def forward(x: torch.Tensor) -> torch.Tensor:
        return net(x).square().mean()  # type: ignore[no-any-return]

    forward.__code__ = forward.__code__.replace()  # other code each time: what is compiled once stays so
    compiled = torch.compile(forward, backend="eager")
    optimizer, scaler = torch.optim.SGD(net.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    for _ in range(5):
        optimizer.zero_grad()
        loss = compiled(jobs.batch(rank))
        torch.autograd.backward(scaler.scale(loss))
        scaler.step(optimizer)
        scaler.update()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        torch.distributed.barrier()
    torch.save(net.state_dict(), io.BytesIO())
    world = torch.distributed.group.WORLD
    assert world is not None
    torch.distributed._functional_collectives.all_reduce(torch.ones(2), "sum", world)
    gc.collect()
    return float(loss.detach())


@pytest.mark.parametrize(("job", "hooks", "world"), [(train, TRAINED, 2), (aside, ASIDE, 1)])
def test_a_failure_in_any_hook_is_counted_and_training_goes_on(
    receiver: FakeReceiver,
    monkeypatch: pytest.MonkeyPatch,
    job: Callable[[int], float],
    hooks: Sequence[str],
    world: int,
) -> None:
    monkeypatch.setenv("ARGUS_OPERATOR_STEPS", "1")

    def planted_job(rank: int, _world: int) -> None:
        attach.detach()
        expected = job(rank)
        for name in hooks:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Part, "guard", failing(name))
                attach.start()
                session = attach.current_session()
                assert session is not None
                assert job(rank) == expected, name
                counted = {f"{name}_error", f"{name}_end_error"} & session.ring.dropped().keys()
                assert counted, name  # whichever of its functions was called first
                attach.detach()

    assert jobs.run(planted_job, world=world, path=receiver.path) == [0] * world


def failing(name: str) -> Callable[[Part, Callable[..., object]], object]:
    """`Part.guard` that guards a failure in the place of every function of hook `name` but its install."""
    whole = Part.guard

    def guard(part: Part, function: Callable[..., object]) -> object:
        if part.name not in (name, f"{name}_end") or getattr(function, "__name__", "") == "install":
            return whole(part, function)

        def planted(*_args: object, **_kwargs: object) -> None:
            raise PlantedError(name)

        return whole(part, planted)

    return guard


def test_a_stopped_processor_costs_only_records_and_each_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attach, "Writer", partial(Writer, period_s=TURN_S))
    socket, recording = tmp_path / "s" / "p.sock", tmp_path / "recording"
    command = [sys.executable, "-m", "argus", "processor", "--socket", str(socket), "--metrics-port", "-1"]
    env = {key: value for key, value in os.environ.items() if not key.startswith("ARGUS_")}
    processor = subprocess.Popen(
        [*command, "--record", str(recording)], env=env, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert processor.stderr is not None and "listens" in processor.stderr.readline()
        assert jobs.start(lambda rank, world: _train_past(processor.pid), socket) == 0
    finally:
        processor.send_signal(signal.SIGCONT)
        processor.terminate()
        processor.wait(20)
        if processor.stderr is not None:
            processor.stderr.close()
    records = next(iter(read(recording / "rank-0.argus"))).records
    named = [records.name(int(native)) for native in records.phases["native"]]
    lost = sum(records.dropped.values())
    assert lost > 0 and set(records.dropped) <= {"processor_slow", "ring_full"}
    others = len(records.steps) + len(records.phases) - named.count("burst") + len(records.events)
    assert BURST <= named.count("burst") + lost <= BURST + 2 * others


BURST = 80_000
TURN_S = 0.05
"""Of the writer; it takes ten times as long where nobody waits for it."""


def _train_past(processor: int) -> None:
    """More records than all buffers hold while the processor stands still."""
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step() -> None:
        optimizer.zero_grad()
        net(jobs.batch(0)).sum().backward()
        optimizer.step()

    step()
    time.sleep(0.5)  # the writer has said which rank this is
    os.kill(processor, signal.SIGSTOP)
    for part in range(8):
        for _ in range(BURST // 8):
            with argus.phase("burst"):
                pass
        time.sleep(2 * TURN_S if part else 0)  # more than a turn of the writer
    step()
    os.kill(processor, signal.SIGCONT)
    time.sleep(10 * TURN_S)  # a few turns
    step()
