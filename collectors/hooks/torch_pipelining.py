"""torch.distributed.pipelining: forward and backward per stage and micro-batch, waiting for its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING

from argus.collectors.rank.guard import Part
from argus.collectors.rank.native import Args, Native, around
from argus.collectors.rank.open import Frame
from argus.collectors.rank.session import Session

if TYPE_CHECKING:
    from torch.distributed import P2POp, Work

NEEDS = "torch.distributed.pipelining.schedules"

UNNAMED = ("", "undefined", "default_pg")
"""Descriptions that do not say what a group is for."""

CHUNK_METHODS = {
    "forward_one_chunk": ("forward", "fwd_chunk_id"),
    "backward_one_chunk": ("backward", "bwd_chunk_id"),
    "backward_weight_one_chunk": ("backward", "bwd_chunk_id"),
}
"""Method of a stage: its phase and its argument that names the micro-batch."""


def install(session: Session, part: Part) -> None:
    """Wrap the stages' chunk methods and the schedules' waiting."""
    from torch.distributed.pipelining import schedules
    from torch.distributed.pipelining.stage import _PipelineStageBase

    native, over = Native(session, part), PipelineGroups(session)
    for name, (phase, argument) in CHUNK_METHODS.items():
        if hasattr(_PipelineStageBase, name):
            chunk = ChunkHook(native, over, phase=phase, argument=argument)
            original = getattr(_PipelineStageBase, name)
            wrapper = around(original, part, before=chunk.before, after=native.close)
            part.patch(_PipelineStageBase, name, wrapper)
    if hasattr(schedules, "_batch_p2p") and hasattr(schedules, "_wait_batch_p2p"):
        part.patch(schedules, "_batch_p2p", _issue(schedules._batch_p2p, part))
        waiter = WaitHook(session)
        wait = around(schedules._wait_batch_p2p, part, before=waiter.before, after=native.close)
        part.patch(schedules, "_wait_batch_p2p", wait)
    else:
        session.unseen("pipelining: this torch waits for its neighbours elsewhere")


class PipelineGroups:
    """Says which ranks are a pipeline where their group has no name that does: one over all ranks of the job."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._last: object = self  # None stands for the group of all ranks

    def see(self, stage: object) -> None:
        """A stage runs; nearly always one of the same group as before."""
        group = getattr(stage, "group", None)
        if group is self._last:
            return
        self._last = group
        from torch.distributed import get_process_group_ranks

        if str(getattr(group, "group_desc", "")) in UNNAMED:
            ranks = tuple(get_process_group_ranks(group))
            if ranks not in self._session.pipelines:
                self._session.pipelines.append(ranks)


class ChunkHook:
    """One micro-batch through one stage."""

    def __init__(self, native: Native, over: PipelineGroups, *, phase: str, argument: str) -> None:
        self._native = native
        self._over = over
        self._phase = phase
        self._argument = argument

    def before(self, args: Args, kwargs: Mapping[str, object]) -> Frame | None:
        """The stage starts on a micro-batch."""
        stage = args[0]
        self._over.see(stage)
        number = args[1] if len(args) > 1 else kwargs.get(self._argument, -1)
        index, size = getattr(stage, "stage_index", 0), getattr(stage, "group_size", 1)
        chunk = index // max(size, 1)
        return self._native.open(
            self._phase, chunk=chunk, micro_batch=number if isinstance(number, int) else -1
        )


class Works(list["Work"]):
    """The works of one batch, with what they do: `phase` is pp_recv if any of them receives."""

    phase = "pp_recv"
    desc = ""


def _issue(original: Callable[..., list[Work]], part: Part) -> Callable[..., list[Work]]:
    from torch.distributed import irecv

    def named(works: list[Work], ops: Sequence[P2POp], desc: str) -> list[Work]:
        found = Works(works)
        found.phase = "pp_recv" if any(op.op is irecv for op in ops) else "pp_send"
        found.desc = desc or found.phase
        return found

    named_safe = part.guard(named)

    @wraps(original)
    def batch(p2p_ops: Sequence[P2POp], desc: str | None = None) -> list[Work]:
        works = original(p2p_ops, desc)
        if not works or not part.is_on:
            return works
        return named_safe(works, p2p_ops, desc or "") or works

    return batch


class WaitHook:
    """A schedule stands still until its neighbour has sent or taken."""

    def __init__(self, session: Session) -> None:
        self._recorder = session.recorder

    def before(self, args: Args, _kwargs: Mapping[str, object]) -> Frame | None:
        """Waiting starts, if there is anything to wait for."""
        works = args[0] if args else None
        if not works:
            return None
        recorder = self._recorder
        phase = works.phase if isinstance(works, Works) else "pp_recv"
        desc = works.desc if isinstance(works, Works) else phase
        return recorder.open(recorder.names[phase], recorder.ring.intern(desc))
