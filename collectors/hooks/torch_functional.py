"""Functional collectives (DTensor, tensor parallelism), which call the process group from C++.

Their public functions are wrapped, and `wait_tensor`, where an eager result is first used. What a
compiled graph or autograd's backward of such a call issues never comes by here; it is said to be unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING
from weakref import ref

from argus.collectors.rank import state
from argus.collectors.rank.calls import CallLog
from argus.collectors.rank.guard import Part
from argus.collectors.rank.in_flight import Call
from argus.collectors.rank.session import Session

if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup

NEEDS = "torch.distributed._functional_collectives"

FUNCTIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "all_reduce": ("all_reduce", ("all_reduce",)),
    "all_gather": ("all_gather", ("all_gather_single", "all_gather_tensor")),
    "reduce_scatter": ("reduce_scatter", ("reduce_scatter_single", "reduce_scatter_tensor")),
    "all_to_all": ("all_to_all", ("all_to_all_single",)),
    "broadcast": ("broadcast", ("broadcast",)),
}
"""Per operation: its name and the functions that issue it; the first a version has calls no other."""

GROUP_POSITION = {"all_reduce": 2, "all_gather": 2, "reduce_scatter": 3, "all_to_all": 3, "broadcast": 2}
MAX_OPEN = 1024  # results nobody has used yet


def install(session: Session, part: Part) -> None:
    """Wrap the functions where their callers look them up."""
    import torch.distributed._functional_collectives as functional

    hook = FunctionalHook(session, part)
    for key, (op, names) in FUNCTIONS.items():
        name = next((name for name in names if hasattr(functional, name)), None)
        if name is not None:
            wrapper = hook.issue(getattr(functional, name), op=op, position=GROUP_POSITION[key])
            part.patch(functional, name, wrapper)
    part.patch(functional, "wait_tensor", hook.wait(functional.wait_tensor))


class FunctionalHook:
    """Ties a result's memory to the call that fills it."""

    def __init__(self, session: Session, part: Part) -> None:
        import torch.distributed._functional_collectives as functional

        self._session = session
        self._log: CallLog = session.calls
        self._recorder = session.recorder
        self._part = part
        self._open: dict[int, Call] = {}
        self._result_type: type = functional.AsyncCollectiveTensor
        self._is_tracing: Callable[[], bool] = getattr(functional, "_are_we_tracing", state.never)

    def issue(
        self, original: Callable[..., torch.Tensor], *, op: str, position: int
    ) -> Callable[..., torch.Tensor]:
        """The wrapper of one function; `position` is where its group is passed."""
        part, number = self._part, self._recorder.names[op]

        def begin(tensor: torch.Tensor, group: object) -> Call | None:
            found = None if self._is_tracing() else group_of(group)
            if found is None:
                return None
            from torch.distributed import get_process_group_ranks

            if tensor.requires_grad:
                self._session.unseen("functional collectives of autograd's backward")
            named = self._log.group(found.group_name, get_process_group_ranks(found), of=ref(found))
            return self._log.begin(number, named, peer=-1, num_bytes=tensor.nbytes)

        begin_safe, issued_safe = part.guard(begin), part.guard(self._issued)
        refused_safe = part.guard(self._refused)

        @wraps(original)
        def wrapper(*args: object, **kwargs: object) -> torch.Tensor:
            if state.is_compiling() or not part.is_on:
                return original(*args, **kwargs)
            group = kwargs["group"] if "group" in kwargs else args[position] if len(args) > position else None
            call = begin_safe(args[0] if args else kwargs.get("self"), group)  # type: ignore[arg-type]
            try:
                result = original(*args, **kwargs)
            except BaseException:
                if call is not None:
                    refused_safe(call)
                raise
            if call is not None:
                issued_safe(call, result)
            return result

        return wrapper

    def _issued(self, call: Call, result: torch.Tensor) -> None:
        is_over = not isinstance(result, self._result_type)
        self._log.issued(call, is_blocking=is_over)
        if is_over:
            self._over(call)  # it was waited for inside
            return
        before = self._open.pop(_address(result), None)
        if before is not None:
            self._over(before)  # its memory is another result's now
        elif len(self._open) >= MAX_OPEN:
            self._over(self._open.pop(next(iter(self._open))))
        self._open[_address(result)] = call

    def _refused(self, call: Call) -> None:
        self._log.refused(call.op, call.group, peer=-1, call=call)

    def _over(self, call: Call) -> None:
        self._log.over(call, self._recorder.now_ns())
        self._log.emit(call)

    def wait(self, original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """The wrapper of `wait_tensor`."""
        part, recorder = self._part, self._recorder

        def begin(tensor: torch.Tensor) -> tuple[Call, int, int] | None:
            call = self._open.pop(_address(tensor), None)
            if call is None:
                return None
            recorder.comm_enter(recorder.here(), name=call.phase, native=call.op)
            return call, recorder.now_ns(), recorder.cpu_ns()

        def end(begun: tuple[Call, int, int]) -> None:
            self._log.waited(begun[0], start_ns=begun[1], start_cpu_ns=begun[2])

        begin_safe, end_safe = part.guard(begin), part.guard(end)

        @wraps(original)
        def wrapper(tensor: torch.Tensor) -> torch.Tensor:
            if state.is_compiling() or not part.is_on or not self._open:
                return original(tensor)
            begun = begin_safe(tensor)
            result = original(tensor)
            if begun is not None:
                end_safe(begun)
            return result

        return wrapper


def _address(tensor: torch.Tensor) -> int:
    return int(getattr(tensor, "elem", tensor).data_ptr())


def group_of(group: object) -> ProcessGroup | None:
    """The process group that a functional collective was given in one of its many forms; None if unknown."""
    import torch.distributed as dist
    from torch._C._distributed_c10d import _resolve_process_group
    from torch.distributed.device_mesh import DeviceMesh

    if isinstance(group, dist.ProcessGroup):
        return group
    if isinstance(group, str):
        return _resolve_process_group(group)  # type: ignore[arg-type]
    if isinstance(group, DeviceMesh):
        return group.get_group() if group.ndim == 1 else None
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    return None
