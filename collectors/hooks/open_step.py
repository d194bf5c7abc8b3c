"""Which step is open, on a page that the host's processor reads: one write of 16 bytes a step."""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from argus.collectors.rank.descriptor import Descriptor
from argus.collectors.rank.guard import Part
from argus.collectors.rank.identity import Place, attempt_of, place_of
from argus.collectors.rank.layout import place_in_group
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.session import Session
from argus.collectors.records.endpoint import socket_path
from argus.collectors.records.open_step import BEGUN, NUM_BYTES, USUAL, page_file

NEEDS = "torch"


def install(session: Session, part: Part) -> None:
    """Write at each step's end; the page is made once the processor's directory is there."""
    place = place_in_group() or place_of(os.environ) or Place(rank=0, world_size=1, local_rank=0)
    path = page_file(socket_path(os.environ), session.run, attempt_of(os.environ), place.rank)
    page, recorder = Page(path, session.recorder), session.recorder
    begun, optimized = part.guard(page.begun), part.guard(page.optimized)
    recorder.on_step.append(begun)
    recorder.on_optimized.append(optimized)
    session.on_tick(part.guard(page.tick))
    part.on_undo(page.close)
    part.on_undo(lambda: recorder.on_optimized.remove(optimized))
    part.on_undo(lambda: recorder.on_step.remove(begun))


class _File:
    """An open file, closed when the last thread lets go of it: a write never meets a number used again."""

    def __init__(self, fd: int) -> None:
        self._descriptor = Descriptor(fd)

    def __del__(self) -> None:
        self._descriptor.close()

    @property
    def is_there(self) -> bool:
        """Whether it is ours and has a name: the processor removes the page of the process before, maybe late."""
        return self._descriptor.is_ours and os.fstat(self._descriptor.fd).st_nlink > 0

    def write(self, raw: bytes, offset: int) -> bool:
        """Write there; False if the program closed the file."""
        if not self._descriptor.is_ours:
            return False
        os.pwrite(self._descriptor.fd, raw, offset)
        return True


class Page:
    """A small file written in place: nothing of it can fault the training process, as a mapping could."""

    def __init__(self, path: Path, recorder: Recorder) -> None:
        self._path, self._recorder = path, recorder
        self._file: _File | None = None
        self._step = -1
        self._pid = os.getpid()

    def begun(self, step: int) -> None:
        """Step `step` runs; unless the optimizer before it said so already, it begins now."""
        if step != self._step:
            self._write(step)

    def optimized(self) -> None:
        """An optimizer is done: the next step begins here, unless another optimizer follows."""
        step = self._recorder.current_step
        if step != self._recorder.step:
            self._write(step)

    def tick(self) -> None:
        """The usual length of a step; 0 says that this one may last. A page that was removed is made again."""
        if self._file is not None and not self._file.is_there:
            self._file = None
        if self._file is None and self._path.parent.is_dir():
            how = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            self._file = _File(os.open(self._path, how, 0o600))
            self._put(bytes(NUM_BYTES), 0)
        self._put(USUAL.pack(self._usual_ns()), BEGUN.size)

    def close(self) -> None:
        """Nothing is open any more; a forked child leaves the page to its parent."""
        if self._file is not None and os.getpid() == self._pid:
            self._path.unlink(missing_ok=True)
        self._file = None

    def _usual_ns(self) -> int:
        durations = self._recorder.last_durations_ns()
        return int(statistics.median(durations)) if durations and not self._recorder.mark else 0

    def _write(self, step: int) -> None:
        self._step = step
        self._put(BEGUN.pack(step, time.monotonic_ns()), 0)

    def _put(self, raw: bytes, offset: int) -> None:
        """Write on the page; one that the program closed is opened again by the next tick."""
        file = self._file
        if file is not None and not file.write(raw, offset):
            self._file = None
