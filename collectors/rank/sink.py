"""The rank's end of the socket: a bounded outbox that survives a processor that is absent, slow or restarted."""

from __future__ import annotations

import logging
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from argus.collectors.rank.descriptor import Descriptor
from argus.collectors.rank.guard import LOGGER
from argus.collectors.records.errors import WireError
from argus.collectors.records.frames import FrameReader, Kind

MAX_BYTES = 2 << 20  # outbox: ~20,000 rows, some seconds of a busy rank
SEND_TIMEOUT_S = 0.2  # one write may block the writer thread, never training
READ_BYTES = 4096  # what the processor says is rare and short
BACK_OFF_S = (0.5, 1.0, 2.0, 5.0)  # between attempts to reach the processor

Connect = Callable[[], socket.socket]


def connect_to(path: Path) -> socket.socket:
    """A connection to the processor of the same user. OSError if there is none."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.settimeout(SEND_TIMEOUT_S)
        sock.connect(str(path))
        raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        uid = struct.unpack("3i", raw)[1]
        if uid not in (os.getuid(), 0):
            raise PermissionError(f"{path} is served by user {uid}, not by {os.getuid()}")
    except OSError:
        sock.close()
        raise
    return sock


class Sink:
    """Frames in, bytes out. `prelude` makes what a new connection must hear first."""

    def __init__(
        self,
        *,
        connect: Connect,
        prelude: Callable[[], bytes],
        now_s: Callable[[], float],
        max_bytes: int = MAX_BYTES,
        on_control: Callable[[dict[str, object]], None] | None = None,
    ) -> None:
        self._connect = connect
        self._on_control = on_control
        self._reader = FrameReader()
        self._prelude = prelude
        self._now_s = now_s
        self._max_bytes = max_bytes
        self._sock: socket.socket | None = None
        self._descriptor: Descriptor | None = None  # of the socket
        self._frames: deque[bytes] = deque()
        self._opening = b""  # what this connection must still hear first; apart, for each one has its own
        self._sent = 0  # bytes of the opening, or else of the first frame, that are out
        self._size = 0
        self._failures = 0
        self._retry_at_s = 0.0

    @property
    def is_connected(self) -> bool:
        """Whether a processor takes our bytes."""
        return self._sock is not None

    @property
    def has_room(self) -> bool:
        """Whether rows may be encoded for sending."""
        return self._size + len(self._opening) < self._max_bytes

    @property
    def is_empty(self) -> bool:
        """Whether everything is out."""
        return not self._frames and not self._opening

    def push(self, frame: bytes) -> None:
        """Queue a frame; the caller asks `has_room` before it encodes rows."""
        self._frames.append(frame)
        self._size += len(frame)

    def pump(self) -> None:
        """Connect if it is time to, then write until the socket would block."""
        if self._descriptor is not None and not self._descriptor.is_ours:
            self._lose()
        was_connected = self.is_connected
        if not was_connected and not self._reach():
            return
        try:
            while self._write():
                pass
            self._listen()
            if was_connected and not self._opening:
                self._failures = 0  # not sooner: one that is full accepts and hangs up
        except OSError:
            with suppress(OSError, WireError):
                self._listen()  # to what it said before it hung up
            self._lose()
        except WireError as error:
            logging.getLogger(LOGGER).warning("argus: the processor is not understood: %s", error)
            self._lose()

    def hear_out(self, within_s: float) -> None:
        """Take what the processor still says until it hangs up, as it does after a goodbye, or the time is over."""
        end_s = time.monotonic() + within_s
        while self._sock is not None and (left_s := end_s - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(self._sock, select.POLLIN)
            if poll.poll(left_s * 1e3):
                self.pump()

    def close(self) -> None:
        """Hang up; a socket that the program closed is let go of, its number may be another file's."""
        if self._sock is not None and self._descriptor is not None:
            if self._descriptor.is_ours:
                self._sock.close()
            else:
                self._sock.detach()
            self._sock = self._descriptor = None

    def _reach(self) -> bool:
        if self._now_s() < self._retry_at_s:
            return False
        try:
            sock = self._connect()
        except OSError:
            self._lose()
            return False
        self._reader = FrameReader()
        self._opening = self._prelude()
        self._sock, self._descriptor = sock, Descriptor(sock.fileno())
        return True

    def _write(self) -> bool:
        """Write some of what is next; False if that is nothing or the socket takes no more now."""
        assert self._sock is not None
        if self.is_empty:
            return False
        frame = self._opening or self._frames[0]
        try:
            self._sent += self._sock.send(memoryview(frame)[self._sent :])
        except TimeoutError:
            return False
        if self._sent == len(frame):
            self._sent = 0
            if self._opening:
                self._opening = b""
            else:
                self._size -= len(self._frames.popleft())
        return True

    def _listen(self) -> None:
        """Take what the processor said since the last look, never waiting for it. OSError if it hung up."""
        assert self._sock is not None
        self._sock.settimeout(0)
        try:
            chunk = self._sock.recv(READ_BYTES)
        except BlockingIOError:
            return
        finally:
            self._sock.settimeout(SEND_TIMEOUT_S)
        if not chunk:
            raise ConnectionResetError
        for frame in self._reader.feed(chunk):
            if frame.kind is Kind.CONTROL and self._on_control is not None:
                self._on_control(frame.body or {})

    def _lose(self) -> None:
        """The connection is gone: a frame that was out in part starts again on the next one."""
        self.close()
        self._opening, self._sent = b"", 0
        wait_s = BACK_OFF_S[min(self._failures, len(BACK_OFF_S) - 1)]
        self._failures += 1
        self._retry_at_s = self._now_s() + wait_s
