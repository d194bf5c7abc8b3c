"""Whose own work takes longer all along, where nothing tells whether the others wait for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argus.agent.wording import quantity, ranks
from argus.analytics.digest import own_series
from argus.analytics.lone import repeats
from argus.analytics.peers import peer_medians, work_classes
from argus.analytics.series.shared import APART
from argus.analytics.window import Bools, Floats, Window


def longer_work(windows: Sequence[Window]) -> str:
    """The ranks whose own work is longer than their peers' in more steps than chance allows, as a phrase; "" if none.

    Of those that are `APART` times as long in their median step. Of three ranks or more they must be fewer than half.
    """
    named, ratio = _apart(windows)
    found = np.flatnonzero(named)
    if not len(found) or (len(named) > 2 and 2 * len(found) >= len(named)):
        return ""
    longest = int(found[ratio[found].argmax()])
    return (
        f"own work of {ranks(windows[0].ranks[found].tolist())} takes {ratio[longest]:.2f}× the others'"
        f"{_phase(windows, longest)}, but no collective tells who waits"
    )


def _apart(windows: Sequence[Window]) -> tuple[Bools, Floats]:
    """Which ranks are apart, and their median own work over their peers'. Two of (rank,)"""
    own_s = _usable(windows, [own_series(window) for window in windows])
    classes = work_classes(windows[0].topology, windows[0].ranks)
    peers_s = peer_medians(own_s.T, classes).T
    lasting = repeats((own_s - peers_s).T)
    if lasting is None or np.isnan(peers_s).any():
        return np.zeros(len(own_s), np.bool_), np.ones(len(own_s))
    ratio = np.median(own_s, axis=1) / np.maximum(np.median(peers_s, axis=1), np.finfo(float).tiny)
    return np.asarray(lasting & (ratio >= APART)), np.asarray(ratio)


def _usable(windows: Sequence[Window], parts: Sequence[Floats]) -> Floats:
    """Values (…, step) of all windows in the steps that belong in comparisons and were seen of every rank."""
    kept = [part[..., window.usable] for window, part in zip(windows, parts, strict=True)]
    values = np.concatenate(kept, axis=-1)
    return np.asarray(values[..., np.isfinite(values).reshape(-1, values.shape[-1]).all(axis=0)])


def _phase(windows: Sequence[Window], row: int) -> str:
    """The phase in which the rank of `row` loses most to the others' median, in brackets."""
    if any(window.phases != windows[0].phases for window in windows) or not windows[0].phases:
        return ""
    median_s = np.median(_usable(windows, [window.self_s for window in windows]), axis=-1)
    others_s = np.median(np.delete(median_s, row, axis=1), axis=1)
    worst = int((median_s[:, row] - others_s).argmax())
    got, usual = quantity(float(median_s[worst, row]), "s"), quantity(float(others_s[worst]), "s")
    return f" ({windows[0].phases[worst]} {got} against {usual})"
