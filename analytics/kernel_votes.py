"""Which of a window's kernel candidates lasted: persistence over windows, and the device's own past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from argus.analytics.kernel_digest import KernelDigest, past_mean
from argus.analytics.kernel_peers import Bools
from argus.analytics.kernel_scan import Settings, changed
from argus.analytics.kernel_tail import Reals


@dataclass(frozen=True, kw_only=True)
class Votes:
    """What may become findings: (kernel, rank) and (rank,) flags, `own` the change against the past or None."""

    shift: Bools
    tail: Bools
    device: Bools
    own: Reals | None


def vote(now: KernelDigest, past: Sequence[KernelDigest], *, settings: Settings) -> Votes:
    """Candidates seen in enough of the last windows, this one included; gross ones at once."""
    assert now.found is not None and now.effects is not None
    found = now.found
    before = list(past[-(settings.of - 1) :])
    own, moved = _own(now, past, settings=settings)
    shift = _lasting(now, found.shift, [one.shift for one in before], settings=settings)
    lasting = shift | (found.shift & found.gross)
    moved_before = [
        _own(one, past[: len(past) - len(before) + i], settings=settings, like=now)[1]
        for i, one in enumerate(before)
    ]
    times = moved.astype(np.int8) + sum(m.astype(np.int8) for m in moved_before)
    lasting |= moved & (times >= settings.needed)
    device = found.device & np.array(
        [1 + sum(int(rank) in one.device for one in before) >= settings.needed for rank in now.ranks],
        np.bool_,
    )
    tail = _lasting(now, found.tail, [one.tail for one in before], settings=settings) & ~lasting
    return Votes(shift=lasting, tail=tail, device=device, own=own)


def _lasting(
    now: KernelDigest,
    flags: Bools,
    before: Sequence[frozenset[tuple[tuple[int, int], int]]],
    *,
    settings: Settings,
) -> Bools:
    out = np.zeros(flags.shape, np.bool_)
    for k, r in np.argwhere(flags):
        pair = (now.keys[k], int(now.ranks[r]))
        out[k, r] = 1 + sum(pair in one for one in before) >= settings.needed
    return out


def _own(
    one: KernelDigest, past: Sequence[KernelDigest], *, settings: Settings, like: KernelDigest | None = None
) -> tuple[Reals | None, Bools]:
    """Change of `one` against its past, in the order of `like`'s kernels and ranks."""
    like = like or one
    shape = like.mean.shape
    if one.keys != like.keys or one.devices != like.devices or like.found is None:
        return None, np.zeros(shape, np.bool_)
    known = past_mean(past, one, least=settings.history_windows)
    if known is None:
        return None, np.zeros(shape, np.bool_)
    own, moved = changed(one.mean, known, one.peers, share=like.found.share, settings=settings)
    return own, moved & like.found.is_compute[:, None]
