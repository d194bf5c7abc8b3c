"""Communication calls in flight: entry, waiting, completion, sequence numbers of every group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from argus.collectors.rank.in_flight import Call, GroupState, Timer
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.timeline import CallSpans
from argus.collectors.records.heartbeat import MAX_GROUPS


class CallLog:
    """Calls of this process; a row is emitted when a call is over and nobody will wait for it any more."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.groups: dict[str, GroupState] = {}
        self.spans: CallSpans | None = None  # kept for those who look up calls by time
        self._timers: dict[str, Timer] = {}
        self._lock = threading.RLock()  # a signal handler of the program may make a call while one is made
        names = recorder.names
        self._send, self._recv = names["send"], names["recv"]
        self._outside = {self._send: names["pp_send"], self._recv: names["pp_recv"]}
        self._grad_sync, self._other = names["grad_sync"], names["other"]

    def group(
        self, name: str, ranks: Sequence[int], *, of: Callable[[], object | None] | None = None
    ) -> GroupState:
        """State of the group the runtime calls `name`; with other ranks it is another one, whose calls begin anew.

        Names are counted: after `destroy_process_group` a job that goes on uses them again. `of` gives the
        runtime's group while it lives.
        """
        with self._lock:
            state = self.groups.pop(name, None)
            if state is None or state.ranks != tuple(ranks):
                self._make_room()
                state = GroupState(index=self.recorder.ring.intern(name), ranks=ranks)
                state.timer = self._timers.get(name)
            state.of = of
            self.groups[name] = state  # as the last: in the order of their use
        return state

    def _make_room(self) -> None:
        """Forget groups that are gone, those used longest ago first: a job may make one a step for ever."""
        if len(self.groups) < MAX_GROUPS:
            return
        gone = [name for name, state in self.groups.items() if state.of is not None and state.of() is None]
        for name in gone[: MAX_GROUPS // 2]:
            del self.groups[name]

    def on_group(self, name: str, timer: Timer) -> None:
        """The group has its own way to tell when a call is over."""
        with self._lock:
            self._timers[name] = timer
            if name in self.groups:
                self.groups[name].timer = timer

    def off_group(self, name: str, timer: Timer) -> None:
        """The group that `timer` is of is gone; one that has taken its name has its own way, or none."""
        with self._lock:
            if self._timers.get(name) == timer:
                del self._timers[name]
            state = self.groups.get(name)
            if state is not None and state.timer == timer:
                state.timer = None

    def status(self) -> dict[str, tuple[int, int]]:
        """Calls entered and completed, by group."""
        with self._lock:  # the training thread adds to it
            items = list(self.groups.items())[-MAX_GROUPS:]
        return {name: (group.entered, group.completed) for name, group in items}

    def begin(self, op: int, group: GroupState, *, peer: int, num_bytes: int) -> Call | None:
        """A call starts on this thread. `peer` is a group rank, -1 if none. None: only counted."""
        recorder = self.recorder
        if not recorder.channels.collectives or not group.index:
            self.count(op, group, peer=group.ranks[peer] if 0 <= peer < len(group.ranks) else -1)
            return None
        here = recorder.here()
        call = Call()
        call.op, call.group, call.bytes = op, group, num_bytes
        call.peer = group.ranks[peer] if 0 <= peer < len(group.ranks) else -1
        call.seq = self._number(op, group, peer=call.peer)
        group.entered += 1
        call.step = recorder.current_step
        call.phase = here.comm_phase or recorder.comm_enter(here, name=self._name_outside(op), native=op)
        call.end_ns = call.blocked_ns = 0
        call.is_forgotten = False
        call._open = [None]
        call.cpu_ns = -recorder.cpu_ns()
        call.entry_ns = recorder.now_ns()
        return call

    def refused(self, op: int, group: GroupState, *, peer: int, call: Call | None) -> None:
        """A call of this thread, `call` if it is recorded, raised instead of being issued: no other rank counts it.

        `peer` is a group rank. If another thread has made a call meanwhile the number stays taken.
        """
        seq = None if call is None else call.seq
        if op == self._send or op == self._recv:
            key = (op, group.ranks[peer] if 0 <= peer < len(group.ranks) else -1)
            group.p2p_seq[key] -= seq is None or group.p2p_seq[key] == seq + 1
        else:
            group.seq -= seq is None or group.seq == seq + 1
        group.entered -= 1
        if call is None:
            group.completed -= 1
            return
        here = self.recorder.here()
        if here.comm is not None:
            self.recorder.comm_leave(here, end_ns=self.recorder.now_ns(), cpu_ns=self.recorder.cpu_ns())

    def _number(self, op: int, group: GroupState, *, peer: int) -> int:
        """The next sequence number of the group, or of the pair for send and recv."""
        if op == self._send or op == self._recv:
            key = (op, peer)
            seq = group.p2p_seq.get(key, 0)
            group.p2p_seq[key] = seq + 1
        else:
            seq = group.seq
            group.seq += 1
        return seq

    def count(self, op: int, group: GroupState, *, peer: int = -1) -> None:
        """A call while collectives are off: numbers go on, so that ranks still agree on them."""
        self._number(op, group, peer=peer)
        group.entered += 1
        group.completed += 1

    def _name_outside(self, op: int) -> int:
        p2p = self._outside.get(op)
        if p2p is not None:
            return p2p
        return self._grad_sync if self.recorder.after_backward else self._other

    def issued(self, call: Call, *, is_blocking: bool = False) -> None:
        """The call returned to its thread; the work may go on unless the call was a blocking one."""
        cpu_ns, now_ns = self.recorder.cpu_ns(), self.recorder.now_ns()
        call.cpu_ns += cpu_ns
        if self.spans is not None:
            self.spans.put(call.entry_ns, end_ns=now_ns, group=call.group.index, seq=call.seq)
        here = self.recorder.here()
        if is_blocking:
            stood_ns = max(now_ns - call.entry_ns - call.cpu_ns, 0)
            call.blocked_ns += stood_ns
            here.wait_ns += stood_ns
        if here.comm is not None:
            self.recorder.comm_leave(here, end_ns=now_ns, cpu_ns=cpu_ns)

    def waited(self, call: Call, *, start_ns: int, start_cpu_ns: int) -> None:
        """This thread stood in the call's `wait` since `start_ns` and the work is over."""
        recorder = self.recorder
        now_ns, cpu_ns = recorder.now_ns(), recorder.cpu_ns()
        blocked_ns = now_ns - start_ns
        call.blocked_ns += blocked_ns
        call.cpu_ns += cpu_ns - start_cpu_ns
        here = recorder.here()
        here.wait_ns += blocked_ns
        if here.comm is not None:
            recorder.comm_leave(here, end_ns=now_ns, cpu_ns=cpu_ns)
        self.over(call, now_ns)
        self.emit(call)

    def over(self, call: Call, end_ns: int) -> None:
        """The work ended at `end_ns`, or before: the earliest report counts."""
        is_first = not call.end_ns
        if is_first:
            call.end_ns = max(end_ns, call.entry_ns)
        if call.is_forgotten:
            self.emit(call)
        if is_first:
            call.group.completed += 1

    def forgotten(self, call: Call) -> None:
        """Nobody holds the call's handle any more, so nobody will wait for it."""
        call.is_forgotten = True
        if call.end_ns:
            self.emit(call)

    def in_flight(self) -> int:
        """Calls that were entered and are not known to be over."""
        return sum(max(group.entered - group.completed, 0) for group in list(self.groups.values()))

    def emit(self, call: Call) -> None:
        """Write the call's row, once."""
        if not call.take():
            return
        head = (call.step, call.op, call.group.index, call.seq, call.peer, call.bytes)
        times = (call.entry_ns, call.end_ns, call.blocked_ns, max(call.cpu_ns, 0), call.phase)
        self.recorder.ring.put("collectives", (*head, *times))
