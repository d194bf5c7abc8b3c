"""What a stack's service says over time: windows analysed, incidents, and waiting for either."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from argus.evals.stack import Stack, StackError

POLL_S = 0.5
SAY_EVERY = 4


class Progress:
    """Lines on stderr with the seconds since the start."""

    def __init__(self, start_s: float) -> None:
        self._start_s = start_s

    def __call__(self, text: str) -> None:
        """Say it."""
        print(f"[{time.monotonic() - self._start_s:5.1f} s] {text}", file=sys.stderr, flush=True)


def incidents_of(stack: Stack) -> list[dict[str, Any]]:
    """Every incident of the run, open ones first."""
    items: list[dict[str, Any]] = stack.get(f"/v1/incidents?run={stack.run}")["items"]
    return items


def card_of(stack: Stack, incident: dict[str, Any]) -> str:
    """An incident as text for people."""
    card: str = stack.get(f"/v1/incidents/{incident['id']}/card")["text"]
    return card


def windows_of(stack: Stack) -> int:
    """How many windows of the run were analysed."""
    runs = stack.get("/v1/runs")["items"]
    return max((item["windows"] for item in runs if item["run"] == stack.run), default=0)


def wait_for(
    stack: Stack, wanted: Callable[[dict[str, Any]], bool], *, timeout_s: float
) -> dict[str, Any] | None:
    """The first incident that is `wanted`, None if none comes in time. StackError if a process dies meanwhile."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        stack.check()
        if found := [item for item in incidents_of(stack) if wanted(item)]:
            return found[0]
        time.sleep(POLL_S)
    return None


def wait_for_windows(stack: Stack, *, count: int, timeout_s: float, say: Callable[[str], None]) -> None:
    """Wait until `count` windows were analysed; StackError if they do not come in time."""
    deadline = time.monotonic() + timeout_s
    shown = 0
    while time.monotonic() < deadline:
        stack.check()
        windows = windows_of(stack)
        if windows >= shown + SAY_EVERY or windows >= count:
            shown = windows
            say(f"{windows} windows of {stack.window_steps} steps analysed")
        if windows >= count:
            return
        time.sleep(POLL_S)
    raise StackError(f"only {shown} windows within {timeout_s:.0f} s:\n{stack.log('job')[-2000:]}")
