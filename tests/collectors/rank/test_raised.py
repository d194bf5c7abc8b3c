"""What ended the process is told by type and place, and by nothing of its words."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from argus.collectors.rank.fake_receiver import FakeReceiver
from argus.collectors.rank.raised import last_raised
from argus.collectors.records.heartbeat import Status
from tests.collectors.under_run import PLAIN, argus_run

FAILING = (
    PLAIN
    + """
net = torch.nn.Linear(4, 4)
optimizer = Plain(net.parameters(), {})
for i in range(8):
    net(torch.ones(2, 4)).sum().backward()
    optimizer.step()
def load(size):
    return torch.ones(2, size)
END
"""
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "raised"),
    [
        ("net(load(5))  # token=secret", "RuntimeError in train.py:{line}"),
        ("raise KeyError('secret')", "KeyError in train.py:{line}"),
        ("raise SystemExit(3)", ""),
        ("pass", ""),
    ],
)
def test_the_last_word_of_a_rank_says_what_it_raised(
    receiver: FakeReceiver, tmp_path: Path, end: str, raised: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(FAILING.replace("END", end))
    line = script.read_text().splitlines().index(end) + 1
    argus_run(receiver, "--", sys.executable, str(script))
    [heard] = receiver.heard
    assert heard.statuses[-1].raised == raised.format(line=line)
    assert "secret" not in repr(heard.statuses)


def test_what_is_handled_now_counts_where_nothing_was_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert last_raised() == ""
    monkeypatch.setattr(sys, "last_type", "set by hand", raising=False)
    assert last_raised() == ""
    monkeypatch.delattr(sys, "last_type")
    try:
        np.linalg.inv(np.zeros((2, 2)))
    except np.linalg.LinAlgError:
        assert last_raised().startswith("LinAlgError in test_raised.py:")
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        assert last_raised() == ""


def test_the_wire_takes_a_bounded_printable_word() -> None:
    told = Status(ts_ns=1, step=2, raised="E\x1b[2J" + "x" * 999)
    read = Status.from_json(told.to_json()).raised
    assert read.isprintable() and len(read) == 200
    assert "raised" not in Status(ts_ns=1, step=2).to_json()
