"""A processor for tests: hears ranks on a unix socket, keeps what they said, can stall or go away."""

from __future__ import annotations

import socket
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from argus.collectors.records.events import DTYPES, RankRecords, Rows
from argus.collectors.records.frames import Frame, FrameReader, Kind, encode_json
from argus.collectors.records.heartbeat import Status
from argus.collectors.records.layout import Layout

READ_BYTES = 1 << 16
POLL_S = 0.05
LAST = "the one behind everybody"


@dataclass(kw_only=True)
class Heard:
    """All one connection said; `is_over` once it hung up."""

    layouts: list[Layout] = field(default_factory=list)
    names: list[str] = field(default_factory=lambda: [""])
    rows: dict[str, list[Rows]] = field(default_factory=lambda: defaultdict(list))
    statuses: list[Status] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dropped: dict[str, int] = field(default_factory=dict)
    said_bye: bool = False
    is_over: bool = False

    def take(self, frame: Frame) -> None:
        """Add one frame."""
        body = frame.body or {}
        if frame.rows is not None:
            self.rows[frame.kind.name.lower()].append(frame.rows)
        elif frame.kind is Kind.LAYOUT:
            self.layouts.append(Layout.from_json(body))
        elif frame.kind is Kind.STRINGS:
            first = body["first"]
            self.names[first : first + len(body["names"])] = body["names"]
        elif frame.kind is Kind.STATUS:
            self.statuses.append(Status.from_json(body))
        elif frame.kind is Kind.NOTE:
            self.notes.append(body["unseen"])
        elif frame.kind is Kind.DROPS:
            self.dropped = body
        else:
            self.said_bye = True

    def records(self) -> RankRecords:
        """The rank's records so far."""
        parts = {kind: self.rows[kind] or [np.empty(0, DTYPES[kind])] for kind in DTYPES}
        rows = {kind: np.concatenate(part) for kind, part in parts.items()}
        names, notes = tuple(self.names), tuple(dict.fromkeys(self.notes))
        return RankRecords(
            layout=self.layouts[-1],
            names=names,
            dropped=dict(self.dropped),
            unseen=notes,
            looks=(),
            stacks=(),
            **rows,
        )


class FakeReceiver:
    """Listens on `path` from `start` to `stop`; nothing is read while `stall` is set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.heard: list[Heard] = []
        self.stall = threading.Event()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._server: socket.socket | None = None

    def start(self) -> FakeReceiver:
        """Begin to listen."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(self.path))
        self._server.listen(64)
        self._spawn(self._accept, self._server)
        return self

    def stop(self) -> None:
        """Stop listening and hang up on everybody."""
        self._stop.set()
        if self._server is not None:
            self._server.shutdown(socket.SHUT_RDWR)
            self._server.close()
            self._server = None
        for thread in self._threads:
            thread.join(5.0)
        self.path.unlink(missing_ok=True)

    def drain(self, *, within_s: float = 30.0) -> None:
        """Wait until everybody who connected before this call has hung up."""
        end_s = time.monotonic() + within_s
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as last:
            last.connect(str(self.path))
            last.sendall(encode_json(Kind.NOTE, {"unseen": LAST}))
        while not any(LAST in heard.notes for heard in self.heard) and time.monotonic() < end_s:
            time.sleep(POLL_S / 10)
        for thread in self._threads[1:]:
            thread.join(max(end_s - time.monotonic(), 0.0))
        self.heard = [heard for heard in self.heard if LAST not in heard.notes]

    def by_rank(self) -> dict[int, Heard]:
        """The last connection of every rank that introduced itself."""
        return {heard.layouts[-1].rank: heard for heard in self.heard if heard.layouts}

    def _spawn(self, target: object, sock: socket.socket) -> None:
        assert callable(target)
        thread = threading.Thread(target=target, args=(sock,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, server: socket.socket) -> None:
        while not self._stop.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return  # stopped
            self._spawn(self._read, connection)

    def _read(self, connection: socket.socket) -> None:
        heard = Heard()
        self.heard.append(heard)
        reader = FrameReader()
        connection.settimeout(POLL_S)
        with connection:
            while not self._stop.is_set() and not heard.said_bye:
                if self.stall.is_set():
                    self._stop.wait(POLL_S)
                    continue
                try:
                    chunk = connection.recv(READ_BYTES)
                except TimeoutError:
                    continue
                except OSError:
                    break
                if not chunk:
                    break
                for frame in reader.feed(chunk):
                    heard.take(frame)
        heard.is_over = True
