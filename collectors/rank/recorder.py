"""What a rank is doing now: open phases, the step, marks; finished ones go to the ring."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping

from argus.collectors.rank.channels import Channels
from argus.collectors.rank.clock import Clock
from argus.collectors.rank.gpu import GpuClock, Stamp
from argus.collectors.rank.open import Comm, Frame, Local, ThreadState
from argus.collectors.rank.ring import Ring, Row
from argus.collectors.rank.timeline import Timeline
from argus.collectors.records.events import (
    CLOCK_GPU,
    CLOCK_WALL,
    FLAG_CHECKPOINT,
    FLAG_EVAL,
    FLAG_WARMUP,
    OPS,
    PHASES,
)
from argus.collectors.records.heartbeat import Status

WARMUP_STEPS = 3  # the first one is seen in part, the second finds the modules, the third warms caches
COMPILE_WARMUP_STEPS = 50  # a compilation after that is a disturbance worth seeing, not warm-up
MEDIAN_STEPS = 31  # step times kept for the typical one in the status
NOT_IN_OPTIMIZER = ("data", "forward", "backward", "eval", "checkpoint", "rollout", "reward", "ref")
"""Phases that do not begin while an optimizer steps, but for those of a closure."""
HOST_PHASES = frozenset({"data", "checkpoint"})  # timed on the host's clock also where there is a GPU
MARK_FLAGS = {
    "checkpoint": FLAG_CHECKPOINT,
    "eval": FLAG_EVAL,
    "evaluation": FLAG_EVAL,
    "validation": FLAG_EVAL,
}


class Recorder:
    """Phases and steps of this process.

    Outermost phases (depth 0) of the training thread add up to the step: what no phase covers is one
    `other` record a step. Deeper records detail the phase around them and are never summed. A step
    ends with the last optimizer step before the next forward, so its end is a candidate until then.
    """

    def __init__(
        self,
        *,
        ring: Ring,
        now_ns: Clock,
        cpu_ns: Clock,
        gpu: GpuClock | None = None,
        channels: Channels | None = None,
    ) -> None:
        self.ring = ring
        self.channels = channels or Channels()
        self.now_ns = now_ns
        self.cpu_ns = cpu_ns
        self.gpu = gpu
        self.names = {name: ring.intern(name) for name in (*PHASES, *OPS)}
        self.step = 0
        self.mark = ""
        self.after_backward = False
        self.has_user_work = False  # argus.work says it: what the hooks guess would count twice
        self.last_bucket_ns = 0  # entry of DDP's latest gradient bucket, 0 = none in this backward
        self.last_bucket: Stamp | None = None  # the same on the GPU
        # Asked when an optimizer step seems to have raised.
        self.on_left_open: Callable[[], None] = lambda: None
        self._after_optimizer = {self.names[name] for name in NOT_IN_OPTIMIZER}
        self._other, self._optimizer = self.names["other"], self.names["optimizer"]
        self._host = {self.names[name] for name in HOST_PHASES}
        self._local = Local()
        self.train = self._local.state
        self._gap = ring.intern("between phases")
        self._manual, self._user_number = False, -1
        self._start_ns = self._start_cpu_ns = 0
        self._flags = self._next_flags = 0
        self._acc_ns = self._acc_cpu_ns = 0  # outermost phases since ever
        self._base_ns = self._base_cpu_ns = 0  # of that, before this step
        self._end: tuple[int, int, int, int] | None = None  # candidate: time, CPU, phases, their CPU
        self._durations_ns: list[int] = []  # the last ones; no deque, which another thread cannot copy safely
        self.timeline: Timeline | None = None  # kept for those who look up phases by time
        self.on_step: list[Callable[[int], None]] = []  # told the number of each step that begins
        self.on_optimized: list[Callable[[], None]] = []  # told when an optimizer step is done

    def here(self) -> ThreadState:
        """The calling thread's state."""
        return self._local.state

    @property
    def current_step(self) -> int:
        """The step a record that starts now belongs to."""
        return self.step if self._end is None else self.step + 1

    # Phases

    def open(self, name: int, native: int = 0) -> Frame | None:
        """Open a phase on the calling thread; both arguments are string indices. None: phases are off."""
        if not self.channels.phases:
            return None
        here = self._local.state
        stack, updates = here.stack, here.updates  # another thread may put others in their place
        if updates and name in self._after_optimizer and updates[-1] is not None:
            self.on_left_open()
        if here.comm is not None:
            self.flush_comm(here)
        frame = Frame()
        frame.name, frame.native = name, native
        frame.wait_ns, frame.acc_ns = here.wait_ns, self._acc_ns
        # Another optimizer moves the step's end; whatever else follows the end belongs to the next step.
        frame.step = self.step if self._end is None or name == self._optimizer else self.step + 1
        if stack:
            top = stack[-1]
            frame.depth = top.depth + (top.name != self._other)
        else:
            frame.depth = 0 if here is self.train else 1
        frame.chunk = frame.micro_batch = -1
        frame.wait_stamp = None
        frame.stamp = None if self.gpu is None or name in self._host else self.gpu.stamp()
        frame.cpu_ns = self.cpu_ns()
        frame.start_ns = self.now_ns()
        stack.append(frame)  # whole: the writer thread looks at it from now on
        if not self._start_ns:
            self._start_ns, self._start_cpu_ns = frame.start_ns, frame.cpu_ns
        if self.timeline is not None and here is self.train:
            self.timeline.put(frame.start_ns, step=frame.step, phase=name)
        return frame

    def close(self, frame: Frame | None) -> tuple[int, int] | None:
        """Close a phase and whatever was left open inside it; nothing if it is not open here.

        Returns wall and CPU time of its end: asking the kernel for the latter costs more than all else here.
        """
        here = self._local.state
        stack = here.stack
        if frame is None or frame not in stack:
            return None
        end_ns, cpu_ns = self.now_ns(), self.cpu_ns()
        if here.comm is not None:
            self.flush_comm(here)
        while (left := stack.pop()) is not frame:
            self._release(left)
        if self.timeline is not None and here is self.train:
            self.timeline.put(end_ns, step=frame.step, phase=stack[-1].name if stack else 0)
        dur_ns, used_ns = end_ns - frame.start_ns, cpu_ns - frame.cpu_ns
        depth = frame.depth
        if depth == 0 and frame.name == self._other and self._acc_ns != frame.acc_ns:
            depth = 1  # it only wraps phases that are counted already
        if depth == 0:
            self._acc_ns += dur_ns
            self._acc_cpu_ns += used_ns
        wait_ns = min(here.wait_ns - frame.wait_ns, dur_ns)
        self._emit(frame, dur_ns=dur_ns, wait_ns=wait_ns, cpu_ns=used_ns, depth=min(depth, 255))
        return end_ns, cpu_ns

    def discard(self, frame: Frame) -> None:
        """Forget a phase that did not end in order, and what is open inside it: its length is not known."""
        stack = self._local.state.stack
        while frame in stack:
            self._release(stack.pop())

    def _release(self, frame: Frame) -> None:
        """Let its events be used again: nobody will be told its times on the GPU."""
        for stamp in (frame.stamp, frame.wait_stamp):
            if self.gpu is not None and stamp is not None:
                self.gpu.release(stamp)

    def bucket_ready(self) -> None:
        """A gradient bucket is complete: if it is the last, backward only waits from here on."""
        if not self.channels.phases:
            return
        self.forget_bucket()
        self.last_bucket_ns = self.now_ns()
        if self.gpu is not None:
            self.last_bucket = self.gpu.stamp()

    def forget_bucket(self) -> None:
        """It was not the last one, or of another backward."""
        last, self.last_bucket, self.last_bucket_ns = self.last_bucket, None, 0
        if self.gpu is not None and last is not None:
            self.gpu.release(last)

    def close_native(self, native: int) -> None:
        """Close the innermost open phase of that native name."""
        for frame in reversed(self._local.state.stack):
            if frame.native == native:
                self.close(frame)
                return

    def _emit(self, frame: Frame, *, dur_ns: int, wait_ns: int, cpu_ns: int, depth: int) -> None:
        row: Row = (frame.step, frame.name, frame.native, frame.start_ns, dur_ns, wait_ns, cpu_ns)
        tail = (depth, frame.chunk, frame.micro_batch)
        begin, end = frame.stamp, None if frame.stamp is None or self.gpu is None else self.gpu.stamp()
        if self.gpu is None or begin is None or end is None:
            self._release(frame)
            self.ring.put("phases", (*row, CLOCK_WALL, *tail))
            return
        head = row[:3]

        def deliver(times_ns: list[int]) -> None:
            start_ns, end_ns, *waits_ns = times_ns
            dur_ns = max(end_ns - start_ns, 0)
            blocked_ns = wait_ns + sum(max(end_ns - since_ns, 0) for since_ns in waits_ns)
            on_gpu = (start_ns, dur_ns, min(blocked_ns, dur_ns), cpu_ns, CLOCK_GPU)
            self.ring.put("phases", (*head, *on_gpu, *tail))

        waits = [] if frame.wait_stamp is None else [frame.wait_stamp]
        self.gpu.deliver([begin, end, *waits], deliver)

    def detail(self, name: int, native: int, *, start_ns: int, end_ns: int) -> None:
        """Record time that just passed inside the open phase, all of it spent waiting."""
        here = self._local.state
        dur_ns = max(end_ns - start_ns, 0)
        here.wait_ns += dur_ns
        top = here.stack[-1:]
        depth = min(top[0].depth + 1, 255) if top else 1
        step = top[0].step if top else self.current_step
        row = (step, name, native, start_ns, dur_ns, dur_ns, 0, CLOCK_WALL, depth, -1, -1)
        if self.channels.phases:
            self.ring.put("phases", row)

    def forget_open(self) -> None:
        """A collector failed half-way, on any thread: nothing that is open can be trusted to be closed."""
        self.train.stack, self.train.tokens, self.train.updates = [], [], []
        self.train.comm = None
        self.train.comm_phase = 0
        self._manual = False  # argus.step may be what failed: the optimizer ends the steps again

    # Communication outside of phases

    def comm_enter(self, here: ThreadState, *, name: int, native: int) -> int:
        """The phase a communication call belongs to that starts now on the calling thread."""
        if top := here.stack[-1:]:
            return top[0].name
        comm = here.comm
        if comm is None or comm.name != name or comm.step != self.current_step:
            if comm is not None:
                self.flush_comm(here)
            comm = Comm()
            comm.name, comm.native, comm.step = name, native, self.current_step
            comm.wait_ns = here.wait_ns
            comm.cpu_ns = comm.cpu_end_ns = self.cpu_ns()
            comm.start_ns = comm.end_ns = self.now_ns()
        comm.since_ns = self.now_ns()
        here.comm = comm  # whole: the writer thread looks at it from now on
        return name

    def comm_leave(self, here: ThreadState, *, end_ns: int, cpu_ns: int) -> None:
        """A communication call of this thread returned."""
        comm = here.comm
        if comm is not None and not here.stack:
            comm.end_ns, comm.cpu_end_ns, comm.since_ns = end_ns, cpu_ns, 0

    def flush_comm(self, here: ThreadState) -> None:
        """End the phase that consecutive calls outside of phases made."""
        comm = here.comm
        if comm is None:
            return
        here.comm = None
        dur_ns, used_ns = comm.end_ns - comm.start_ns, comm.cpu_end_ns - comm.cpu_ns
        wait_ns = min(here.wait_ns - comm.wait_ns, dur_ns)
        outermost = here is self.train
        if outermost:
            self._acc_ns += dur_ns
            self._acc_cpu_ns += used_ns
        if not self.channels.phases:
            return
        row = (comm.step, comm.name, comm.native, comm.start_ns, dur_ns, wait_ns, used_ns)
        self.ring.put("phases", (*row, CLOCK_WALL, 0 if outermost else 1, -1, -1))

    # Steps

    def begin_steps(self) -> None:
        """Step 0 runs already: what is seen of it counts."""
        if not self._start_ns:
            self._start_ns, self._start_cpu_ns = self.now_ns(), self.cpu_ns()

    def begin_iteration(self) -> None:
        """A forward (or, where none is seen, a backward) starts: the step before it is over."""
        updates = self._local.state.updates
        if updates and updates[-1] is not None:
            self.on_left_open()
        end = self._end
        if end is None:
            return
        self.train = self._local.state
        self._end = None
        number, self._user_number = self._user_number, -1
        self._close_step(end, user_step=number)

    def end_candidate(self, at: tuple[int, int] | None = None) -> None:
        """An optimizer step is done; the training step ends here unless another one follows.

        `at` is wall and CPU time of that end where they are known already.
        """
        here = self._local.state
        self.train = here
        self.after_backward = False
        if here.comm is not None:
            self.flush_comm(here)
        if not self._manual and self._start_ns:
            end_ns, cpu_ns = at or (self.now_ns(), self.cpu_ns())
            self._end = (end_ns, cpu_ns, self._acc_ns, self._acc_cpu_ns)
            if self.timeline is not None:
                self.timeline.put(self._end[0], step=self.step + 1, phase=0)
        for call in tuple(self.on_optimized):
            call()

    def finish(self) -> None:
        """The process ends: the last step is over if its optimizer was."""
        self.flush_comm(self.train)
        self.begin_iteration()

    def number_step(self, number: int) -> None:
        """The framework's own number of the step that is ending; its end stays the optimizer's."""
        self._user_number = number

    def user_step(self, number: int) -> None:
        """`argus.step(number)`: the step ends here, and from now on only here."""
        here = self._local.state
        self.flush_comm(here)
        self._end = None
        self._flags, self._next_flags = self._flags | self._next_flags, 0
        now = (self.now_ns(), self.cpu_ns(), self._acc_ns, self._acc_cpu_ns)
        seen = self._start_ns != 0
        self._manual, self.train = True, here
        if seen:
            self._close_step(now, user_step=number)
        else:
            self._start_ns, self._start_cpu_ns = now[0], now[1]

    def _close_step(self, end: tuple[int, int, int, int], *, user_step: int) -> None:
        end_ns, cpu_ns, acc_ns, acc_cpu_ns = end
        dur_ns, used_ns = end_ns - self._start_ns, cpu_ns - self._start_cpu_ns
        flags = self._flags | (FLAG_WARMUP if self.step < WARMUP_STEPS else 0)
        self.ring.put("steps", (self.step, user_step, self._start_ns, end_ns, used_ns, flags))
        rest_ns = dur_ns - (acc_ns - self._base_ns)
        if self.gpu is None and rest_ns > 0 and self.channels.phases:
            rest_cpu_ns = max(used_ns - (acc_cpu_ns - self._base_cpu_ns), 0)
            row = (self.step, self._other, self._gap, self._start_ns, rest_ns, 0, rest_cpu_ns)
            self.ring.put("phases", (*row, CLOCK_WALL, 0, -1, -1))
        if len(self._durations_ns) < MEDIAN_STEPS:
            self._durations_ns.append(dur_ns)
        else:
            self._durations_ns[self.step % MEDIAN_STEPS] = dur_ns
        self.step += 1
        self._start_ns, self._start_cpu_ns = end_ns, cpu_ns
        self._base_ns, self._base_cpu_ns = acc_ns, acc_cpu_ns
        self._flags, self._next_flags = self._next_flags | self.channels.begin(self.step), 0
        if self.timeline is not None:
            self.timeline.put(end_ns, step=self.step, phase=0)
        for call in tuple(self.on_step):
            call(self.step)

    def flag(self, bit: int) -> None:
        """Set a step flag on the step that runs now."""
        if self._end is None:
            self._flags |= bit
        else:
            self._next_flags |= bit

    # Events, status

    def work(self, units: Mapping[str, float]) -> None:
        """How much the step that runs now has to do; several calls are its micro-batches."""
        if units and self.channels.phases:
            now_ns, step = self.now_ns(), self.current_step
            for unit, amount in units.items():
                self.ring.put("events", (step, self.ring.intern(f"work:{unit}"), now_ns, 0, amount))

    def event(self, kind: str, *, start_ns: int, dur_ns: int, value: float = 0.0) -> None:
        """What the runtime states exactly."""
        self.ring.put("events", (self.current_step, self.ring.intern(kind), start_ns, dur_ns, value))

    def last_durations_ns(self) -> tuple[int, ...]:
        """Of the last steps, in no order; for another thread."""
        return tuple(self._durations_ns)

    def status(self, groups: Mapping[str, tuple[int, int]]) -> Status:
        """What this rank is doing, read by the writer thread."""
        stack = tuple(self.train.stack)
        comm = self.train.comm
        phase, since_ns = "", 0
        if stack:
            phase, since_ns = self.ring.names[stack[-1].name], stack[-1].start_ns
        elif comm is not None and comm.since_ns:
            phase, since_ns = self.ring.names[comm.name], comm.since_ns
        end = self._end
        durations = self.last_durations_ns()
        return Status(
            ts_ns=self.now_ns(),
            step=self.step if end is None else self.step + 1,
            phase=phase,
            phase_since_ns=since_ns,
            step_since_ns=self._start_ns if end is None else end[0],
            step_p50_ns=int(statistics.median(durations)) if durations else 0,
            in_mark=self.mark,
            groups=groups,
        )
