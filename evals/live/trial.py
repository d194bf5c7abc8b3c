"""One live trial: a real job under the product, a fault on one rank, and what was named."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from argus.evals.live.faults import Fault, faults
from argus.evals.live.machine import Machine
from argus.evals.live.network import network
from argus.evals.live.scene import Scene
from argus.evals.live.truth import Truth, told
from argus.evals.stack import TRAIN, Stack, StackError
from argus.evals.watch import incidents_of, wait_for, wait_for_windows, windows_of

RANKS = 4
BASELINE_WINDOWS = 12
"""Enough behind the start-up for the detectors to have a baseline of their own."""

HOLD_WINDOWS, BRIEF_WINDOWS = 4, 2
"""After the incident the fault goes on so long: what else would be named must be named by then."""

LIMIT_WINDOWS = 8
"""From the fault to the right incident at most, the one the fault begins in counted. A window is 10 steps."""

START_S = 300.0
DETECT_S = 300.0
STOPPED_S = 180.0
"""A hang is one after 60 s without a step."""

LOOK_S = 1.0
HOLD_S = 300.0
RESOLVE_S = 60.0

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is played: the fault, the job, the rank it strikes; a brief trial does not wait for the incident's end."""

    fault: str
    workload: str
    rank: int
    is_brief: bool = False

    @property
    def module(self) -> Fault:
        """The fault's file."""
        return faults()[self.fault]

    @property
    def truth(self) -> Truth:
        """The right verdict."""
        return self.module.truth(rank=self.rank, ranks=RANKS)

    @property
    def script(self) -> list[str]:
        """The training script with its options, but for where faults are told."""
        words = [word.format(rank=self.rank) for word in self.module.SETTING.script]
        return [str(TRAIN), "--parallel", self.workload, *words]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of it. `windows` and `seconds` are from the fault to the right incident, None without one."""

    fault: str
    workload: str
    rank: int
    wanted: tuple[str, ...]
    got: str
    incidents: tuple[dict[str, Any], ...] = ()
    ok: bool = False
    windows: int | None = None
    seconds: float | None = None
    is_resolved: bool = False
    wall_s: float = 0.0
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


@dataclass(kw_only=True)
class Seen:
    """What was seen while the job ran."""

    windows: int | None = None
    seconds: float | None = None
    is_resolved: bool = False


def run_trial(plan: Plan, *, directory: Path, machine: Machine, say: Say, records: bool) -> Outcome:
    """Play it; an error of the stack is an outcome too."""
    started_s, seen = time.monotonic(), Seen()
    incidents: list[dict[str, Any]] = []
    error = ""
    try:
        with staged(plan, directory=directory, machine=machine, records=records) as scene:
            _play(plan, scene, seen, say)
            say("stopping the job, the processor and the service")
            scene.stack.stop_job()
            incidents = incidents_of(scene.stack)
    except (StackError, OSError, psutil.Error) as failed:  # a rank that ended while it was struck, too
        error = str(failed)
    return Outcome(
        fault=plan.fault,
        workload=plan.workload,
        rank=plan.rank,
        wanted=plan.truth.classes,
        got=error.split("\n")[0] if error else told(incidents),
        incidents=tuple(incidents),
        ok=not error and seen.windows is not None and plan.truth.is_told_by(incidents),
        **vars(seen),
        wall_s=time.monotonic() - started_s,
        error=error,
    )


@contextmanager
def staged(plan: Plan, *, directory: Path, machine: Machine, records: bool) -> Iterator[Scene]:
    """The job with all that it needs; gone afterwards."""
    setting = plan.module.SETTING
    with ExitStack() as stage:
        wire = None
        if setting.has_network:
            relayed = setting.relay_unless and not machine.has & set(setting.relay_unless)
            wire = stage.enter_context(
                network(RANKS, relayed=plan.rank if relayed else None, directory=directory)
            )
        stack = Stack(
            directory=directory,
            run="live",
            ranks=RANKS,
            script=[*plan.script, "--fault-dir", str(directory / "faults")],
            launcher=wire.launcher() if wire else (),
            record=directory / "recording" if records else None,
        )
        stage.enter_context(stack)
        yield Scene(stack=stack, rank=plan.rank, machine=machine, network=wire)


def _play(plan: Plan, scene: Scene, seen: Seen, say: Say) -> None:
    """Wait for a baseline, strike, wait for the verdict, hold, undo, wait for the end."""
    stack, setting = scene.stack, plan.module.SETTING
    if not setting.is_standing:
        wait_for_windows(stack, count=BASELINE_WINDOWS, timeout_s=START_S, say=say)
    say(f"fault on: {plan.fault} on rank {plan.rank}")
    before, struck_s = windows_of(stack), time.monotonic()
    with plan.module.hit(scene):
        incident = _named(plan, stack, before)
        if incident is None:
            passed = f"{windows_of(stack) - before} windows, {time.monotonic() - struck_s:.0f} s"
            say(f"not named within {passed}; said: {told(incidents_of(stack))}")
            return
        seen.windows, seen.seconds = windows_of(stack) - before, time.monotonic() - struck_s
        say(f"incident {incident['id']}: {told([incident])}")
        if not setting.stops_steps:
            hold = BRIEF_WINDOWS if plan.is_brief else HOLD_WINDOWS
            wait_for_windows(stack, count=windows_of(stack) + hold, timeout_s=HOLD_S, say=_quiet)
    if setting.is_standing or plan.is_brief:
        return
    say("fault off; waiting for the incident to resolve")
    seen.is_resolved = wait_for(stack, lambda item: _is_over(item, incident), timeout_s=RESOLVE_S) is not None
    say("incident resolved" if seen.is_resolved else f"not resolved within {RESOLVE_S:.0f} s")


def _named(plan: Plan, stack: Stack, before: int) -> dict[str, Any] | None:
    """The right incident, None if it does not come in time: in windows, and where none may come in seconds."""
    setting = plan.module.SETTING
    limit = LIMIT_WINDOWS + (BASELINE_WINDOWS if setting.is_standing else 0)
    end_s = time.monotonic() + (STOPPED_S if setting.stops_steps else DETECT_S)
    while time.monotonic() < end_s and windows_of(stack) - before <= limit:
        if incident := wait_for(stack, plan.truth.names, timeout_s=LOOK_S):
            return incident
    return None


def _is_over(item: dict[str, Any], incident: dict[str, Any]) -> bool:
    return bool(item["id"] == incident["id"] and item["status"] == "resolved")


def _quiet(_text: str) -> None:
    """Windows that are only waited for are not told."""
