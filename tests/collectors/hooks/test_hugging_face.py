"""Accelerate and the Trainer as they are, in a process of their own. Then the Trainer with failures in our hooks."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from argus.collectors.rank.fake_receiver import FakeReceiver, Heard
from argus.collectors.records.events import FLAG_CHECKPOINT, FLAG_EVAL
from tests.collectors.hooks.sessions import heard_of
from tests.collectors.rank.observe import assert_sound, phases

HOOKS = ("hf_trainer", "hf_accelerate")

SCRIPT = """
import os, sys
from argus.collectors.rank import attach
import torch
torch.set_num_threads(1)
attach.prepare()
from torch.utils.data import DataLoader
from tests.collectors.hooks.planted import planted
from tests.collectors.hooks.train import Model, Texts

def by_hand(folder):
    from accelerate import Accelerator
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
            accelerator.save_state(folder)
    attach.detach()

def by_trainer(folder):
    arguments = TrainingArguments(
        output_dir=folder, max_steps=10, per_device_train_batch_size=2, gradient_accumulation_steps=2,
        save_strategy="steps", save_steps=6, eval_strategy="steps", eval_steps=8, report_to=[], use_cpu=True,
        logging_strategy="no", disable_tqdm=True, save_only_model=True,
    )
    trainer = Trainer(model=Model(), args=arguments, train_dataset=Texts(64), eval_dataset=Texts(4))
    trainer.train()
    print("trained", trainer.state.global_step, flush=True)
    attach.detach()

os.environ["ARGUS_RUN"] = "accelerate"
by_hand(sys.argv[1] + "/state")
os.environ["ARGUS_RUN"] = "trainer"
from transformers import Trainer, TrainingArguments
attach.start()
by_trainer(sys.argv[1] + "/out")
os.environ["ARGUS_RUN"] = "planted"
with planted(*sys.argv[2:]):
    attach.start()
    by_trainer(sys.argv[1] + "/again")
"""


@pytest.mark.slow
@pytest.mark.skipif(
    find_spec("transformers") is None or find_spec("accelerate") is None,
    reason="needs transformers and accelerate",
)
def test_both_are_seen_and_the_trainer_goes_on_where_we_fail(receiver: FakeReceiver, tmp_path: Path) -> None:
    runs = {"accelerate", "trainer", "planted"}
    words = (str(tmp_path), *HOOKS)
    heard = heard_of(SCRIPT, *words, receiver=receiver, trained=[10, 10], runs=runs, failures=len(HOOKS))
    assert_accumulated_batches_are_a_step_and_saving_is_marked(heard["accelerate"])
    assert_steps_have_the_trainers_number_and_its_evaluations_are_marked(heard["trainer"])
    failed = heard["planted"]
    assert {name: failed.dropped.get(f"{name}_error", 0) for name in HOOKS} == dict.fromkeys(HOOKS, 1)
    assert failed.said_bye


def assert_accumulated_batches_are_a_step_and_saving_is_marked(heard: Heard) -> None:
    """Accumulation, clipping, a loader and an optimizer of Accelerate's own."""
    records = heard.records()
    assert not heard.dropped and heard.said_bye
    assert_sound(records)
    assert len(records.steps) == 8
    assert set(phases(records, 4)) >= {"data", "forward", "backward", "optimizer"}
    natives = {records.name(int(native)) for native in records.phases["native"]}
    assert {"clip_grad_norm_", "save_state"} <= natives
    assert [bool(int(flags) & FLAG_CHECKPOINT) for flags in records.steps["flags"]].count(True) == 1


def assert_steps_have_the_trainers_number_and_its_evaluations_are_marked(heard: Heard) -> None:
    """Of a training in which nothing of ours failed."""
    records = heard.records()
    assert not heard.dropped and heard.said_bye
    assert list(records.steps["user_step"]) == list(range(1, 11))
    flags = {int(row["user_step"]): int(row["flags"]) for row in records.steps}
    assert flags[8] & FLAG_EVAL or flags[9] & FLAG_EVAL
    assert flags[6] & FLAG_CHECKPOINT or flags[7] & FLAG_CHECKPOINT
    assert not flags[4] & (FLAG_EVAL | FLAG_CHECKPOINT)
    assert {"data", "forward", "backward", "optimizer"} <= set(phases(records, 4))
    names = [records.name(int(kind)) for kind in records.events["kind"]]
    tokens = records.events[[name == "work:tokens" for name in names]]
    in_step = tokens[tokens["step"] == 4]
    assert list(in_step["value"]) == [16.0, 16.0]  # two micro-batches of 2 × 8 tokens
