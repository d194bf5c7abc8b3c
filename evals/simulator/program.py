"""What every rank of a stage does in a step, operation by operation, and in which order stages can be played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from argus.evals.simulator.groups import shape_of
from argus.evals.simulator.job import Job
from argus.evals.simulator.schedules import BACKWARD, FORWARD, Piece, order_of
from argus.evals.simulator.segments import REWARD, ROLLOUT, Segments, segments_of

WORK, MEET, LAUNCH, JOIN, SEND, RECV, NORM, PAUSE = (
    "work",
    "meet",
    "launch",
    "join",
    "send",
    "recv",
    "norm",
    "pause",
)
"""Own work · a call all members stand in · one they only start · waiting for those started · to and from the
neighbour · the gradient norm, a call of all ranks · a checkpoint or evaluation with its barrier."""

RENDEZVOUS = (NORM, PAUSE)
"""Operations of all stages together."""

PAUSES = ("eval", "checkpoint")

ALL = -1
"""In place of a stage: all of them at once."""


@dataclass(frozen=True, kw_only=True)
class Op:
    """One operation. `slot` is the cost segment of work, else the call's number in its `group` kind and step.

    `name` is the collective operation, or which pause it is. `to` is the stage at the other end of a transfer.
    """

    kind: str
    slot: int = -1
    group: str = ""
    name: str = ""
    to: int = -1


@dataclass(frozen=True, kw_only=True)
class Span:
    """Consecutive operations that a collector reports as one phase."""

    phase: str
    native: str
    ops: tuple[Op, ...]
    micro_batch: int = -1
    chunk: int = -1


@dataclass(frozen=True, kw_only=True)
class Program:
    """`stages` holds the spans of each stage; `order` the (stage, operation) pairs of a step as they can be
    played; for a rendezvous (ALL, operations that follow it). `num_calls` counts the calls of a step per kind
    of group."""

    stages: tuple[tuple[Span, ...], ...]
    order: tuple[tuple[int, int], ...]
    num_calls: Mapping[str, int]

    def ops(self, stage: int) -> tuple[Op, ...]:
        """All operations of a stage in order."""
        return tuple(op for span in self.stages[stage] for op in span.ops)


@lru_cache(maxsize=32)
def program_of(job: Job) -> Program:
    """The program of one step of `job`."""
    stages = tuple(_Builder(job, stage).spans() for stage in range(job.pp))
    num_calls: dict[str, int] = {}
    for spans in stages:
        for op in (op for span in spans for op in span.ops if op.group):
            num_calls[op.group] = max(num_calls.get(op.group, 0), op.slot + 1)
    return Program(stages=stages, order=_playable(stages), num_calls=num_calls)


NATIVE = {
    "data": "DataLoader.__next__",
    "forward": "GPT.forward",
    "backward": "Tensor.backward",
    "optimizer": "AdamW.step",
    "checkpoint": "checkpoint",
    "eval": "evaluate",
    "grad_sync": "DistributedDataParallel",
}
PIPELINE_NATIVE = NATIVE | {
    "forward": "forward-compute",
    "backward": "backward-compute",
    "weights": "backward-weight",
    "forward_recv": "forward-recv",
    "backward_recv": "backward-recv",
    "grad_sync": "grads-reduce-scatter",
    "optimizer": "optimizer",
}
"""Names of the natives that a collector would see: of DDP, and of a pipeline's timers."""

LOOP_NATIVE = {ROLLOUT: "generate_sequences", REWARD: "compute_rm_score", "weight_sync": "update_weights"}


def natives_of(job: Job) -> dict[str, str]:
    """What the job's framework calls its phases."""
    return (PIPELINE_NATIVE if job.is_pipeline else NATIVE) | (LOOP_NATIVE if job.rollout_ratio else {})


class _Builder:
    """Spans of one stage; counts the calls of each kind as they are made."""

    def __init__(self, job: Job, stage: int) -> None:
        self.job, self.stage = job, stage
        self.parts: Segments = segments_of(job)
        self.kinds = shape_of(job).groups
        self.meets = [kind for kind in ("tp", "cp") if kind in self.kinds]
        self.calls: dict[str, int] = {}
        self.native = natives_of(job)

    def spans(self) -> tuple[Span, ...]:
        """The whole step."""
        found = [self._span("data", Op(kind=WORK, slot=0)), *self._rollout()]
        if self.job.is_pipeline:
            for piece in self._order():
                found += self._piece(piece)
            found += self._grad_sync()
        else:
            found += [self._forward(), self._overlapped_backward()]
        norm = (self._call(NORM, "world", "all_reduce"),) if self.job.pp > 1 else ()
        found.append(self._span("optimizer", *norm, Op(kind=WORK, slot=self.parts.optimizer)))
        if self.job.rollout_ratio and self.job.grad_kind in self.kinds:
            found.append(self._span("weight_sync", self._call(MEET, self.job.grad_kind, "all_gather")))
        found += [self._span(name, Op(kind=PAUSE, name=name)) for name in PAUSES]
        return tuple(found)

    def _rollout(self) -> list[Span]:
        """Generate, wait for all that was generated, score it; nothing in a job that only trains."""
        if not self.job.rollout_ratio:
            return []
        ops = [Op(kind=WORK, slot=self.parts.of(ROLLOUT, 0, 0)[0])]
        if self.job.grad_kind in self.kinds:
            ops.append(self._call(MEET, self.job.grad_kind, "all_gather"))
        return [
            self._span(ROLLOUT, *ops),
            self._span(REWARD, Op(kind=WORK, slot=self.parts.of(REWARD, 0, 0)[0])),
        ]

    def _order(self) -> tuple[Piece, ...]:
        job = self.job
        return order_of(
            job.schedule, stage=self.stage, pp=job.pp, micro_batches=job.micro_batches, virtual=job.virtual
        )

    def _span(self, phase: str, *ops: Op, native: str = "", piece: Piece | None = None) -> Span:
        return Span(
            phase=phase,
            native=self.native[native or phase],
            ops=ops,
            micro_batch=-1 if piece is None else piece.micro_batch,
            chunk=piece.chunk if piece is not None and self.job.virtual > 1 else -1,
        )

    def _call(self, kind: str, group: str, name: str) -> Op:
        slot = self.calls.get(group, 0)
        self.calls[group] = slot + 1
        return Op(kind=kind, slot=slot, group=group, name=name)

    def _work(self, slots: tuple[int, ...]) -> list[Op]:
        """Pieces of compute, each followed by the calls that belong to it."""
        ops: list[Op] = []
        for slot in slots:
            is_expert = bool(self.parts.is_expert[slot])
            if is_expert:
                ops.append(self._call(MEET, "ep", "all_to_all"))
            ops.append(Op(kind=WORK, slot=slot))
            if is_expert:
                ops.append(self._call(MEET, "ep", "all_to_all"))
            ops += [
                self._call(MEET, kind, "all_reduce" if kind == "tp" else "all_gather") for kind in self.meets
            ]
        return ops

    def _forward(self) -> Span:
        return self._span("forward", *self._work(self.parts.of("forward", 0, 0)))

    def _overlapped_backward(self) -> Span:
        """Gradients of a piece go over the wire while the next one is computed."""
        ops: list[Op] = []
        for slot in self.parts.of("backward", 0, 0):
            is_expert = bool(self.parts.is_expert[slot])
            ops += self._work((slot,))
            kind = "edp" if is_expert else self.job.grad_kind
            if kind in self.kinds:
                ops.append(self._call(LAUNCH, kind, self._reduce_name()))
        kinds = dict.fromkeys(op.group for op in ops if op.kind == LAUNCH)
        return self._span("backward", *ops, *(Op(kind=JOIN, name=kind) for kind in kinds))

    def _reduce_name(self) -> str:
        return "reduce_scatter" if self.job.is_pipeline or self.job.ep > 1 else "all_reduce"

    def _grad_sync(self) -> list[Span]:
        kinds = [kind for kind in (self.job.grad_kind, "edp") if kind in self.kinds]
        if not kinds:
            return []
        calls = [
            self._call(MEET, kind, self._reduce_name()) for kind in kinds for _ in range(self.job.buckets)
        ]
        return [self._span("grad_sync", *calls)]

    def _piece(self, piece: Piece) -> list[Span]:
        """One micro-batch: receive, compute, send."""
        slots = self.parts.of(piece.kind, piece.micro_batch, piece.chunk)
        work = self._work(slots)
        if piece.kind not in (FORWARD, BACKWARD):
            return [self._span("backward", *work, native="weights", piece=piece)]
        forth = 1 if piece.kind == FORWARD else -1
        last = self.job.pp * self.job.virtual - 1
        place = piece.chunk * self.job.pp + self.stage
        number = self.parts.transfer(piece.kind, piece.micro_batch, piece.chunk, self.stage)
        before = self.parts.transfer_from(piece.kind, piece.micro_batch, place - forth)
        spans = []
        if 0 <= place - forth <= last:
            recv = Op(kind=RECV, slot=before, group="pp", name="recv", to=(place - forth) % self.job.pp)
            spans.append(self._span("pp_recv", recv, native=f"{piece.kind}_recv", piece=piece))
        if 0 <= place + forth <= last:
            work.append(Op(kind=SEND, slot=number, group="pp", name="send", to=(place + forth) % self.job.pp))
        return [*spans, self._span(piece.kind, *work, piece=piece)]


def _playable(stages: tuple[tuple[Span, ...], ...]) -> tuple[tuple[int, int], ...]:
    """An order in which every receive comes after its send and all stages meet where they must."""
    ops = [[op for span in spans for op in span.ops] for spans in stages]
    at = [0] * len(ops)
    sent: set[int] = set()
    order: list[tuple[int, int]] = []
    while any(place < len(mine) for place, mine in zip(at, ops, strict=True)):
        moved = False
        for stage, mine in enumerate(ops):
            while at[stage] < len(mine) and _is_free(mine[at[stage]], sent):
                op = mine[at[stage]]
                if op.kind == SEND:
                    sent.add(op.slot)
                order.append((stage, at[stage]))
                at[stage] += 1
                moved = True
        if not moved:
            assert all(mine[place].kind in RENDEZVOUS for place, mine in zip(at, ops, strict=True)), at
            order.append((ALL, _from_end(at, ops)))
            at = [place + 1 for place in at]
    return tuple(order)


def _from_end(at: list[int], ops: list[list[Op]]) -> int:
    """How many operations before its last one every stage stands: all end with the same ones."""
    left = {len(mine) - 1 - place for place, mine in zip(at, ops, strict=True)}
    assert len(left) == 1, left
    return left.pop()


def _is_free(op: Op, sent: set[int]) -> bool:
    return op.kind not in RENDEZVOUS and (op.kind != RECV or op.slot in sent)
