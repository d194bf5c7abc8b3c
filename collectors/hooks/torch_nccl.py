"""NCCL's own timing: how long a collective ran on its stream, from what the process group records.

Events on the current stream would time the wrong one, and waiting would serialise. The group reports
every finished work on a thread of its own, with the sequence number it had when it was issued.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Protocol

from argus.collectors.rank.calls import CallLog
from argus.collectors.rank.guard import Part
from argus.collectors.rank.in_flight import Call
from argus.collectors.rank.session import Session

NEEDS = "torch.distributed"

MAX_OPEN = 8192  # works that were issued and not reported yet


class WorkInfo(Protocol):
    """What `ProcessGroup._register_on_completion_hook` delivers."""

    @property
    def seq(self) -> int: ...

    @property
    def active_duration(self) -> timedelta: ...


class NcclGroup(Protocol):
    """The part of a process group that is needed; `collectors.rank.fake_nccl` has it too."""

    group_name: str

    def _has_hooks(self) -> bool: ...

    def _enable_collectives_timing(self) -> None: ...

    def _register_on_completion_hook(self, hook: Callable[[WorkInfo], None]) -> None: ...

    def _get_sequence_number_for_group(self) -> int: ...


def install(session: Session, part: Part) -> None:
    """Time each NCCL group as it appears."""
    if session.recorder.gpu is None:
        return
    session.unseen("NCCL: entry is the launch on the host, the end is entry plus time on the stream")
    session.unseen("NCCL: send and recv")
    seen: weakref.WeakSet[NcclGroup] = weakref.WeakSet()  # not by name: after a destroy names are used again

    lock = threading.Lock()  # training and writer thread both notice a new group

    def changed() -> None:
        with lock:
            for group in nccl_groups():
                if group not in seen:
                    seen.add(group)
                    watch(group, session, part)

    session.on_group_change(part.guard(changed))


def nccl_groups() -> Iterable[NcclGroup]:
    """This rank's groups whose collectives run on NCCL."""
    c10d = sys.modules["torch.distributed.distributed_c10d"]
    for group, (backend, _store) in list(c10d._world.pg_map.items()):
        if "nccl" in str(backend).lower():
            yield group


def watch(group: NcclGroup, session: Session, part: Part) -> None:
    """Let the group report its finished works; a group that cannot, or has a hook already, is unseen."""
    log, name = session.calls, group.group_name
    needed = ("_has_hooks", "_enable_collectives_timing", "_register_on_completion_hook")
    if not all(hasattr(group, method) for method in needed) or group._has_hooks():
        session.unseen(f"NCCL: group {name} does not report its works")

        def timer(call: Call) -> None:
            log.over(call, call.entry_ns)  # entered, end unknown

    else:
        joined = NcclTimer(group, log)
        group._enable_collectives_timing()
        group._register_on_completion_hook(part.guard(joined.finished))
        timer = joined.issued
    log.on_group(name, timer)
    weakref.finalize(group, log.off_group, name, timer).atexit = False


class NcclTimer:
    """Joins issued calls with finished works of one group by its sequence number."""

    def __init__(self, group: NcclGroup, log: CallLog) -> None:
        self._group = weakref.ref(group)  # it holds us by its hook: a destroyed one would live for ever
        self._log = log
        self._open: dict[int, Call] = {}
        names = log.recorder.names
        self._p2p = (names["send"], names["recv"])

    def issued(self, call: Call) -> None:
        """The call was issued just now, so the group's number is its own; send and recv have none."""
        group = self._group()
        if group is None or call.op in self._p2p:
            self._log.over(call, call.entry_ns)
            return
        if len(self._open) >= MAX_OPEN:
            self._log.recorder.ring.drop("nccl_unreported", 1)
            self._open.pop(next(iter(self._open)), None)
        self._open[group._get_sequence_number_for_group()] = call

    def finished(self, info: WorkInfo) -> None:
        """A work is over."""
        call = self._open.pop(info.seq, None)
        if call is None:
            return  # issued in C++: no entry was seen
        ran_ns = round(info.active_duration / timedelta(microseconds=1) * 1000)
        self._log.over(call, call.entry_ns + ran_ns)
        self._log.emit(call)
