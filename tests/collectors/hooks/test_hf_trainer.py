"""The Hugging Face Trainer as it is, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.records.events import FLAG_CHECKPOINT, FLAG_EVAL
from tests.collectors.rank.observe import phases

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("transformers") is None or find_spec("accelerate") is None,
        reason="needs transformers and accelerate",
    ),
]

SCRIPT = """
import sys
from argus.collectors.rank import attach
import torch
torch.set_num_threads(1)
attach.prepare()
from transformers import Trainer, TrainingArguments
from tests.collectors.hooks.train import Model, Texts
arguments = TrainingArguments(
    output_dir=sys.argv[1], max_steps=10, per_device_train_batch_size=2, gradient_accumulation_steps=2,
    save_strategy="steps", save_steps=6, eval_strategy="steps", eval_steps=8, report_to=[], use_cpu=True,
    logging_strategy="no", disable_tqdm=True, save_only_model=True,
)
trainer = Trainer(model=Model(), args=arguments, train_dataset=Texts(64), eval_dataset=Texts(4))
trainer.train()
attach.detach()
"""


def test_steps_have_the_trainers_number_and_its_evaluations_are_marked(
    receiver: FakeReceiver, tmp_path: Path
) -> None:
    env = {
        "ARGUS_SOCKET": str(receiver.path),
        "ARGUS_RUN": "hf",
        "PATH": "/usr/bin:/bin",
        "HF_HUB_OFFLINE": "1",
    }
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
