"""A framework's script in a process of its own that trains several times, each time as a run of its own."""

from __future__ import annotations

import subprocess
import sys

from argus.collectors.rank.fake_receiver import FakeReceiver, Heard


def heard_of(
    script: str, *words: str, receiver: FakeReceiver, trained: list[int], runs: set[str], failures: int
) -> dict[str, Heard]:
    """What was heard of each of `runs`. Trainings said how many steps they had `trained`, a line each told of `failures`."""
    env = {"ARGUS_SOCKET": str(receiver.path), "PATH": "/usr/bin:/bin", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = [line for line in done.stderr.splitlines() if "argus:" in line]
    assert len(said) == failures and all("failed and is off" in line for line in said), said
    told = [line for line in done.stdout.splitlines() if line.startswith("trained ")]
    assert told == [f"trained {steps}" for steps in trained]
    receiver.drain()
    heard = {one.layouts[-1].run: one for one in receiver.heard}
    assert set(heard) == runs and len(receiver.heard) == len(runs)
    return heard
