"""`argus.init`, `step`, `phase`, `mark`: on, off, and inside compiled code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import argus
from argus.collectors.rank import attach, state
from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.records.events import FLAG_CHECKPOINT, FLAG_EVAL
from tests.collectors.rank import jobs
from tests.collectors.rank.observe import assert_sound, observe, phases
from tests.collectors.under_run import PLAIN


@argus.phase("decorated")
def double(x: torch.Tensor) -> torch.Tensor:
    with argus.phase("loss"):
        y = x * 2
    argus.step(3)
    with argus.mark("checkpoint"):
        return y + 1


def test_off_they_do_nothing() -> None:
    assert state.user is None
    assert double(torch.ones(1)) == 3
    with pytest.raises(KeyError), argus.phase("x"), argus.mark("y"):
        raise KeyError


@pytest.mark.slow
def test_no_graph_break_on_or_off(tmp_path: Path) -> None:
    def job(rank: int, world: int) -> None:
        attach.detach()
        for _ in range(2):
            torch._dynamo.reset()
            compiled = torch.compile(double, backend="eager", fullgraph=True)
            assert compiled(torch.ones(1)) == 3
            net = jobs.model()
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            for _ in range(3):
                net(jobs.batch(0)).sum().backward()
                optimizer.step()
            whole = torch.compile(lambda x, net=net: net(x).sum(), backend="eager", fullgraph=True)
            whole(jobs.batch(0))
            attach.start()
        assert state.user is not None and state.user.step(1) is None

    assert jobs.run(job, world=1, path=tmp_path / "none.sock") == [0]


def marked(rank: int, world: int) -> None:
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for number in range(100, 108):
        with argus.phase("train"):
            optimizer.zero_grad()
            with argus.phase("forward"):
                loss = net(jobs.batch(rank)).square().mean()
            loss.backward()
            optimizer.step()
        if number == 104:
            with argus.mark("checkpoint"), argus.mark("upload"):
                torch.save(net.state_dict(), "/dev/null")
        if number == 105:
            try:
                with argus.mark("eval"):
                    raise ValueError
            except ValueError:
                pass
        argus.step(number)


@pytest.mark.slow
def test_steps_phases_and_marks_are_recorded(receiver: FakeReceiver) -> None:
    for records in observe(marked, receiver, world=2):
        assert_sound(records)
        assert list(records.steps["user_step"]) == list(range(100, 108))
        by_flag = {
            flag: [int(row["user_step"]) for row in records.steps if row["flags"] & flag]
            for flag in (FLAG_CHECKPOINT, FLAG_EVAL)
        }
        assert by_flag == {FLAG_CHECKPOINT: [104], FLAG_EVAL: [105]}
        kinds = [records.name(int(event["kind"])) for event in records.events]
        assert [kind for kind in kinds if kind.startswith("mark:")] == [
            "mark:upload",
            "mark:checkpoint",
            "mark:eval",
        ]
        assert set(phases(records, 2)) == {"forward", "backward", "optimizer", "other"}
        assert "checkpoint" in phases(records, 4)
        natives = {records.name(int(row["native"])) for row in records.phases}
        assert {"train", "upload", "forward"} <= natives


def odd_numbers(rank: int, world: int) -> None:
    for number in (2**80, -5, 7):
        with argus.phase("x" * 5000):
            pass
        argus.step(number)
    argus.step("not a number")  # type: ignore[arg-type]
    with argus.phase("after"):
        pass


@pytest.mark.slow
def test_nonsense_from_the_script_raises_nothing_and_ends_only_itself(tmp_path: Path) -> None:
    receiver = FakeReceiver(tmp_path / "s" / "p.sock").start()
    assert jobs.run(odd_numbers, world=1, path=receiver.path) == [0]
    receiver.drain()
    receiver.stop()
    [heard] = receiver.heard
    records = heard.records()
    assert list(records.steps["user_step"]) == [-1, -1, 7]
    assert heard.dropped == {"user_error": 1}
    assert records.unseen == ("user: switched off after ValueError",)


def evaluated_each_step(rank: int, world: int) -> None:
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(12):
        net.eval()
        with torch.no_grad():
            net(jobs.batch(rank))
        net.train()
        net(jobs.batch(rank)).sum().backward()
        optimizer.step()


@pytest.mark.slow
def test_a_model_evaluated_in_every_step_is_part_of_the_loop(receiver: FakeReceiver) -> None:
    for records in observe(evaluated_each_step, receiver, world=1):
        flagged = [int(row["step"]) for row in records.steps if row["flags"] & FLAG_EVAL]
        assert len(flagged) <= 3 and max(flagged) < 5
        assert "eval" in phases(records, 10)


FORBIDDEN = ("fastapi", "sqlalchemy", "scipy", "networkx", "openai", "zstandard", "pydantic")

SCRIPT = f"""
import sys
{PLAIN}
before = set(sys.modules)
import argus
argus.init("script")
net = torch.nn.Linear(4, 4)
optimizer = Plain(net.parameters(), {{}})
for _ in range(3):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
from argus.collectors.rank import attach
assert attach._attachment.session.recorder.step == 2, attach._attachment.session.recorder.step
ours = {{name for name in set(sys.modules) - before if name.split(".")[0] in {FORBIDDEN!r}}}
print(sorted(ours), sorted(n for n in sys.modules if n.startswith("argus.") and n.split(".")[1] != "collectors"))
"""


@pytest.mark.slow
def test_a_training_process_imports_no_service(tmp_path: Path) -> None:
    root = str(Path(argus.__file__).parents[1])
    env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": root, "ARGUS_SOCKET": str(tmp_path / "none.sock")}
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "[] []\n"), done.stderr
