"""Every collective and point-to-point call Python makes on a process group, whatever its public name.

`torch.distributed` functions come and go by name (`all_gather_into_tensor`, `all_gather_single`); all of
them, FSDP2, pipelining and DDP's Python hooks end in a method of the C++ class `ProcessGroup`, so that is
what is wrapped. Their `Work` tells the end: of a call waited for when `wait` returns, else by its future.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from argus.collectors.rank.calls import CallLog
from argus.collectors.rank.guard import Part
from argus.collectors.rank.in_flight import Call, GroupState
from argus.collectors.rank.kept_state import keep_state
from argus.collectors.rank.session import Session

if TYPE_CHECKING:
    import torch
    from torch._C._distributed_c10d import ProcessGroup, Work

NEEDS = "torch.distributed"

Args = tuple[object, ...]

METHODS: dict[str, tuple[str, int]] = {
    "allreduce": ("all_reduce", 0),
    "allreduce_coalesced": ("all_reduce", 0),
    "allgather": ("all_gather", 0),
    "_allgather_base": ("all_gather", 0),
    "all_gather_single": ("all_gather", 0),
    "allgather_coalesced": ("all_gather", 0),
    "allgather_into_tensor_coalesced": ("all_gather", 0),
    "all_gather_single_coalesced": ("all_gather", 0),
    "reduce_scatter": ("reduce_scatter", 1),
    "_reduce_scatter_base": ("reduce_scatter", 1),
    "reduce_scatter_single": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", 1),
    "reduce_scatter_single_coalesced": ("reduce_scatter", 1),
    "alltoall": ("all_to_all", 1),
    "alltoall_base": ("all_to_all", 1),
    "all_to_all_single": ("all_to_all", 1),
    "broadcast": ("broadcast", 0),
    "reduce": ("reduce", 0),
    "gather": ("gather", 1),
    "scatter": ("scatter", 0),
    "barrier": ("barrier", -1),
    "monitored_barrier": ("barrier", -1),
    "send": ("send", 0),
    "recv": ("recv", 0),
    "recv_anysource": ("recv", 0),
}
"""Method of ProcessGroup: (operation, position of the argument that holds the bytes moved)."""

BUCKET = "argus_bucket"
"""Attribute of our wrapper of `ProcessGroup.allreduce`: the shorter way for DDP's reducer."""

NO_FUTURE = frozenset({"send", "recv", "recv_anysource", "monitored_barrier"})


def install(session: Session, part: Part) -> None:
    """Wrap the methods of ProcessGroup and `Work.wait`."""
    from torch._C._distributed_c10d import ProcessGroup, Work

    hook = CollectiveHook(session, part)
    for name in METHODS:
        if hasattr(ProcessGroup, name):
            original = getattr(ProcessGroup, name)
            wrapper = hook.method(name, original)
            if name == "allreduce":
                setattr(wrapper, BUCKET, Buckets(hook, part, original).reduce)
            part.patch(ProcessGroup, name, wrapper)
    part.patch(Work, "wait", hook.wait(Work.wait))
    session.on_group_change(hook.forget_groups)


class CollectiveHook:
    """Ties a work handle to its call."""

    def __init__(self, session: Session, part: Part) -> None:
        self.log: CallLog = session.calls
        self._part = part
        self._recorder = session.recorder
        self._over, self._forgotten = part.guard(session.calls.over), part.guard(session.calls.forgotten)
        self._session = session
        self._groups: dict[int, tuple[weakref.ref[ProcessGroup], GroupState]] = {}
        self._open: dict[int, tuple[weakref.ref[Work], Call]] = {}

    def forget_groups(self) -> None:
        """Process groups changed: an id may now belong to another one."""
        self._groups = {}

    def method(self, name: str, original: Callable[..., Work | None]) -> Callable[..., Work | None]:
        """The wrapper of one method of ProcessGroup."""
        op_name, position = METHODS[name]
        op = self._recorder.names[op_name]
        peer_of = _PEER.get(name)
        part, log = self._part, self.log

        def begin(group: ProcessGroup, args: Args) -> Call | None:
            state = self.state_of(group)
            num_bytes = _bytes(args[position]) if 0 <= position < len(args) else 0
            return log.begin(op, state, peer=peer_of(args) if peer_of else -1, num_bytes=num_bytes)

        begin_safe, refused_safe = part.guard(begin), self._refusal(op, peer_of)
        issued_safe = part.guard(partial(self._issued, has_future=name not in NO_FUTURE))

        def wrapper(group: ProcessGroup, *args: object, **kwargs: object) -> Work | None:
            if not part.is_on:
                return original(group, *args, **kwargs)
            values = (*args, *kwargs.values()) if kwargs else args
            call = begin_safe(group, values)
            try:
                work = original(group, *args, **kwargs)
            except BaseException:
                refused_safe(group, call, values)
                raise
            if call is not None:
                issued_safe(call, work, values)
            return work

        return wrapper

    def _issued(self, call: Call, work: Work | None, args: Args, *, has_future: bool) -> None:
        is_async = getattr(args[-1] if args else None, "asyncOp", True)
        self.log.issued(call, is_blocking=work is None or not is_async)
        if call.group.timer is not None:
            call.group.timer(call)
        elif work is None:
            self.log.over(call, self._recorder.now_ns())
            self.log.emit(call)
        elif is_async:
            self.follow(call, work, wants_future=has_future)
        else:
            self._recorder.here().blocking = (work, call)

    def _refusal(
        self, op: int, peer_of: Callable[[Args], int] | None
    ) -> Callable[[ProcessGroup, Call | None, Args], None]:
        """What takes back a call that raised."""

        def refused(group: ProcessGroup, call: Call | None, args: Args) -> None:
            state = self.state_of(group) if call is None else call.group
            self.log.refused(op, state, peer=peer_of(args) if peer_of else -1, call=call)

        return self._part.guard(refused)

    def wait(self, original: Callable[..., bool]) -> Callable[..., bool]:
        """The wrapper of `Work.wait`."""
        part, recorder, open_calls = self._part, self._recorder, self._open

        def begin(work: Work) -> tuple[Call, int, int] | None:
            here = recorder.here()
            blocking = here.blocking
            if blocking is not None and blocking[0] is work:
                call = blocking[1]
                here.blocking = None
            else:
                entry = open_calls.get(id(work))
                if entry is None or entry[0]() is not work:
                    return None
                call = entry[1]
                del open_calls[id(work)]
            if not here.stack:
                recorder.comm_enter(here, name=call.phase, native=call.op)
            return call, recorder.now_ns(), recorder.cpu_ns()

        def end(begun: tuple[Call, int, int]) -> None:
            self.log.waited(begun[0], start_ns=begun[1], start_cpu_ns=begun[2])

        begin_safe, end_safe = part.guard(begin), part.guard(end)

        def wrapper(work: Work, *args: object, **kwargs: object) -> bool:
            if not part.is_on:
                return original(work, *args, **kwargs)
            begun = begin_safe(work)
            try:
                return original(work, *args, **kwargs)
            finally:
                if begun is not None:
                    end_safe(begun)

        return wrapper

    def state_of(self, group: ProcessGroup) -> GroupState:
        """What is known of a group."""
        known = self._groups.get(id(group))
        return known[1] if known is not None and known[0]() is group else self._state(group)

    def follow(self, call: Call, work: Work, *, wants_future: bool) -> None:
        """Learn the end of a call that Python may wait for, or let go of."""
        key, recorder, open_calls = id(work), self._recorder, self._open
        over, forgotten = self._over, self._forgotten

        def dead(ref: weakref.ref[Work]) -> None:
            entry = open_calls.get(key)
            if entry is not None and entry[0] is ref:
                del open_calls[key]
                if not wants_future and not call.end_ns:
                    over(call, recorder.now_ns())
                forgotten(call)

        open_calls[key] = (weakref.ref(work, dead), call)
        if wants_future:
            try:
                self.on_end(call, work)
            except RuntimeError:
                wants_future = False  # this backend has none for this operation: `wait` tells the end

    def on_end(self, call: Call, work: Work) -> None:
        """Have the end told by the backend's own thread. RuntimeError if it has no future for this."""
        over, now_ns = self._over, self._recorder.now_ns

        def done(_future: object) -> None:
            over(call, now_ns())
            keep_state()

        work.get_future().add_done_callback(done)

    def _state(self, group: ProcessGroup) -> GroupState:
        from torch.distributed import get_process_group_ranks

        try:
            ranks = get_process_group_ranks(group)
        except (KeyError, ValueError, RuntimeError):
            ranks = list(range(group.size()))  # not registered (yet): its own numbering
        self._session.groups_changed()
        of = weakref.ref(group)
        state = self.log.group(group.group_name or str(group.group_desc), ranks, of=of)
        self._groups[id(group)] = (of, state)
        return state


class Buckets:
    """DDP's gradient buckets: the reducer holds their work, so nobody in Python waits for it or lets it go.

    Each is seen once in some milliseconds, between passes over all gradients that leave nothing of ours in
    the caches: what counts here is how much is touched, so this is `CollectiveHook.method` in one piece.
    """

    def __init__(
        self, hook: CollectiveHook, part: Part, original: Callable[[ProcessGroup, object, object], Work]
    ) -> None:
        self._hook, self._part, self._original = hook, part, original
        self._log, self._recorder = hook.log, hook.log.recorder
        self._op, self._phase = self._recorder.names["all_reduce"], self._recorder.names["grad_sync"]
        self._refused_safe = part.guard(self._refused)

    def reduce(self, group: ProcessGroup, tensors: Sequence[torch.Tensor], options: object) -> Work:
        """The all-reduce of one bucket. Its launch never stands still: its time is its CPU time."""
        call = None
        if self._part.is_on:
            try:
                call = self._begin(group, tensors)
            except Exception as error:  # noqa: BLE001 a collector may fail, training may not
                self._part.fail(error)
        try:
            work = self._original(group, tensors, options)
        except BaseException:
            self._refused_safe(group, call)
            raise
        if call is not None:
            try:
                self._issued(call, work)
            except Exception as error:  # noqa: BLE001
                self._part.fail(error)
        return work

    def _begin(self, group: ProcessGroup, tensors: Sequence[torch.Tensor]) -> Call | None:
        recorder, state = self._recorder, self._hook.state_of(group)
        recorder.bucket_ready()
        if not recorder.channels.collectives or not state.index:
            self._log.count(self._op, state)
            return None
        call = Call()
        call.op, call.phase, call.group, call.peer = self._op, self._phase, state, -1
        num_bytes = 0
        for tensor in tensors:
            num_bytes += tensor.nbytes
        call.bytes = num_bytes
        call.seq = state.seq
        state.seq += 1
        state.entered += 1
        call.step = recorder.current_step
        call.end_ns = call.blocked_ns = 0
        call.is_forgotten = True
        call._open = [None]
        call.entry_ns = recorder.now_ns()
        return call

    def _refused(self, group: ProcessGroup, call: Call | None) -> None:
        state = self._hook.state_of(group) if call is None else call.group
        self._log.refused(self._op, state, peer=-1, call=call)

    def _issued(self, call: Call, work: Work) -> None:
        now_ns, log = self._recorder.now_ns(), self._log
        call.cpu_ns = now_ns - call.entry_ns
        if log.spans is not None:
            log.spans.put(call.entry_ns, end_ns=now_ns, group=call.group.index, seq=call.seq)
        if call.group.timer is not None:
            call.group.timer(call)
            return
        try:
            self._hook.on_end(call, work)
        except RuntimeError:
            call.is_forgotten = False
            self._hook.follow(call, work, wants_future=False)


def _root(args: Args) -> int:
    root = getattr(args[-1], "rootRank", -1)
    return root if isinstance(root, int) else -1


def _second(args: Args) -> int:
    second = args[1] if len(args) > 1 else -1
    return second if isinstance(second, int) else -1


_PEER: dict[str, Callable[[Args], int]] = {
    "broadcast": _root,
    "reduce": _root,
    "gather": _root,
    "scatter": _root,
    "send": _second,
    "recv": _second,
}


def _bytes(value: object) -> int:
    if type(value) is list:
        return sum(map(_bytes, value))
    size = getattr(value, "nbytes", None)
    if size is not None:
        return int(size)
    return sum(map(_bytes, value)) if isinstance(value, Iterable) else 0
