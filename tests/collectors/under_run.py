"""Scripts that train a little, and `argus run` before them; a receiver hears the ranks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import argus
from argus.collectors.rank.fake_receiver import FakeReceiver

ROOT = Path(argus.__file__).parents[1]

PLAIN = """
import torch
torch.set_num_threads(1)

class Plain(torch.optim.Optimizer):
    add_param_group = torch.optim.Optimizer.add_param_group.__wrapped__

    def step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter.data.add_(parameter.grad, alpha=-0.1)
"""
"""An optimizer of one's own without a wrapper of torch's that loads the compiler: a second and a half in every process."""

STEPS = 8

SCRIPT = (
    PLAIN
    + f"""
import os, signal
net = torch.nn.Linear(4, 4)
optimizer = Plain(net.parameters(), {{}})
for i in range({STEPS}):
    loss = net(torch.ones(2, 4)).sum()
    if i == 5 and os.environ.get("END") == "sigterm":
        os.kill(os.getpid(), signal.SIGTERM)
    loss.backward()
    optimizer.step()
print("trained", flush=True)
"""
)


def argus_run(
    receiver: FakeReceiver, *words: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """`argus run` without a processor before a command whose ranks report to the receiver."""
    command = [sys.executable, "-m", "argus", "run", "--no-processor", "--socket", str(receiver.path)]
    clean = {key: value for key, value in os.environ.items() if not key.startswith("ARGUS_")}
    done = subprocess.run(
        [*command, *words],
        env=clean | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"} | (env or {}),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    receiver.drain()
    return done
