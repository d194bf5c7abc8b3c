"""Service and processor killed, the processor stopped in mid-run: the training's own pace, and what was acknowledged."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argus.evals.bench import Size
from argus.evals.stack import TRAIN, Stack, StackError, clean_env

ROUNDS: Mapping[Size, int] = {"smoke": 1, "default": 3, "full": 10}
RANKS = 2
START_S = 60.0
# How long each state of the stack is watched: some hundred steps of the small job, some dozens in the short form.
WATCH_S: Mapping[Size, float] = {"smoke": 2.0, "default": 12.0, "full": 12.0}
LINE = re.compile(r"^step (\d+) .* at ([\d.]+)$", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def bench(args: argparse.Namespace, *, size: Size) -> dict[str, Any]:
    """Kill and restart in rounds; `ok` if every acknowledged window is there after each restart."""
    with tempfile.TemporaryDirectory(prefix="argus-survival-") as name:
        directory = Path(name)
        script = [str(TRAIN), "--fault-dir", str(directory / "faults")]
        with Stack(directory=directory, run="survival", ranks=RANKS, script=script) as stack:
            _wait_for_steps(stack, after=0, timeout_s=START_S)
            rounds = [_round(stack, watch_s=WATCH_S[size]) for _ in range(ROUNDS[size])]
            stack.stop_job()
            incidents = stack.get(f"/v1/incidents?run={stack.run}")["items"]
    return {
        "rounds": rounds,
        "incidents": incidents,
        "ok": all(r["lost_windows"] == 0 for r in rounds),
    }


def table(result: Mapping[str, Any]) -> str:
    """One line per round: milliseconds a step in each state, and windows lost."""
    states = (
        "before",
        "service killed",
        "service back",
        "processor stopped",
        "processor killed",
        "processor back",
    )
    lines = [f"| round | {' | '.join(f'{s}, ms a step' for s in states)} | acknowledged | lost |"]
    lines.append("|" + "---|" * (len(states) + 3))
    for i, row in enumerate(result["rounds"], 1):
        paces = " | ".join(f"{row['step_ms'][state]:.1f}" for state in states)
        lines.append(f"| {i} | {paces} | {row['acknowledged']} | {row['lost_windows']} |")
    return "\n".join(lines)


def _round(stack: Stack, *, watch_s: float) -> dict[str, Any]:
    pace: dict[str, float] = {"before": _pace(stack, watch_s)}
    known = _windows(stack)
    assert stack.service is not None
    stack.service.kill()
    stack.service.wait()
    pace["service killed"] = _pace(stack, watch_s)
    stack.start_service()
    pace["service back"] = _pace(stack, watch_s)
    lost = known - _windows(stack)
    processor = stack.processor()
    if processor is None:
        raise StackError(f"no processor runs:\n{stack.log('job')[-2000:]}")
    command = processor.cmdline()
    processor.suspend()
    try:
        pace["processor stopped"] = _pace(stack, watch_s)
    finally:
        processor.resume()
    processor.send_signal(signal.SIGKILL)
    processor.wait()
    pace["processor killed"] = _pace(stack, watch_s)
    _restart(stack, command)
    pace["processor back"] = _pace(stack, watch_s)
    known |= _windows(stack)
    return {
        "step_ms": pace,
        "acknowledged": len(known),
        "lost_windows": len(lost | (known - _windows(stack))),
    }


def _restart(stack: Stack, command: list[str]) -> None:
    """Start the processor again as `argus run` did."""
    with (stack.directory / "processor.log").open("ab") as log:
        subprocess.Popen(
            [sys.executable, *command[1:]],
            stdout=log,
            stderr=log,
            env=clean_env(),
            cwd=stack.directory,
            start_new_session=True,
        )


def _windows(stack: Stack) -> set[int]:
    return {item["window"] for item in stack.get(f"/v1/runs/{stack.run}/windows?limit=1000")["items"]}


def _pace(stack: Stack, watch_s: float) -> float:
    """Milliseconds a step over `watch_s`, by the training's own log."""
    first = _steps(stack)[-1]
    time.sleep(watch_s)
    last = _wait_for_steps(stack, after=first[0], timeout_s=START_S)
    return (last[1] - first[1]) / (last[0] - first[0]) * 1e3


def _steps(stack: Stack) -> list[tuple[int, float]]:
    return [(int(step), float(at)) for step, at in LINE.findall(stack.log("job"))]


def _wait_for_steps(stack: Stack, *, after: int, timeout_s: float) -> tuple[int, float]:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if (steps := _steps(stack)) and steps[-1][0] > after:
            return steps[-1]
        if stack.job is not None and stack.job.poll() is not None:
            break
        time.sleep(0.1)
    raise StackError(f"training does not go on:\n{stack.log('job')[-2000:]}")
