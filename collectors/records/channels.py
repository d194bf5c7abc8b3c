"""Which steps Argus disturbs on purpose: a function of (run, step) that every rank computes alike."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

CHANNELS = ("modules", "stacks", "kernels", "phases", "collectives")
"""What is seen beside the steps, in the order in which it steps down: what a verdict needs least goes first.

`modules` are the sampled steps: module phases and, without a GPU, operators.
"""

SHADOWED = ("phases", "collectives")
"""Channels that run in every step, so that a step without them tells their cost; `modules` is sampled."""

ALL = "all"
BLOCK_STEPS = 50
"""Steps that hold one shadow step of everything, one of a single channel and one profiled step."""

FIRST_BLOCK = 1
"""Block 0 is warm-up: compilation, allocator growth."""

_THIRD = BLOCK_STEPS // 3
_MARGIN = 2
"""Steps kept free at both ends of a third, so that each disturbed step has undisturbed neighbours."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """The disturbed steps of one block."""

    all_off: int
    one_off: int
    channel: str  # of `one_off`
    profiled: int


def block_of(run: str, step: int) -> Block | None:
    """The disturbed steps of the block that holds `step`; None in the first one and for a nameless run.

    >>> block = block_of("llama", 61)
    >>> sorted({block.all_off // 50, block.one_off // 50, block.profiled // 50})
    [1]
    """
    index = step // BLOCK_STEPS
    if not run or index < FIRST_BLOCK:
        return None
    draw = int.from_bytes(hashlib.blake2b(f"{run}\0{index}".encode(), digest_size=12).digest(), "big")
    places = []
    for third in range(3):
        draw, offset = divmod(draw, _THIRD - 2 * _MARGIN)
        places.append(index * BLOCK_STEPS + third * _THIRD + _MARGIN + offset)
    draw, first = divmod(draw, 3)
    all_off = places.pop(first)
    draw, second = divmod(draw, 2)
    one_off = places.pop(second)
    return Block(all_off=all_off, one_off=one_off, channel=SHADOWED[draw % len(SHADOWED)], profiled=places[0])


def shadowed(run: str, step: int) -> str:
    """The channel that is off in `step`: one of `SHADOWED`, `all`, or "" if none is."""
    block = block_of(run, step)
    if block is None:
        return ""
    return ALL if step == block.all_off else block.channel if step == block.one_off else ""


def is_profiled(run: str, step: int, *, period: int = BLOCK_STEPS) -> bool:
    """Whether `step` records in more detail than others: one step of each `period`, never a shadow step.

    A job that asks for another period than that of the blocks has its steps drawn by a hash: a fixed stride
    would meet the same step of whatever else repeats.

    >>> is_profiled("run", 3, period=1)
    True
    """
    if period == BLOCK_STEPS:
        block = block_of(run, step)
        return block is not None and step == block.profiled
    if period < 1 or shadowed(run, step):
        return False
    first = step - step % period
    digest = hashlib.blake2b(f"{run}/{first // period}".encode(), digest_size=8).digest()
    return step == first + int.from_bytes(digest, "little") % period


def off_at(level: int) -> tuple[str, ...]:
    """Channels off after `level` steps down."""
    return CHANNELS[: max(level, 0)]
