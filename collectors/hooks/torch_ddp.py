"""DDP's gradient buckets: its C++ reducer calls the process group, so it is given one whose calls are seen.

A communication hook would show the buckets, too, but a reducer with a hook no longer scales a gradient
while it copies it, and a second pass over all gradients costs 2–4 % of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, ref

from argus.collectors.hooks.torch_collectives import BUCKET, METHODS
from argus.collectors.rank.guard import Part
from argus.collectors.rank.in_flight import Call
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.session import Session
from argus.collectors.rank.uncompiled import uncompiled

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch._C._distributed_c10d import Reducer
    from torch.distributed import ProcessGroup, Work

NEEDS = "torch.nn.parallel.distributed"

Begun = tuple[Call, int, int]
"""A call that waits for its own end, with wall and CPU time at its start."""


def install(session: Session, part: Part) -> None:
    """Give each reducer made from now on a group that is seen; record the buffers' broadcast too."""
    import torch.distributed as dist

    observer = Observer(session.recorder, part)
    for known in SEEN.values():
        known.observer = observer
    part.on_undo(_leave)
    session.on_modules(part.guard(lambda modules: _tell_unseen(session, modules)))
    original: Callable[..., Reducer] = getattr(dist, "Reducer")  # noqa: B009 torch does not declare it there
    part.patch(dist, "Reducer", _reducer(original, part, observer))
    if hasattr(dist, "_broadcast_coalesced"):
        part.patch(dist, "_broadcast_coalesced", _buffers(session, part, dist._broadcast_coalesced))


class Observer:
    """What a session does around a bucket; the reducer keeps its group when the session ends."""

    def __init__(self, recorder: Recorder, part: Part) -> None:
        grad_sync = recorder.names["grad_sync"]

        def enter() -> None:
            recorder.here().comm_phase = grad_sync
            recorder.bucket_ready()

        def leave() -> None:
            recorder.here().comm_phase = 0

        self.enter, self.leave = part.guard(enter), part.guard(leave)


class SeenGroup:
    """A reducer's process group and who observes it; `observer` is None while no session records."""

    def __init__(self, group: ProcessGroup, observer: Observer | None) -> None:
        self.observer = observer
        self._group = group
        self.stand_in = _stand_in(group, self)

    def allreduce(self, *args: object) -> Work:
        """The reducer's call: seen as a bucket, or as any other call with its phase set."""
        observer = self.observer
        call: Callable[..., Work] = self._group.allreduce
        if observer is None:
            return call(*args)
        bucket: Callable[..., Work] | None = getattr(call, BUCKET, None)  # none if somebody wrapped it again
        if bucket is not None:
            return bucket(self._group, *args)
        observer.enter()
        try:
            return call(*args)
        finally:
            observer.leave()


SEEN: WeakKeyDictionary[Reducer, SeenGroup] = WeakKeyDictionary()
"""Groups of the reducers that live. Python's half of a group must outlive them, or its calls go by unseen."""


def _leave() -> None:
    for seen in SEEN.values():
        seen.observer = None


def _tell_unseen(session: Session, modules: Sequence[nn.Module]) -> None:
    """Models that were wrapped before this session."""
    from torch.nn.parallel import DistributedDataParallel

    for module in modules:
        if isinstance(module, DistributedDataParallel) and module.reducer not in SEEN:
            session.unseen("grad_sync: the all-reduce of a DDP model made before Argus started")


def _stand_in(group: ProcessGroup, seen: SeenGroup) -> ProcessGroup:
    """A process group with the backends of `group` that passes every call on from Python.

    Every one: pybind takes a wrapped method of the base class for an override and would call it for ever.
    """
    from torch.distributed import ProcessGroup
    from torch.distributed.distributed_c10d import Backend

    methods = {name: _passing_on(group, name) for name in METHODS if hasattr(ProcessGroup, name)}
    methods["allreduce"] = uncompiled(lambda _self, *args: seen.allreduce(*args))
    kind = type("SeenProcessGroup", (ProcessGroup,), methods)
    made: ProcessGroup = kind(group.rank(), group.size())
    for device in group._device_types:
        backend = group._get_backend(device)
        number = Backend.backend_type_map.get(backend.name(), ProcessGroup.BackendType.CUSTOM)
        made._register_backend(device, number, backend)
        if backend.name() == group.name():
            made._set_default_backend(number)
    return made


def _passing_on(group: ProcessGroup, name: str) -> Callable[..., Work]:
    def method(_self: ProcessGroup, *args: object) -> Work:
        call: Callable[..., Work] = getattr(group, name)
        return call(*args)

    return uncompiled(method)


def _reducer(original: Callable[..., Reducer], part: Part, observer: Observer) -> Callable[..., Reducer]:
    """What makes a reducer on a group that is seen, or as it was asked for if there can be none."""
    stand_in = part.guard(SeenGroup)

    @wraps(original, updated=())
    def make(*args: object, **kwargs: object) -> Reducer:
        position = next((i for i, value in enumerate(args) if _is_group(value)), None)
        seen = None if position is None else stand_in(args[position], observer)  # type: ignore[arg-type]
        if position is None or seen is None:
            return original(*args, **kwargs)
        reducer = original(*args[:position], seen.stand_in, *args[position + 1 :], **kwargs)
        SEEN[reducer] = seen
        return reducer

    return make


def _is_group(value: object) -> bool:
    from torch.distributed import ProcessGroup

    return isinstance(value, ProcessGroup)


def _buffers(session: Session, part: Part, original: Callable[..., None]) -> Callable[..., None]:
    """DDP's broadcast of buffers and initial parameters, a C++ function that waits for its end."""
    calls, recorder = session.calls, session.recorder
    broadcast = recorder.names["broadcast"]

    def begin(group: ProcessGroup, tensors: Sequence[torch.Tensor], root: int) -> Begun | None:
        from torch.distributed import get_process_group_ranks

        state = calls.group(group.group_name, get_process_group_ranks(group), of=ref(group))
        size = sum(tensor.nbytes for tensor in tensors)
        call = calls.begin(broadcast, state, peer=root, num_bytes=size)
        return None if call is None else (call, recorder.now_ns(), recorder.cpu_ns())

    def end(begun: Begun) -> None:
        call, start_ns, start_cpu_ns = begun
        call.cpu_ns = 0
        calls.waited(call, start_ns=start_ns, start_cpu_ns=start_cpu_ns)

    begin_safe, end_safe = part.guard(begin), part.guard(end)

    @wraps(original)
    def wrapper(group: ProcessGroup, tensors: Sequence[torch.Tensor], size: int, root: int = 0) -> None:
        begun = begin_safe(group, tensors, root) if part.is_on else None
        original(group, tensors, size, root)
        if begun is not None:
            end_safe(begun)

    return wrapper
