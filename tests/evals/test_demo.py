"""The demo runs the product as it ships, and its verdict on itself cannot be bought."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from argus.api.cli import build_parser, load, serve
from argus.api.settings import Settings
from argus.evals.demo import CLASS_OF, Plan, judge
from argus.evals.pause import Pauser
from argus.evals.stack import WINDOW_STEPS, clean_env, job_command, service_command


def parsed(command: list[str]) -> Any:
    """The options a command line of ours stands for."""
    name = command[command.index("argus") + 1]
    return build_parser(name, load(name)).parse_args(command[command.index("argus") + 2 :])


def test_the_service_has_its_default_settings_but_for_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ARGUS_")]:
        monkeypatch.delenv(name)
    args = parsed(service_command(tmp_path, window_steps=WINDOW_STEPS))
    settings, defaults = serve.settings_of(args), Settings()
    other = {
        field.name
        for field in dataclasses.fields(Settings)
        if getattr(settings, field.name) != getattr(defaults, field.name)
    }
    assert other == {"port", "db", "window_steps"}
    assert settings.window_steps == WINDOW_STEPS


def test_the_processor_has_its_default_settings(tmp_path: Path) -> None:
    command = job_command(tmp_path, run="demo", server="http://127.0.0.1:1", launch=["train.py"])
    args = vars(parsed(command))
    plain = vars(parsed([sys.executable, "-m", "argus", "run", "--", "x"]))
    changed = {name for name, value in args.items() if value != plain[name]}
    assert changed == {"run", "socket", "server", "command"}


def test_no_variable_of_the_caller_reaches_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARGUS_OFF", "1")
    assert "ARGUS_OFF" not in clean_env()


def incident(ranks: list[int], fault_class: str) -> dict[str, Any]:
    return {"suspects": ranks, "class": fault_class}


@pytest.mark.parametrize("fault", sorted(CLASS_OF))
def test_only_the_right_rank_and_class_and_nothing_else_is_right(fault: str) -> None:
    plan = Plan(fault=fault, rank=2, parallel="ddp")
    right = incident([2], CLASS_OF[fault])
    assert judge(plan, [right])
    assert judge(plan, [right, right])
    assert not judge(plan, [])
    assert not judge(plan, [incident([1], CLASS_OF[fault])])
    assert not judge(plan, [incident([1, 2], CLASS_OF[fault])])
    assert not judge(plan, [incident([2], "link.slow")])
    assert not judge(plan, [right, incident([0], "unknown")])


def test_a_healthy_demo_must_be_silent() -> None:
    plan = Plan(fault="none", rank=2, parallel="ddp")
    assert judge(plan, [])
    assert not judge(plan, [incident([2], "unknown")])


@pytest.mark.slow
def test_a_paused_process_is_stopped_in_between_and_runs_afterwards() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        seen = set()
        with Pauser(child.pid, stopped_s=0.02, running_s=0.02):
            deadline = time.monotonic() + 10
            while psutil.STATUS_STOPPED not in seen and time.monotonic() < deadline:
                seen.add(psutil.Process(child.pid).status())
        assert psutil.STATUS_STOPPED in seen
        assert psutil.Process(child.pid).status() != psutil.STATUS_STOPPED
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
