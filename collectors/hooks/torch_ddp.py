"""DDP's gradient buckets: its C++ reducer calls the process group unseen, a communication hook does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from argus.collectors.rank.calls import Call
from argus.collectors.rank.guard import Part
from argus.collectors.rank.recorder import Recorder
from argus.collectors.rank.session import Session

if TYPE_CHECKING:
    import torch
    from torch import nn
    from torch._C._distributed_c10d import GradBucket
    from torch.distributed import ProcessGroup
    from torch.nn.parallel import DistributedDataParallel

    UserHook = Callable[[object, GradBucket], torch.futures.Future[torch.Tensor]]

NEEDS = "torch.nn.parallel.distributed"

Begun = tuple[Call, int, int]
"""A call that waits for its own end, with wall and CPU time at its start."""


def install(session: Session, part: Part) -> None:
    """Register our hook on models found without one; record the buffers' broadcast too."""
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    hook = DdpHook(session, part)
    session.on_modules(part.guard(hook.found))
    if not hasattr(DistributedDataParallel.register_comm_hook, "__wrapped__"):
        # For good: a model that carries our hook must be able to take the user's after we left, too.
        wrapper = handing_over(DistributedDataParallel.register_comm_hook)
        DistributedDataParallel.register_comm_hook = wrapper  # type: ignore[method-assign]
    if hasattr(dist, "_broadcast_coalesced"):
        part.patch(dist, "_broadcast_coalesced", _buffers(session, part, dist._broadcast_coalesced))


class BucketHook:
    """Averages a bucket exactly as the reducer does without a hook; or does what the user's hook says.

    The reducer multiplies a gradient by 1/world when it copies it into the bucket, and divides it where
    the gradient already lies there. The hook gets the bucket unscaled, so it is used only where one of
    the two is sure to have happened, or both give the same bits (see `reason_against`).
    """

    def __init__(self, group: ProcessGroup) -> None:
        from torch.distributed import AllreduceOptions

        self._group = group
        self._size = group.size()
        self._options = AllreduceOptions()
        self.user: tuple[object, UserHook] | None = None
        self.observer: Observer | None = None

    def __call__(self, _state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        observer = self.observer
        if self.user is None:
            tensor = bucket.buffer()
            if tensor.is_sparse:
                tensor.div_(self._size)
            else:
                tensor.mul_(1.0 / self._size)
        if observer is not None:
            observer.enter()
        try:
            if self.user is not None:
                return self.user[1](self.user[0], bucket)
            return self._group.allreduce([tensor], self._options).get_future().then(_first)
        finally:
            if observer is not None:
                observer.leave()


class Observer:
    """What a session does around a bucket; the hook itself stays in the model when the session ends."""

    def __init__(self, recorder: Recorder, part: Part) -> None:
        grad_sync = recorder.names["grad_sync"]

        def enter() -> None:
            recorder.here().comm_phase = grad_sync
            recorder.bucket_ready()

        def leave() -> None:
            recorder.here().comm_phase = 0

        self.enter, self.leave = part.guard(enter), part.guard(leave)


HOOKS: WeakKeyDictionary[nn.Module, BucketHook] = WeakKeyDictionary()
"""Models that carry our hook: DDP takes one in a model's life, so a later session finds it here."""


def _first(future: torch.futures.Future[Sequence[torch.Tensor]]) -> torch.Tensor:
    return future.value()[0]


class DdpHook:
    """Which models carry our hook."""

    def __init__(self, session: Session, part: Part) -> None:
        self._session = session
        self._observer = Observer(session.recorder, part)
        part.on_undo(self._leave)

    def _leave(self) -> None:
        for hook in HOOKS.values():
            hook.observer = None

    def found(self, modules: Sequence[nn.Module]) -> None:
        """Register on every DDP model that has none and whose result stays the same to the bit."""
        from torch._C._distributed_c10d import _register_comm_hook
        from torch.nn.parallel import DistributedDataParallel

        for module in modules:
            if not isinstance(module, DistributedDataParallel):
                continue
            if module in HOOKS:
                HOOKS[module].observer = self._observer
                continue
            if module._comm_hooks:
                continue  # the user's: what it calls from Python is recorded there
            reason = reason_against(module)
            if reason:
                self._session.unseen(f"grad_sync: DDP's all-reduce is not observed, {reason}")
                continue
            hook = BucketHook(module.process_group)
            try:
                # Not module.register_comm_hook: that would put us into the model's pickled state.
                _register_comm_hook(module.reducer, None, hook)
            except RuntimeError:
                self._session.unseen("grad_sync: DDP's all-reduce is not observed, a built-in hook does it")
                continue
            hook.observer = self._observer
            HOOKS[module] = hook


def handing_over(original: Callable[..., None]) -> Callable[..., None]:
    """The wrapper of `register_comm_hook`: one hook a model, so ours hands over to the user's."""

    @wraps(original)
    def register_comm_hook(model: DistributedDataParallel, state: object, hook: UserHook) -> None:
        ours = HOOKS.get(model)
        if ours is None:
            original(model, state, hook)
            return
        model._check_comm_hook(hook)  # type: ignore[no-untyped-call]
        model._comm_hooks.append((hook, state))
        ours.user = (state, hook)

    return register_comm_hook


def reason_against(model: DistributedDataParallel) -> str:
    """Why a hook could change this model's gradients; "" if it cannot."""
    size = model.process_group.size()
    if getattr(model, "mixed_precision", None) is not None:
        return "its mixed precision has a hook of its own"
    if getattr(model, "_delay_all_reduce_params", None) or getattr(model, "_use_python_reducer", False):
        return "it does not use the reducer in the common way"
    if model._join_config.enable:
        return "uneven inputs are joined"
    if model.gradient_as_bucket_view and size & (size - 1):
        return f"gradients are views of buckets and {size} ranks are no power of two"
    return ""


def _buffers(session: Session, part: Part, original: Callable[..., None]) -> Callable[..., None]:
    """DDP's broadcast of buffers and initial parameters, a C++ function that waits for its end."""
    calls, recorder = session.calls, session.recorder
    broadcast = recorder.names["broadcast"]

    def begin(group: ProcessGroup, tensors: Sequence[torch.Tensor], root: int) -> Begun | None:
        from torch.distributed import get_process_group_ranks

        state = calls.group(group.group_name, get_process_group_ranks(group))
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
