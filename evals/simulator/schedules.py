"""In which order a pipeline stage works on its micro-batches.

1F1B and interleaved 1F1B after Narayanan et al. 2021 (arXiv 2104.04473, figure 4), zero-bubble H1 after Qi et
al. 2023 (arXiv 2401.10241, figure 3): the backward is split, and the weights' half fills what would be a bubble.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FORWARD, BACKWARD, WEIGHTS = "forward", "backward", "weights"


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One micro-batch through one model chunk of a stage, in one direction."""

    kind: str
    micro_batch: int
    chunk: int = 0


def order_of(schedule: str, *, stage: int, pp: int, micro_batches: int, virtual: int) -> tuple[Piece, ...]:
    """Pieces of one stage in the order it works on them.

    >>> [p.kind[0] + str(p.micro_batch) for p in order_of("1f1b", stage=0, pp=2, micro_batches=3, virtual=1)]
    ['f0', 'f1', 'b0', 'f2', 'b1', 'b2']
    """
    if schedule == "zero_bubble":
        return tuple(_zero_bubble(stage, pp, micro_batches))
    total = micro_batches * virtual
    ahead = pp - stage - 1 if virtual == 1 else 2 * (pp - stage - 1) + (virtual - 1) * pp
    warm = min(ahead, total)

    def piece(kind: str, number: int) -> Piece:
        chunk = number % (pp * virtual) // pp
        batch = number // (pp * virtual) * pp + number % pp if virtual > 1 else number
        chunk = 0 if virtual == 1 else chunk
        return Piece(kind=kind, micro_batch=batch, chunk=virtual - 1 - chunk if kind == BACKWARD else chunk)

    pieces = [piece(FORWARD, n) for n in range(warm)]
    for n in range(total - warm):
        pieces += [piece(FORWARD, warm + n), piece(BACKWARD, n)]
    pieces += [piece(BACKWARD, n) for n in range(total - warm, total)]
    return tuple(pieces)


def _zero_bubble(stage: int, pp: int, micro_batches: int) -> Iterator[Piece]:
    """1F1B whose weight halves lag by the stage's own number, so that later stages hand back sooner."""
    waiting: list[int] = []
    for piece in order_of("1f1b", stage=stage, pp=pp, micro_batches=micro_batches, virtual=1):
        yield piece
        if piece.kind == BACKWARD:
            waiting.append(piece.micro_batch)
            if len(waiting) > stage:
                yield Piece(kind=WEIGHTS, micro_batch=waiting.pop(0))
    for micro_batch in waiting:
        yield Piece(kind=WEIGHTS, micro_batch=micro_batch)
