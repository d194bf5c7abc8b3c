"""Whether the whole job is slow because its time has come: blocks of slow steps at equal distances, alike on all ranks.

Evaluation and checkpoints that nobody marks are told three times; from then on they are the job's own as long as they
come when they are due and are neither longer nor slower than they were (`series.blocks` says the same of a recorded file).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from argus.analytics.incident import Incident
from argus.analytics.lifecycle import SIGNAL_GONE
from argus.analytics.series.blocks import OFF, Block, are_alike

TOLD = 3
"""Blocks that say how far apart they come; one more is due then."""

PART = 0.1
"""Of a distance by which a block may be off that comes long after the last one told: a distance is known to a few steps,
and each block in between adds as many."""


def blocks_of(incidents: Iterable[Incident], *, fault_class: str) -> tuple[Block, ...]:
    """Steps and price of the incidents of a class that accused nobody and ended by themselves, in order."""
    return tuple(
        sorted(
            (one.onset_step, one.end_step, one.cause.s_per_step)
            for one in incidents
            if one.cause.fault_class == fault_class
            and not one.cause.suspects
            and one.ended == SIGNAL_GONE
            and one.end_step is not None
        )
    )


def is_due(blocks: Sequence[Block], now: Block) -> bool:
    """Whether the block that goes on now comes as the last ones did, and takes no longer so far.

    >>> before = [(800, 849, 1.0), (1601, 1650, 1.1), (2400, 2449, 1.0)]
    >>> [is_due(before, (start, start + 29, 1.0)) for start in (3200, 4002, 3300)], is_due(before, (3200, 3330, 1.0))
    ([True, True, False], False)
    """
    last = blocks[-TOLD:]
    if len(last) < TOLD:
        return False
    (first, *_), (second, *_), (third, *_) = last
    length = (third - first) / (TOLD - 1)
    if not length or abs((third - second) - (second - first)) > OFF:
        return False  # told anew of one and the same begin they are no blocks apart
    times = round((now[0] - third) / length)
    late = abs(now[0] - third - times * length)
    if times < 1 or late > min(OFF * times, max(OFF, PART * length)):
        return False
    shortest = min(end - begin for begin, end, _ in last)
    return are_alike([*last, (now[0], max(now[1], now[0] + shortest), now[2])], length)
