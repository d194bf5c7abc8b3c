"""What it would mean that a cause is gone: what its ranks and paths would take then."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from argus.analytics.baseline import align_past, path_history, rank_history
from argus.analytics.call_replay import Remedy
from argus.analytics.incident import Cause
from argus.analytics.peers import work_classes
from argus.analytics.robust import median_of_columns
from argus.analytics.view import Digest, View
from argus.analytics.window import Floats


def remedies_of(causes: Sequence[Cause], view: View, digest: Digest) -> tuple[Remedy, ...]:
    """Each cause's remedy: ranks as fast as their peers. Where all who do the same work are suspected, as fast as
    they used to be, else, of a stage from the first step on, as it was found that it should be."""
    links = [cause for cause in causes if cause.fault_class.startswith("link.")]
    suspects = {rank for cause in causes if cause not in links for rank in cause.suspects}
    parts = _own_parts(suspects, view, digest)
    return tuple(
        Remedy(wire_parts=_wire_parts(cause, view, digest)) if cause in links else _of_ranks(cause, parts)
        for cause in causes
    )


def _of_ranks(cause: Cause, parts: Mapping[int, float]) -> Remedy:
    found = _found_part(cause, "stage_compute_s")
    own = {rank: parts[rank] for rank in cause.suspects if rank in parts}
    if found is not None:
        own = dict.fromkeys(cause.suspects, found) | own
    return Remedy(as_peers=frozenset(cause.suspects) - own.keys(), own_parts=own)


def _found_part(cause: Cause, name: str) -> float | None:
    """What part of its value the evidence was expected to be, None where it says nothing."""
    item = next((item for item in cause.evidence if item.name == name), None)
    if item is None or not item.baseline or not item.value > 0:
        return None
    return min(item.baseline / item.value, 1.0)


def _own_parts(suspects: Collection[int], view: View, digest: Digest) -> dict[int, float]:
    """Part of its own work that a suspect would take, of those who have no peer that is well.

    What the work of all others grew by, as it does with the batch, is no fault.
    """
    past = rank_history(align_past(view.past, digest), len(digest.ranks), lambda old: old.own_s)
    grown = _logs(digest.own_s) - _logs(median_of_columns(past))
    classes, is_sick = work_classes(view.topology, digest.ranks), np.isin(digest.ranks, list(suspects))
    seen = np.isfinite(digest.own_s)
    others = grown[~is_sick & np.isfinite(grown)]
    less = (np.median(others) if others.size else 0.0) - grown
    lonely = ~np.isin(classes, classes[~is_sick & seen]) & is_sick & np.isfinite(less)
    parts = np.exp(np.minimum(less[lonely], 0.0))
    return dict(zip(digest.ranks[lonely].tolist(), parts.tolist(), strict=True))


def _logs(values: Floats) -> Floats:
    """NaN where there is nothing to be a part of."""
    return np.asarray(np.log(np.where(values > 0, values, np.nan)))


def _wire_parts(cause: Cause, view: View, digest: Digest) -> dict[str, float]:
    """What part of the time a call takes on each slow path it used to take, or sibling paths take."""
    usual_s = median_of_columns(path_history(view.past, cause.paths, pick=lambda old: old.transfer_s))
    taken_s = np.where(digest.transfer_s > 0, digest.transfer_s, np.nan)
    now_s = dict(zip(digest.paths, taken_s.tolist(), strict=True))
    found = _found_part(cause, "transfer_s")
    parts = {}
    for path, usual in zip(cause.paths, usual_s.tolist(), strict=True):
        told = (usual / now_s.get(path, np.nan), np.nan if found is None else found)
        if np.isfinite(told).any():
            parts[path] = min(float(np.nanmin(told)), 1.0)
    return parts
