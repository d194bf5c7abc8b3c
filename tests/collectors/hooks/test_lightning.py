"""Lightning as it is: forward and backward run inside the optimizer's step there."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.records.events import FLAG_CHECKPOINT, FLAG_EVAL
from tests.collectors.rank.observe import assert_sound, phases

SCRIPT = """
import importlib, sys
from argus.collectors.rank import attach
import torch
torch.set_num_threads(1)
attach.prepare()
L = importlib.import_module(sys.argv[2])
from torch.utils.data import DataLoader
from tests.collectors.hooks.train import Model, Texts

class Task(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = Model()
    def training_step(self, batch, index):
        return self.model(**batch)["loss"]
    def validation_step(self, batch, index):
        self.model(**batch)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

trainer = L.Trainer(
    accelerator="cpu", devices=1, max_steps=12, val_check_interval=8, logger=False, num_sanity_val_steps=0,
    enable_progress_bar=False, enable_model_summary=False, default_root_dir=sys.argv[1],
    enable_checkpointing=False,
)
trainer.fit(Task(), DataLoader(Texts(32), batch_size=2), DataLoader(Texts(4), batch_size=2))
trainer.save_checkpoint(sys.argv[1] + "/last.ckpt")
attach.detach()
"""


@pytest.mark.slow
@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_steps_phases_and_evaluations(receiver: FakeReceiver, tmp_path: Path, package: str) -> None:
    if find_spec(package.split(".")[0]) is None:
        pytest.skip(f"needs {package}")
    env = {"ARGUS_SOCKET": str(receiver.path), "ARGUS_RUN": "lightning", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), package]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    receiver.drain()
    [heard] = receiver.heard
    records = heard.records()
    assert not heard.dropped and "argus:" not in done.stderr
    assert_sound(records)
    assert list(records.steps["user_step"]) == list(range(1, 13))
    inside = phases(records, 10)
    assert {"forward", "backward", "optimizer"} <= set(inside)
    nested = records.phases[(records.phases["step"] == 10) & (records.phases["depth"] > 0)]
    assert "forward" not in {records.name(int(name)) for name in nested["name"]}
    evals = [bool(int(flags) & FLAG_EVAL) for flags in records.steps["flags"]]
    assert evals.count(True) == 1 and not any(evals[:7])
    saved = [records.name(int(kind)) for kind in records.events["kind"]]
    assert "mark:checkpoint" in saved and "mark:eval" in saved
    assert not int(records.steps["flags"][5]) & FLAG_CHECKPOINT
