"""What an attempt remembers of its windows: enough to know what is normal, and not the fault itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from argus.analytics.ballots import VOTE_WINDOWS
from argus.analytics.baseline import is_usual
from argus.analytics.eras import Eras
from argus.analytics.incident import Cause, Incident
from argus.analytics.kernels.digest import KEPT, KernelDigest
from argus.analytics.lifecycle import is_stop
from argus.analytics.view import PAST_WINDOWS, Digest
from argus.analytics.window import Bools, Ints

KEEP_CLEAN = 30
"""Windows without any suspect that are kept for baselines however long a fault lasts."""


def remember(past: Sequence[Digest], digest: Digest, *, incidents: Sequence[Incident]) -> tuple[Digest, ...]:
    """Add the window to the past; whoever an open incident accuses is no part of what is normal.

    The windows that led to an incident are marked with it, since they were remembered before it opened.
    """
    accused = [i for i in incidents if i.status == "open" and not is_stop(i)]
    if past and past[-1].paths == digest.paths:
        digest = replace(digest, paths=past[-1].paths)
    known = tuple(
        _flagged(each, [i for i in accused if each.index > i.opened_window - VOTE_WINDOWS])
        for each in (*past, digest)
    )
    return _lighter(_forget(known))


def retain(eras: Eras, past: Sequence[Digest], *, incidents: Sequence[Incident]) -> Eras:
    """The windows of `past` that no incident marks any more, in what is remembered for long. Those in which anybody stood
    accused, and those of a job that was told to be slow, say nothing of how fast it is."""
    fresh = [one for one in past[:-VOTE_WINDOWS] if one.index > eras.taken]
    index = np.array([one.index for one in fresh], np.int64)
    ends = np.array([one.first_step + one.num_steps for one in fresh], np.int64)
    for one, is_told in zip(fresh, told_in(index, ends, incidents).tolist(), strict=True):
        eras = eras.after(one.index, one if is_usual(one) and one.is_clean and not is_told else None)
    return eras


def told_in(index: Ints, end_step: Ints, incidents: Iterable[Incident]) -> Bools:
    """Which windows, by index and the step after their last, an incident was about or led to it. (window,)"""
    told = np.zeros(len(index), np.bool_)
    first = int(index[0]) if len(index) else 0
    for one in incidents:
        is_open = one.status == "open"
        if is_stop(one) or not (is_open or one.last_window >= first):
            continue
        begun = index > one.opened_window - VOTE_WINDOWS if one.cause.suspects else end_step > one.onset_step
        told |= begun & ((index <= one.last_window) | is_open)
    return told


def _flagged(digest: Digest, accused: Sequence[Incident]) -> Digest:
    ranks = {r for i in accused if i.cause.fault_class != "link.slow" for r in i.cause.suspects}
    paths = {path for i in accused for path in _paths(i.cause)}
    if ranks <= set(digest.flagged) and paths <= set(digest.flagged_paths):
        return digest
    return replace(
        digest,
        flagged=tuple(sorted(ranks | set(digest.flagged))),
        flagged_paths=tuple(sorted(paths | set(digest.flagged_paths))),
    )


def _paths(cause: Cause) -> tuple[str, ...]:
    """Paths that are slow by a cause; one that kernels alone showed knows its group only."""
    if cause.fault_class != "link.slow" or cause.paths:
        return cause.paths
    return (cause.group,) if cause.group else ()


def _lighter(past: tuple[Digest, ...]) -> tuple[Digest, ...]:
    """Kernels of the last windows only, and of those what later windows need; the running mean of the last alone."""
    with_kernels = [n for n, each in enumerate(past) if each.kernels is not None]
    return tuple(
        replace(
            each,
            kernels=_slim(each.kernels, is_last=n == with_kernels[-1]) if n >= len(past) - KEPT else None,
        )
        if each.kernels is not None
        else each
        for n, each in enumerate(past)
    )


def _slim(kernels: KernelDigest, *, is_last: bool) -> KernelDigest:
    slim = kernels.slim()
    return slim if is_last else replace(slim, running=None)


def _forget(past: tuple[Digest, ...]) -> tuple[Digest, ...]:
    """Drop the oldest window, but let no long fault push out the last clean ones."""
    while len(past) > PAST_WINDOWS:
        clean = sum(digest.is_clean for digest in past)
        drop = next(
            (n for n, d in enumerate(past) if clean > KEEP_CLEAN or not d.is_clean),
            0,
        )
        past = (*past[:drop], *past[drop + 1 :])
    return past
