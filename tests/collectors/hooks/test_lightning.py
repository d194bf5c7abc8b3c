"""Lightning as it is: forward and backward run inside the optimizer's step there. Then with failures in our hook."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from argus.collectors.rank.fake_receiver import FakeReceiver, Heard
from argus.collectors.records.events import FLAG_CHECKPOINT, FLAG_EVAL
from tests.collectors.hooks.sessions import heard_of
from tests.collectors.rank.observe import assert_sound, phases

PACKAGES = {
    package: hook
    for package, hook in (("lightning.pytorch", "lightning"), ("pytorch_lightning", "pytorch_lightning"))
    if find_spec(package.split(".")[0]) is not None
}

SCRIPT = """
import importlib, os, sys
from argus.collectors.rank import attach
import torch
torch.set_num_threads(1)
attach.prepare()
from torch.utils.data import DataLoader
from tests.collectors.hooks.planted import planted
from tests.collectors.hooks.train import Model, Texts

def fit(L):
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
    print("trained", trainer.global_step, flush=True)
    attach.detach()

for package, hook in zip(sys.argv[2::2], sys.argv[3::2]):
    os.environ["ARGUS_RUN"] = package
    L = importlib.import_module(package)
    if hook != sys.argv[3]:
        attach.start()  # the first is found by its first step; after a detach that takes a word
    fit(L)
    os.environ["ARGUS_RUN"] = f"{package} planted"
    with planted(hook):
        attach.start()
        fit(L)
"""


@pytest.mark.slow
@pytest.mark.skipif(not PACKAGES, reason="needs lightning.pytorch or pytorch_lightning")
def test_lightning_is_seen_and_goes_on_where_we_fail(receiver: FakeReceiver, tmp_path: Path) -> None:
    runs = {*PACKAGES, *(f"{package} planted" for package in PACKAGES)}
    words = (str(tmp_path), *(word for pair in PACKAGES.items() for word in pair))
    heard = heard_of(
        SCRIPT, *words, receiver=receiver, trained=[12] * len(runs), runs=runs, failures=len(PACKAGES)
    )
    for package, hook in PACKAGES.items():
        assert_steps_phases_and_evaluations(heard[package])
        failed = heard[f"{package} planted"]
        assert failed.dropped.get(f"{hook}_error") == 1 and failed.said_bye


def assert_steps_phases_and_evaluations(heard: Heard) -> None:
    """Of a fit in which nothing of ours failed."""
    records = heard.records()
    assert not heard.dropped and heard.said_bye
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
