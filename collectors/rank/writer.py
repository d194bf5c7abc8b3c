"""The writer thread: rows from the ring, as frames, into the sink, once a second."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from argus.collectors.rank.guard import LOGGER
from argus.collectors.rank.own_thread import OwnThread
from argus.collectors.rank.ring import Ring, Row
from argus.collectors.rank.session import Session
from argus.collectors.rank.sink import Sink
from argus.collectors.rank.state import never
from argus.collectors.records.events import DTYPES
from argus.collectors.records.frames import Kind, encode_json, encode_rows
from argus.collectors.records.layout import Layout
from argus.collectors.records.switch import OFF

PERIOD_S = 0.5  # between turns; what a collector does in one must not wait for longer
SEND_TICKS = 2
"""Turns of which one sends rows and a status: a frame costs the processor the same whatever it holds."""

CLOSE_S = 1.0  # what is not out by then is lost: the process wants to end
BLOCK_ROWS = 8192  # of a block in one frame: half a megabyte, after which room is looked for again
FAILED = "writer_error"
"""Turns of the writer that failed, among the drop counts: what a turn had taken is counted beside it."""

UNPACKED = "unpackable"
"""Rows whose values fit no row of their kind."""

MAX_BREAKS = 20
"""Ways out of the loop that a writer survives, each at least a period after the last."""

HEAR_S = 0.25
"""For the processor's answer to a goodbye, which comes in milliseconds: that the recording of this job is not whole."""

POLL_S = 0.02  # between attempts to empty the outbox while closing


class Stream:
    """Turns what is in the ring into frames; remembers what the other side has heard."""

    def __init__(
        self,
        session: Session,
        *,
        layout: Callable[[], Layout | None],
        sink: Callable[[Stream], Sink],
        is_off: Callable[[], bool] = never,
    ) -> None:
        self._session = session
        self._ring: Ring = session.ring
        self._layout = layout
        self._is_off = is_off
        self._layout_frame = b""
        self._owes_layout = False
        self.raised = ""  # what ends the process, for its last status
        self._num_names = 0
        self._num_notes = 0
        self._dropped: dict[str, int] = {}
        self.sink = sink(self)

    def prelude(self) -> bytes:
        """What a new connection must hear before any row."""
        names = self._ring.names[: self._num_names]
        frames = [self._layout_frame, encode_json(Kind.STRINGS, {"first": 0, "names": names})]
        frames += [
            encode_json(Kind.NOTE, {"unseen": text}) for text in self._session.notes[: self._num_notes]
        ]
        if self._dropped:
            frames.append(encode_json(Kind.DROPS, dict(self._dropped)))
        return b"".join(frames)

    def send_rows(self) -> None:
        """Layout, new names, rows, notes, drop counts; rows stay in the ring while the outbox is full."""
        self._send_layout()
        if not self.sink.has_room:
            self._ring.full_reason = "processor_slow" if self.sink.is_connected else "processor_absent"
            return
        self._ring.full_reason = "ring_full"
        if self._follow_switch():
            self._discard()
            return
        taken = {kind: self._ring.take(kind) for kind in DTYPES}
        try:
            self._send_names()
        except Exception:
            self._ring.drop(UNPACKED, sum(map(len, taken.values())))
            raise
        for kind, rows in taken.items():
            if rows:
                self._send_taken(kind, rows)
        self._send_blocks()
        self._send_notes()

    def _send_taken(self, kind: str, rows: list[Row]) -> None:
        """Rows that cannot be packed are lost and counted; those of the other kinds go out."""
        try:
            self.sink.push(encode_rows(kind, np.array(rows, DTYPES[kind])))
        except Exception as error:  # noqa: BLE001 one bad row must not end a rank's reporting
            self._ring.drop(UNPACKED, len(rows))
            self._session.unseen(f"{kind}: {len(rows)} rows could not be packed: {type(error).__name__}")

    def _follow_switch(self) -> bool:
        """Whether this host is switched off; then every channel is off too, while steps and calls are counted."""
        off = self._session.recorder.channels.is_off = self._is_off()
        return off

    def _discard(self) -> None:
        for kind in DTYPES:
            self._ring.take(kind)
            while self._ring.take_block(kind) is not None:
                continue

    def _send_blocks(self) -> None:
        """Rows that came as arrays, while there is room: a block that has begun goes out whole."""
        for kind in DTYPES:
            while self.sink.has_room and (block := self._ring.take_block(kind)) is not None:
                self._send_names()
                for first in range(0, len(block), BLOCK_ROWS):
                    self.sink.push(encode_rows(kind, block[first : first + BLOCK_ROWS]))

    def send_status(self) -> None:
        """The sign of life; skipped while nobody listens, an old one is worth nothing."""
        if self.sink.is_connected and self.sink.has_room:
            status = self._session.recorder.status(self._session.calls.status())
            if self.raised:
                status = replace(status, raised=self.raised)
            if self._is_off():
                status = replace(status, in_mark=OFF)
            self.sink.push(encode_json(Kind.STATUS, status.to_json()))

    def _send_layout(self) -> None:
        layout = self._layout()
        if layout is not None:
            self._layout_frame = encode_json(Kind.LAYOUT, layout.to_json())
            self._owes_layout = True
        if self._owes_layout and self.sink.has_room:  # of several that wait the latest is enough
            self.sink.push(self._layout_frame)
            self._owes_layout = False

    def _send_names(self) -> None:
        names = self._ring.names
        known, count = self._num_names, len(names)
        if known < count:
            self.sink.push(encode_json(Kind.STRINGS, {"first": known, "names": names[known:count]}))
            self._num_names = count  # once they are out: what failed is tried again

    def _send_notes(self) -> None:
        notes = self._session.notes
        for text in notes[self._num_notes :]:
            self.sink.push(encode_json(Kind.NOTE, {"unseen": text}))
        self._num_notes = len(notes)
        dropped = self._ring.dropped()
        if dropped != self._dropped:
            self.sink.push(encode_json(Kind.DROPS, dict(dropped)))
            self._dropped = dropped


def next_turn(now_s: float, period_s: float) -> tuple[int, float]:
    """Number of the next turn and the seconds until then. Turns are at whole periods of the wall clock, at the same
    moments on all ranks: a turn takes the interpreter's lock from training, and what delays all at once delays the
    job once, where turns that lie apart delay one step after another.

    >>> next_turn(20.25, 0.5)
    (41, 0.25)
    """
    turn = math.floor(now_s / period_s) + 1
    return turn, turn * period_s - now_s


class Writer:
    """The thread around a stream."""

    def __init__(self, stream: Stream, session: Session, *, period_s: float = PERIOD_S) -> None:
        self._stream = stream
        self._session = session
        self._period_s = period_s
        self._says_bye = True
        self._stop = threading.Event()
        self._thread = OwnThread(self._run, name="argus-writer")

    def start(self) -> None:
        """Begin writing. RuntimeError if there is no thread to be had."""
        self._thread.start()

    def close(self, *, in_order: bool = True, raised: str = "") -> None:
        """Flush, say goodbye if the rank ended in order, hang up; gives up after `CLOSE_S`."""
        self._says_bye = in_order
        self._stream.raised = raised
        self._stop.set()
        self._thread.join(CLOSE_S)

    def abandon(self) -> None:
        """In a forked child: its copy of the connection would keep a dead rank alive for the processor."""
        self._stream.sink.close()

    def _run(self) -> None:
        """Write until closed, whatever the program has set for all its threads breaks into it."""
        for _ in range(MAX_BREAKS):
            try:
                self._write_on()
                break
            except BaseException as error:  # noqa: BLE001 nobody but us may end this thread: the rank would go unseen
                self._failed(error)
                self._stop.wait(self._period_s)
        else:
            logging.getLogger(LOGGER).warning("argus: this rank is observed no longer: its writer broke off")
            self._session.stop()
        self._try(self._finish)

    def _write_on(self) -> None:
        sent = -1
        while True:
            turn, wait_s = next_turn(time.time(), self._period_s)
            if self._stop.wait(wait_s):
                return
            due = turn // SEND_TICKS
            self._try(partial(self._tick, sends=due != sent))
            sent = due

    def _try(self, turn: Callable[[], None]) -> None:
        """A turn that fails is counted and said once; the next may do: rows wait in the ring meanwhile."""
        try:
            turn()
        except Exception as error:  # noqa: BLE001 the rank goes on reporting whatever one turn meets
            self._failed(error)

    def _failed(self, error: BaseException) -> None:
        self._session.ring.drop(FAILED, 1)
        text = f"writer: a turn failed with {type(error).__name__}"
        if text not in self._session.notes:
            logging.getLogger(LOGGER).warning("argus: %s: %r", text, error)
        self._session.unseen(text)

    def _tick(self, *, sends: bool) -> None:
        self._session.tick()
        is_due = sends or self._session.ring.is_filling
        if is_due and not self._session.recorder.channels.is_shadow:
            self._stream.send_rows()
        if sends:
            self._stream.send_status()
        self._stream.sink.pump()

    def _finish(self) -> None:
        sink = self._stream.sink
        end_s = time.monotonic() + CLOSE_S
        self._session.tick()
        self._stream.send_rows()
        sink.pump()  # of a process that ends before its first turn this is the first time that somebody listens
        self._stream.send_status()
        if self._says_bye:
            sink.push(encode_json(Kind.BYE, {}))
        sink.pump()
        while sink.is_connected and not sink.is_empty and time.monotonic() < end_s:
            time.sleep(POLL_S)
            sink.pump()
        if self._says_bye and sink.is_empty:
            sink.hear_out(min(HEAR_S, end_s - time.monotonic()))
        sink.close()
