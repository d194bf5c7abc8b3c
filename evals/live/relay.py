"""Forwards frames between two TAP devices, later or not at all: what `netem` does where the kernel lacks it."""

from __future__ import annotations

import argparse
import errno
import fcntl
import heapq
import json
import os
import random
import select
import struct
import time
from dataclasses import dataclass, field
from pathlib import Path

from argus.evals.live.network import command

TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
FRAME_BYTES = 65_536
BURST = 64
"""Frames read at once, so that neither direction starves the other."""

LOOK_S = 0.05


@dataclass
class Line:
    """Frames on their way, the one due first in front."""

    delay_s: float = 0.0
    drop: float = 0.0
    rng: random.Random = field(default_factory=random.Random)
    _queue: list[tuple[float, int, int, bytes]] = field(default_factory=list)
    _count: int = 0

    def take(self, frame: bytes, *, to: int, now_s: float) -> None:
        """A frame for `to` has come; it may get lost."""
        if self.drop and self.rng.random() < self.drop:
            return
        self._count += 1  # frames due at one moment stay in their order
        heapq.heappush(self._queue, (now_s + self.delay_s, self._count, to, frame))

    def due(self, now_s: float) -> list[tuple[int, bytes]]:
        """What is to be delivered by now."""
        out = []
        while self._queue and self._queue[0][0] <= now_s:
            _, _, to, frame = heapq.heappop(self._queue)
            out.append((to, frame))
        return out

    def wait_s(self, now_s: float) -> float:
        """How long nothing is due, at most until the next look at what is wanted."""
        return min(max(self._queue[0][0] - now_s, 0.0), LOOK_S) if self._queue else LOOK_S


def open_tap(name: str, *, namespace: str, as_name: str) -> int:
    """A TAP device in a namespace; the descriptor stays good when the device moves there."""
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    command("ip", "link", "set", name, "netns", namespace, "name", as_name)
    return fd


def forward(inner: int, outer: int, control: Path) -> None:
    """Until killed."""
    line, other, looked_s = Line(), {inner: outer, outer: inner}, 0.0
    while True:
        now_s = time.monotonic()
        if now_s - looked_s >= LOOK_S:
            looked_s = now_s
            wanted = json.loads(control.read_text())
            line.delay_s, line.drop = wanted["delay_s"], wanted["drop"]
        for to, frame in line.due(now_s):
            _write(to, frame)
        ready, _, _ = select.select([inner, outer], [], [], line.wait_s(now_s))
        now_s = time.monotonic()
        for fd in ready:
            for frame in _read(fd):
                line.take(frame, to=other[fd], now_s=now_s)


def _read(fd: int) -> list[bytes]:
    frames: list[bytes] = []
    while len(frames) < BURST:
        try:
            frames.append(os.read(fd, FRAME_BYTES))
        except BlockingIOError:
            break
    return frames


def _write(fd: int, frame: bytes) -> None:
    try:
        os.write(fd, frame)
    except OSError as error:
        # A full queue or an interface that is down drops frames, as any switch does.
        if error.errno not in (errno.EAGAIN, errno.EIO, errno.ENOBUFS):
            raise


def main() -> None:
    """Open both ends, say so, forward."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inner", nargs=2, required=True, metavar=("NAMESPACE", "INTERFACE"))
    parser.add_argument("--outer", nargs=2, required=True, metavar=("NAMESPACE", "INTERFACE"))
    parser.add_argument(
        "--control", type=Path, required=True, help='JSON {"delay_s", "drop"}, read again and again'
    )
    args = parser.parse_args()
    inner, outer = (
        open_tap(f"al{os.getpid()}{side}", namespace=namespace, as_name=name)
        for side, (namespace, name) in (("i", args.inner), ("o", args.outer))
    )
    print("ready", flush=True)
    forward(inner, outer, args.control)


if __name__ == "__main__":
    main()
