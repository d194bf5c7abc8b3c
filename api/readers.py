"""Reads what hosts send in processes beside the service, once there is so much that it would hold up everything else."""

from __future__ import annotations

import atexit
import fcntl
import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Protocol, TypeVar, cast

from argus.agent.wording import counted

T = TypeVar("T")

LOG = logging.getLogger("argus.readers")

SHARE = 0.05
"""Of one interpreter: what reading may take of the service's own for long. A process costs 80 MB, and a small service
needs none."""

PATIENCE_S = 0.5
"""How much reading may come at one time without being much."""

PIPE_BYTES = 1 << 20
"""What lies between the service and a reader: an upload of eight ranks is half of it. Linux lets no user have more."""

HANG_S = 60.0
"""A reader that has not answered for so long is stopped or swapped out for good: it is ended, and another begun."""

AGAIN_S, MAX_AGAIN_S = 1.0, 60.0
"""Until a reader that ended is replaced; twice as long each time, unless the last one lasted."""

LOOK_S = 0.5
"""How often who waits for a reader looks whether there is one still."""

TOLD_S = 600.0
"""How long /readyz tells of a reader that ended: longer than a scrape and a look take."""


class Beside(Protocol):
    """A process that computes what it is asked, one call after the other."""

    def is_up(self) -> bool:
        """Whether it has begun to listen. Raises OSError or EOFError if it is gone."""

    def ask(self, function: Callable[..., object], args: tuple[object, ...]) -> object:
        """What the function returned or raised there, as a value. Raises OSError or EOFError if it is gone."""

    def end(self) -> None:
        """End it at once."""


class Process:
    """The real one: spawned, for a service has threads, whose locks a fork would copy in any state."""

    def __init__(self) -> None:
        context = get_context("spawn")
        asked, self._asking = context.Pipe(duplex=False)
        self._answers, answering = context.Pipe(duplex=False)
        for pipe in (asked, answering):
            _widen(pipe.fileno())
        self._process = context.Process(
            target=serve, args=(asked, answering), name="argus-reader", daemon=True
        )
        self._is_up = False
        self._process.start()
        atexit.register(self._process.kill)  # before multiprocessing waits for it, which heeds no SIGTERM
        asked.close()
        answering.close()

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self._process.pid is not None
        return self._process.pid

    def is_up(self) -> bool:
        """Whether it has said hello. Raises EOFError if it ended before."""
        if not self._is_up and self._answers.poll():
            self._answers.recv()
            self._is_up = True
        return self._is_up

    def ask(self, function: Callable[..., object], args: tuple[object, ...]) -> object:
        """One call there. Raises OSError or EOFError if it is gone or hangs."""
        self._asking.send((function, args))
        if not self._answers.poll(HANG_S):
            raise TimeoutError(f"no answer within {HANG_S:.0f} s")
        return self._answers.recv()

    def end(self) -> None:
        """Kill it: it holds nothing that is not asked for again."""
        self._process.kill()
        self._process.join()
        atexit.unregister(self._process.kill)


def _widen(pipe: int) -> None:
    """Let an upload fit into a pipe: each piece would be a wait for the interpreter, which others want too."""
    size = getattr(fcntl, "F_SETPIPE_SZ", None)
    if size is not None:
        with suppress(OSError):  # a user may have only so many
            fcntl.fcntl(pipe, size, PIPE_BYTES)


def serve(asked: Connection, answering: Connection) -> None:
    """The process's body: answer until the service is gone, whatever signal its group gets."""
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with suppress(EOFError, OSError):
        answering.send("up")
        while True:
            function, args = asked.recv()
            try:
                answer = function(*args)
            except Exception as error:  # noqa: BLE001 - it is raised again, where it was asked for
                answer = Raised(error)
            answering.send(answer)


class Raised:
    """What a function raised instead of returning."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class Readers:
    """Calls pure functions, of modules, with arguments and results that can be pickled.

    Here and `size` at a time until they have taken more than `SHARE` of the interpreter for a while, then in `size`
    processes. Nothing depends on those: whatever one was asked when it was killed is done here, and another is begun.

    >>> Readers(size=1)(len, b"abc")
    3
    """

    def __init__(
        self,
        *,
        size: int,
        patience_s: float = PATIENCE_S,
        begin: Callable[[], Beside] = Process,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self._size, self._patience_s, self._begin, self._ticks = size, patience_s, begin, ticks
        self._here = threading.Semaphore(size)
        self._changed = threading.Condition()
        self._all: list[Beside] = []
        self._idle: list[Beside] = []
        self._asked_s: dict[Beside, float] = {}
        self._busy_s, self._noted_s = 0.0, ticks()
        self._is_much = self._is_closed = False
        self._again_s = self._ended_s = float("-inf")
        self._delay_s, self._num_ended = AGAIN_S, 0

    def __call__(self, function: Callable[..., T], *args: object) -> T:
        """What `function` makes of the arguments. Raises what it raises."""
        beside = self._take() if self._is_much else None
        if beside is None:
            return self._do_here(function, args)
        try:
            answer = beside.ask(function, args)
        except (OSError, EOFError) as error:
            with self._changed:
                self._lose(beside, error)
            return self._do_here(function, args)
        with self._changed:
            self._asked_s.pop(beside, None)
            if not self._is_closed:
                self._idle.append(beside)
            self._changed.notify()
        if isinstance(answer, Raised):
            raise answer.error
        return cast(T, answer)

    def trouble(self) -> str:
        """What there is to say of readers that ended lately, "" if nothing."""
        if self._ticks() - self._ended_s >= TOLD_S:
            return ""
        ended = counted(self._num_ended, "readers")
        return f"{ended} of uploads ended and had to be begun again; nothing was lost with them"

    def close(self) -> None:
        """End the processes; what is asked from now on is done here."""
        with self._changed:
            self._is_closed, self._is_much = True, False
            ended, self._all, self._idle = self._all, [], []
            self._changed.notify_all()
        for beside in ended:
            beside.end()

    def _take(self) -> Beside | None:
        """A process that has nothing to do; None while there is none that works."""
        with self._changed:
            self._fill()
            self._end_hung()
            while any(up := [beside for beside in list(self._all) if self._is_up(beside)]):
                free = next((beside for beside in up if beside in self._idle), None)
                if free is not None:
                    self._idle.remove(free)
                    self._asked_s[free] = self._ticks()
                    return free
                self._changed.wait(LOOK_S)
                self._end_hung()
        return None

    def _end_hung(self) -> None:
        """Whoever asked one that takes nothing more, or gives nothing back, hears of its end."""
        for beside, asked_s in self._asked_s.items():
            if self._ticks() - asked_s > HANG_S:
                beside.end()

    def _fill(self) -> None:
        """As many processes as there are to be, unless the last ones ended just now."""
        while len(self._all) < self._size and not self._is_closed and self._ticks() >= self._again_s:
            try:
                beside = self._begin()
            except OSError as error:
                self._note_end(error)
                return
            self._all.append(beside)
            self._idle.append(beside)

    def _is_up(self, beside: Beside) -> bool:
        try:
            return beside.is_up()
        except (OSError, EOFError) as error:
            self._lose(beside, error)
            return False

    def _lose(self, beside: Beside, error: Exception) -> None:
        beside.end()
        self._asked_s.pop(beside, None)
        if beside not in self._all:
            return  # it was closed
        self._all.remove(beside)
        self._idle = [other for other in self._idle if other is not beside]
        self._note_end(error)

    def _note_end(self, error: Exception) -> None:
        now_s = self._ticks()
        has_lasted = now_s - self._ended_s > 2 * MAX_AGAIN_S
        self._delay_s = AGAIN_S if has_lasted else min(2 * self._delay_s, MAX_AGAIN_S)
        self._again_s, self._ended_s, self._num_ended = now_s + self._delay_s, now_s, self._num_ended + 1
        LOG.warning("a process that reads uploads ended (%r); what it was reading is read here", error)

    def _do_here(self, function: Callable[..., T], args: tuple[object, ...]) -> T:
        with self._here:
            begun_s = self._ticks()
            try:
                return function(*args)
            finally:
                self._note(self._ticks() - begun_s)

    def _note(self, took_s: float) -> None:
        """Count time spent here: a bucket that leaks `SHARE` of it."""
        with self._changed:
            now_s = self._ticks()
            self._busy_s = max(self._busy_s - SHARE * (now_s - self._noted_s), 0.0) + took_s
            self._noted_s = now_s
            self._is_much |= self._busy_s > self._patience_s and not self._is_closed
