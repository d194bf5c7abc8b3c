"""Accelerate as it is: accumulation, clipping, its own loader and optimizer wrappers."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.records.events import FLAG_CHECKPOINT
from tests.collectors.rank.observe import assert_sound, phases

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("accelerate") is None, reason="needs accelerate"),
]

SCRIPT = """
import sys
from argus.collectors.rank import attach
import torch
torch.set_num_threads(1)
attach.prepare()
from accelerate import Accelerator
from torch.utils.data import DataLoader
from tests.collectors.hooks.train import Model, Texts
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Texts(32), batch_size=2))
for i, batch in enumerate(loader):
    with accelerator.accumulate(model):
        accelerator.backward(model(**batch)["loss"])
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    if i == 9:
        accelerator.save_state(sys.argv[1])
attach.detach()
"""


def test_accumulated_batches_are_a_step_and_saving_is_marked(receiver: FakeReceiver, tmp_path: Path) -> None:
    env = {"ARGUS_SOCKET": str(receiver.path), "ARGUS_RUN": "accelerate", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "out")],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    receiver.drain()
    [heard] = receiver.heard
    records = heard.records()
    assert not heard.dropped and "argus:" not in done.stderr
    assert_sound(records)
    assert len(records.steps) == 8
    assert set(phases(records, 4)) >= {"data", "forward", "backward", "optimizer"}
    natives = {records.name(int(native)) for native in records.phases["native"]}
    assert {"clip_grad_norm_", "save_state"} <= natives
    assert [bool(int(flags) & FLAG_CHECKPOINT) for flags in records.steps["flags"]].count(True) == 1
