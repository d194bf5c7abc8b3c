"""Steps and phases of one rank, from the profiler's annotations and the autograd engine's spans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from argus.collectors.readers._columns import Columns, Span
from argus.collectors.readers._intervals import Spans, rest, union

Ints = NDArray[np.int64]

_STEP = re.compile(r"ProfilerStep#?\s*(\d{1,15})$")
_ALIASES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (phase, re.compile(pattern, re.IGNORECASE))
    for phase, pattern in (
        (
            "data",
            r"enumerate\(dataloader\)|dataloader|data[-_ ]?load|(load|wait_for|get|next)_batch|batch-gen",
        ),
        ("h2d", r"copy_batch|(batch|data)_to_(gpu|device)|h2d\b|host_to_device"),
        ("optimizer", r"optimizer\b|zero_grad"),
        ("backward", r"(backward|bwd)([-_]compute)?(?![-_:\w])"),
        ("forward", r"(forward|fwd)([-_]compute)?(?![-_:\w])|distributeddataparallel\.forward"),
        ("checkpoint", r"save[-_ ]?checkpoint|checkpoint[-_ ](save|write)"),
        ("eval", r"eval(uat\w*)?\b|validat\w+"),
    )
)
"""Canonical phase by what profilers and frameworks call it; the first match wins."""

_OPAQUE = frozenset({"backward", "optimizer"})
"""Phases whose inner annotations (recomputed forward, hooks) do not cut them."""


@dataclass(frozen=True, kw_only=True)
class Steps:
    """Whole steps in order. Shapes (step,)."""

    number: Ints
    start: Ints
    end: Ints
    is_marked: bool

    def at(self, moments: Ints) -> Ints:
        """Index of the step each moment lies in, -1 if in none."""
        index = np.searchsorted(self.start, moments, side="right") - 1
        inside = (index >= 0) & (moments < self.end[np.maximum(index, 0)])
        return np.where(inside, index, -1)


@dataclass(frozen=True, kw_only=True)
class Segments:
    """Pieces of the training thread's time, each in one phase. Shapes (segment,)."""

    start: Ints
    end: Ints
    phase: tuple[str, ...]
    native: tuple[str, ...]

    def at(self, moments: Ints) -> Ints:
        """Index of the segment each moment lies in, -1 if in none."""
        if not len(self.start):
            return np.full(len(moments), -1)
        index = np.searchsorted(self.start, moments, side="right") - 1
        inside = (index >= 0) & (moments < self.end[np.maximum(index, 0)])
        return np.where(inside, index, -1)


def _marked(columns: Columns) -> dict[int, Span]:
    """The span of each numbered step, the longest one: other threads and wrappers may mark parts of it again."""
    marked: dict[int, Span] = {}
    for span in columns.marks:
        match = _STEP.match(span.name)
        if match and span.end_ns > span.start_ns:
            known = marked.setdefault(int(match.group(1)), span)
            if span.end_ns - span.start_ns > known.end_ns - known.start_ns:
                marked[int(match.group(1))] = span
    return marked


def find_steps(columns: Columns) -> Steps:
    """The profiler's steps; without any, the whole trace is step 0."""
    marked = _marked(columns)
    if marked:
        spans = sorted(marked.items(), key=lambda item: item[1].start_ns)
        start = np.array([span.start_ns for _, span in spans], np.int64)
        end = np.array([span.end_ns for _, span in spans], np.int64)
        end[:-1] = np.minimum(end[:-1], start[1:])
        return Steps(
            number=np.array([number for number, _ in spans], np.int64), start=start, end=end, is_marked=True
        )
    low, high = _extent(columns)
    return Steps(number=np.array([0]), start=np.array([low]), end=np.array([high]), is_marked=False)


def training_thread(columns: Columns) -> str:
    """The thread that runs the training loop: the one of the steps, else the busiest one."""
    marked = Counter(str(span.tid) for span in _marked(columns).values())
    if marked:
        return marked.most_common(1)[0][0]
    names = [str(tid) for tid in columns.threads]
    ops = columns.ops.rows()
    counts = np.bincount(ops[ops[:, 3] == 0, 2], minlength=len(names)).tolist()
    plain = Counter({name: count for name, count in zip(names, counts, strict=True) if count})
    plain.update(str(span.tid) for span in columns.marks if phase_of(span.name))
    return plain.most_common(1)[0][0] if plain else ""


def phase_of(annotation: str) -> str:
    """Canonical phase behind an annotation, "" if it names none.

    >>> phase_of("## copy_batch_to_gpu ##"), phase_of("Optimizer.step#AdamW.step"), phase_of("nccl:x")
    ('h2d', 'optimizer', '')
    """
    plain = annotation.strip("# ")
    return next((phase for phase, pattern in _ALIASES if pattern.match(plain)), "")


def find_segments(columns: Columns, steps: Steps, *, thread: str, comm: Spans) -> Segments:
    """Every moment of every step in a phase: annotated, else backward by autograd, else `other`."""
    pieces = _innermost(span for span in columns.marks if str(span.tid) == thread)
    taken = union([p[0] for p in pieces], [p[1] for p in pieces])
    plain, autograd = _thread_ops(columns, thread)
    backward = rest(_backward(autograd, plain_starts=plain, taken=taken, comm=comm), taken)
    pieces += [
        (int(a), int(b), "backward", "autograd") for a, b in zip(backward.start, backward.end, strict=True)
    ]
    taken = union([p[0] for p in pieces], [p[1] for p in pieces])
    left = rest(union(steps.start, steps.end), taken)
    pieces += [(int(a), int(b), "other", "other") for a, b in zip(left.start, left.end, strict=True)]
    inside = steps.at(np.array([p[0] for p in pieces], np.int64))
    kept = sorted(
        (start, min(end, int(steps.end[at])), phase, native)
        for (start, end, phase, native), at in zip(pieces, inside, strict=True)
        if at >= 0
    )
    return Segments(
        start=np.array([p[0] for p in kept], np.int64),
        end=np.array([p[1] for p in kept], np.int64),
        phase=tuple(p[2] for p in kept),
        native=tuple(p[3] for p in kept),
    )


Piece = tuple[int, int, str, str]


def _innermost(spans: Iterable[Span]) -> list[Piece]:
    """Annotated pieces; where annotations nest, the inner one has the time."""
    pieces: list[Piece] = []
    stack: list[tuple[int, str, str]] = []
    cursor = 0

    def emit(until: int) -> None:
        nonlocal cursor
        if stack and until > cursor:
            pieces.append((cursor, until, stack[-1][1], stack[-1][2]))
        cursor = max(cursor, until)

    for span in sorted(spans, key=lambda s: (s.start_ns, -s.end_ns)):
        phase = phase_of(span.name)
        if not phase or span.end_ns <= span.start_ns:
            continue
        while stack and stack[-1][0] <= span.start_ns:
            emit(stack[-1][0])
            stack.pop()
        if stack and (stack[-1][1] in _OPAQUE or stack[-1][1] == phase):
            continue
        emit(span.start_ns)
        cursor = span.start_ns
        stack.append((min(span.end_ns, stack[-1][0]) if stack else span.end_ns, phase, span.name.strip("# ")))
    while stack:
        emit(stack[-1][0])
        stack.pop()
    return pieces


def _thread_ops(columns: Columns, thread: str) -> tuple[Ints, Spans]:
    """Starts of the training thread's ops outside autograd, and autograd's spans on any thread."""
    ops = columns.ops.rows()
    is_autograd = ops[:, 3] == 1
    autograd = union(ops[is_autograd, 0], ops[is_autograd, 1])
    starts = np.sort(ops[~is_autograd & (ops[:, 2] == columns.threads.get(thread, -1)), 0])
    outside = autograd.within(starts, starts + 1) == 0
    return starts[outside], autograd


def _backward(autograd: Spans, *, plain_starts: Ints, taken: Spans, comm: Spans) -> Spans:
    """Autograd's spans joined over gaps without other work, with the communication they end in."""
    if not len(autograd.start):
        return autograd
    busy = np.sort(np.concatenate([plain_starts, taken.start]))
    done = np.searchsorted(busy, autograd.end[:-1])
    joins = np.searchsorted(busy, autograd.start[1:]) == done
    first = np.concatenate([[True], ~joins])
    last = np.concatenate([~joins, [True]])
    start, end = autograd.start[first], autograd.end[last]
    latest = int(max(end.max(), comm.end.max(initial=0)))
    follows = np.append(busy, latest)[np.searchsorted(busy, end)]
    limit = np.minimum(follows, np.append(start[1:], latest))
    # Of disjoint intervals the last one that begins before the limit ends last.
    running = np.searchsorted(comm.start, limit) - 1
    done = (
        np.where(running >= 0, comm.end[np.maximum(running, 0)], 0) if len(comm.end) else np.zeros_like(end)
    )
    return union(start, np.minimum(np.maximum(done, end), np.maximum(limit, end)))


def _extent(columns: Columns) -> tuple[int, int]:
    ops, kernels = columns.ops.rows(), columns.kernels.rows()
    spans = [*columns.marks, *columns.comms]
    starts = [ops[:, 0], kernels[:, 0], np.array([span.start_ns for span in spans], np.int64)]
    ends = [ops[:, 1], kernels[:, 0] + kernels[:, 1], np.array([span.end_ns for span in spans], np.int64)]
    if not any(map(len, starts)):
        return 0, 0
    low = min(int(part.min()) for part in starts if len(part))
    return low, max(max(int(part.max()) for part in ends if len(part)), low + 1)
