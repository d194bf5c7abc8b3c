"""A rank for tests and rehearsals: plays records onto a processor's socket."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from argus.collectors.records.events import DTYPES, RankRecords
from argus.collectors.records.frames import FrameReader, Kind, encode_json, encode_rows
from argus.collectors.records.heartbeat import Status
from argus.collectors.records.layout import Layout

NAMES = ("", "forward", "backward", "all_reduce", "default_pg", "grad_sync", "gc")
STEP_NS = 100_000_000
READ_BYTES = 4096


def steps(layout: Layout, first: int, end: int) -> RankRecords:
    """Steps [first, end) of a plain loop: forward, backward, one all-reduce, each as long as the last.

    >>> len(steps(Layout(run="r", attempt=0, rank=0, world_size=2), 0, 3).phases)
    6
    """
    count = end - first
    start_ns = 1_700_000_000_000_000_000 + np.arange(first, end) * STEP_NS
    ends = np.zeros(count, DTYPES["steps"])
    phases = np.zeros(2 * count, DTYPES["phases"])
    collectives = np.zeros(count, DTYPES["collectives"])
    ends["start_ns"], ends["end_ns"], ends["user_step"] = start_ns, start_ns + STEP_NS, -1
    for offset, name in ((0, 1), (1, 2)):
        part = phases[offset::2]
        part["step"], part["name"], part["native"] = np.arange(first, end), name, name
        part["start_ns"], part["dur_ns"] = start_ns + offset * STEP_NS // 2, STEP_NS // 2
    collectives["op"], collectives["group"], collectives["phase"] = 3, 4, 5
    collectives["seq"], collectives["peer"] = np.arange(first, end), -1
    collectives["entry_ns"], collectives["end_ns"] = start_ns + STEP_NS // 2, start_ns + STEP_NS
    ends["step"] = collectives["step"] = np.arange(first, end)
    return RankRecords(layout=layout, names=NAMES, steps=ends, phases=phases, collectives=collectives)


def frames(records: RankRecords) -> bytes:
    """The row frames of `records`; layout and names go ahead of them once."""
    return b"".join(
        encode_rows(kind, getattr(records, kind)) for kind in DTYPES if len(getattr(records, kind))
    )


def preamble(layout: Layout, names: tuple[str, ...] = NAMES) -> bytes:
    """What a connection begins with."""
    strings = {"first": 0, "names": list(names)}
    return encode_json(Kind.LAYOUT, layout.to_json()) + encode_json(Kind.STRINGS, strings)


class FakeRank:
    """One connection that says what it is told to."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.layout = layout
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(os.fspath(path))
        self.sock.sendall(preamble(layout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.sock.close()

    def play(self, first: int, end: int) -> None:
        """Send steps [first, end)."""
        self.sock.sendall(frames(steps(self.layout, first, end)))

    def send(self, kind: Kind, body: dict[str, object]) -> None:
        """Send a JSON frame."""
        self.sock.sendall(encode_json(kind, body))

    def status(self, step: int) -> None:
        """Send a sign of life."""
        self.send(
            Kind.STATUS, Status(ts_ns=step * STEP_NS, step=step, groups={"default_pg": (3, 2)}).to_json()
        )

    def hear(self) -> dict[str, object]:
        """The next thing the processor says; waits for it."""
        reader = FrameReader()
        while chunk := self.sock.recv(READ_BYTES):
            for frame in reader.feed(chunk):
                return frame.body or {}
        raise ConnectionError("the processor hung up without a word")

    def bye(self) -> None:
        """End in order."""
        self.send(Kind.BYE, {})
        self.sock.close()
