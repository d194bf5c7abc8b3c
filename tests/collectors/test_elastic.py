"""Elastic launchers on several nodes: their workers agree on the attempt."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.rank.identity import ROUND, attempt_of, is_elastic_launcher
from tests.collectors.rank.jobs import free_port
from tests.collectors.under_run import PLAIN, argus_run

NODES = """
import subprocess, sys
command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--max-restarts=2"]
command += ["--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:" + sys.argv[1], "--rdzv-id=r", "--local-addr=127.0.0.1"]
agents = [subprocess.Popen([*command, f"--node-rank={node}", sys.argv[2]]) for node in (0, 1)]
sys.exit(max(agent.wait() for agent in agents))
"""
"""Two agents on one host, with one worker each."""

WORKER = (
    PLAIN
    + """
import os, time
from pathlib import Path
failed, other_runs = (Path(__file__).with_suffix(end) for end in (".failed", ".runs"))
has_failed, rank = failed.exists(), os.environ["RANK"]
if rank == "0":
    other_runs.touch()  # only now may rank 1 fail: a rank 0 that starts later would take this round for the next
net = torch.nn.Linear(4, 4)
optimizer = Plain(net.parameters(), {})
for i in range(8 if has_failed else 1000):
    if i >= 5 and rank == "1" and not has_failed and other_runs.exists():
        failed.touch()
        os._exit(9)
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    time.sleep(0 if has_failed else 0.05)
print("restarts", os.environ["TORCHELASTIC_RESTART_COUNT"], end=" ", flush=True)
"""
)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[FakeReceiver]:
    fake = FakeReceiver(tmp_path / "s" / "p.sock").start()
    yield fake
    fake.stop()


@pytest.mark.long
@pytest.mark.slow
def test_workers_of_two_agents_are_one_attempt_though_one_alone_failed(
    receiver: FakeReceiver, tmp_path: Path
) -> None:
    nodes, worker = tmp_path / "nodes.py", tmp_path / "worker.py"
    nodes.write_text(NODES)
    worker.write_text(WORKER)
    done = argus_run(receiver, "--", sys.executable, str(nodes), str(free_port()), str(worker))
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == ["0", "1", "restarts", "restarts"], (
        "the agents count for themselves"
    )
    heard = {(h.layouts[-1].attempt, h.layouts[-1].rank): h for h in receiver.heard if h.layouts}
    assert {key for key in heard if key[0]} == {(1, 0), (1, 1)}
    assert [heard[1, rank].said_bye for rank in (0, 1)] == [True, True]


def test_the_round_goes_before_the_agents_own_count() -> None:
    assert attempt_of({"TORCHELASTIC_RESTART_COUNT": "0", ROUND: "2", "SLURM_RESTART_COUNT": "1"}) == 3
    assert attempt_of({"TORCHELASTIC_RESTART_COUNT": "3", ROUND: "0"}) == 0


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        (["python", "/usr/bin/torchrun", "train.py"], True),
        (["python", "-m", "torch.distributed.run", "train.py"], True),
        (["python", "-m", "accelerate.commands.launch", "train.py"], True),
        (["python", "-m", "pip", "install", "x"], False),
        (["python", "train.py"], False),
    ],
)
def test_who_is_an_elastic_launcher(command: list[str], is_one: bool) -> None:
    assert is_elastic_launcher({}, command=command) is is_one
    assert not is_elastic_launcher({"ARGUS_OFF": "1"}, command=command)
