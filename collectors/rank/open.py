"""What a thread has open: its phases, its communication outside of phases, the work it will wait for."""

from __future__ import annotations

import threading

from argus.collectors.rank.gpu import Stamp
from argus.collectors.rank.in_flight import Call


class Frame:
    """An open phase."""

    __slots__ = (
        "acc_ns",
        "chunk",
        "cpu_ns",
        "depth",
        "micro_batch",
        "name",
        "native",
        "stamp",
        "start_ns",
        "step",
        "wait_ns",
        "wait_stamp",
    )

    name: int
    native: int
    start_ns: int
    cpu_ns: int
    wait_ns: int
    depth: int
    step: int
    acc_ns: int
    chunk: int  # virtual pipeline chunk, -1 if none
    micro_batch: int  # -1 if none
    stamp: Stamp | None
    wait_stamp: Stamp | None  # from here to the phase's end the stream only waits for communication


NO_FRAME = Frame()
"""Stands for a phase that was not opened where what follows it must happen all the same."""


class Comm:
    """Communication called outside of every phase: consecutive calls make one phase."""

    __slots__ = (
        "cpu_end_ns",
        "cpu_ns",
        "end_ns",
        "name",
        "native",
        "since_ns",
        "start_ns",
        "step",
        "wait_ns",
    )

    name: int
    native: int
    step: int
    start_ns: int
    end_ns: int
    since_ns: int  # entry of the call that is open now, 0 between calls
    cpu_ns: int
    cpu_end_ns: int
    wait_ns: int


class ThreadState:
    """What one thread has open.

    `wait_ns` is all the time it ever stood still in communication, `comm_phase` the phase a library
    says its calls belong to (0 = the open one), `tokens` what nested hooks keep from entry to exit,
    `updates` the optimizer steps entered and not left (None: its closure runs, NO_FRAME: not called yet),
    `blocking` the work that a blocking call will wait for next.
    """

    __slots__ = ("blocking", "comm", "comm_phase", "stack", "tokens", "updates", "wait_ns")

    def __init__(self) -> None:
        self.stack: list[Frame] = []
        self.tokens: list[Frame | None] = []
        self.updates: list[Frame | None] = []
        self.blocking: tuple[object, Call] | None = None
        self.comm_phase = 0
        self.wait_ns = 0
        self.comm: Comm | None = None


class Local(threading.local):
    def __init__(self) -> None:
        self.state = ThreadState()
