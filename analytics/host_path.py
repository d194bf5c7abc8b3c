"""Test 5, the host path: stacks and runtime events say what the host did while wall time grew.

Asked where a rank lost wall time and its device did not: in the loader, or in phases timed by the wall clock; of the
runtime's own statements elsewhere too.
The runtime's own statements (compilations, retried allocations) come first, then what the suspect's stacks
show more often than its peers', then CPU time (incidents.md §2.2 step 5, Part 2 rows F–I, N, O, V).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from argus.analytics.classify import DECISIVE, EXPLAINED, Classification, shares_of
from argus.analytics.digest import own_series
from argus.analytics.finding import Evidence
from argus.analytics.host_frames import Doing, doing
from argus.analytics.host_use import waited_for_cpu
from argus.analytics.incident import Cause, RuledOut
from argus.analytics.robust import at
from argus.analytics.runtime_events import RuntimeEvents
from argus.analytics.symptom import RankSymptom
from argus.analytics.view import View
from argus.analytics.window import Floats, Window
from argus.topology.layout import Topology

CLASS_OF: Mapping[str, str] = {
    "gc": "host.gc",
    "jit": "host.jit",
    "allocator": "host.allocator",
    "loader": "data.slow_loader",
    "filesystem": "host.filesystem",
    "lock": "host.lock",
    "numa": "host.numa",
    "cpu": "host.cpu_starved",
}
"""Class that a kind of host work points to. That a dump shows a thread runnable names none: so is one that computes."""

MIN_DUMPS = 2
"""One dump is an anecdote: what two of them show is at least no accident of the moment."""

SURE_DUMPS = 4
"""From so many dumps on, a majority of them makes the class clear."""

SEEN = frozenset({"compile_s", "alloc_retries", "stack_share", "half_excess_s"})
"""Evidence that is more than timing."""

HALF_FLAT, HALF_SLOW = 0.25, 0.5
"""NUMA: one half of a host's ranks shows at least half of the suspect's excess, the other at most a quarter."""

MIN_HALF = 2
"""Ranks of half a host below which a half is a rank."""

SLOW_STEP = 1.5
"""A step is slow for the search of a period at this many times the median own time."""

MIN_REPEATS = 3


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Kinds of host work with the share of the lost time or of the dumps they account for."""

    shares: Mapping[str, float]
    is_clear: bool
    evidence: tuple[Evidence, ...]


def host_path(view: View, symptoms: Sequence[RankSymptom], decided: Classification) -> Classification:
    """The class with what stacks and runtime events say: a better one, firmer, or as it was."""
    if not _is_explained(symptoms, decided):
        return decided
    on_host = _is_on_host(symptoms)
    # What runtime and kernel state themselves is true whichever clock timed the phase: a device that waits counts on.
    for look in (_by_events, _by_stacks, _by_half) if on_host else (_by_events, _by_run_queue):
        seen = look(view, symptoms)
        kind = max(seen.shares, key=lambda name: (seen.shares[name], name), default="")
        if kind and seen.shares[kind] >= DECISIVE:
            return _decided(decided, CLASS_OF[kind], seen, view, symptoms)
    if not on_host:
        return decided
    return replace(decided, evidence=(*decided.evidence, *_period(view, symptoms[-1].rank)))


def is_better_seen(known: Cause, cause: Cause) -> bool:
    """Whether a cause rests on what the host was seen doing, where the known one of another class did not."""
    seen = {item.name for item in cause.evidence} & SEEN
    return bool(seen - {item.name for item in known.evidence}) and cause.fault_class != known.fault_class


def _is_explained(symptoms: Sequence[RankSymptom], decided: Classification) -> bool:
    """Whether own work shows the lateness, and no collection has explained it."""
    shares = shares_of(symptoms)
    late = sum(s.late_s - s.late_usual_s for s in symptoms) / max(len(symptoms), 1)
    explains = not symptoms[-1].sees_waits or shares.excess_s >= EXPLAINED * max(late, 0.0)
    return shares.excess_s > 0 and explains and decided.fault_class != "host.gc"


def _is_on_host(symptoms: Sequence[RankSymptom]) -> bool:
    """Whether most of the lost time was lost where the device's clock does not run."""
    shares = shares_of(symptoms)
    return max(shares.wall, shares.data) >= DECISIVE


def _decided(
    before: Classification, named: str, seen: Seen, view: View, symptoms: Sequence[RankSymptom]
) -> Classification:
    """The class that was seen; the one timing alone would have named becomes the second best."""
    evidence = (*before.evidence, *seen.evidence, *_period(view, symptoms[-1].rank))
    if named == before.fault_class:
        return replace(before, is_clear=before.is_clear or seen.is_clear, evidence=evidence)
    timing = before.fault_class
    others = tuple(item for item in before.ruled_out if item.fault_class != named)
    if timing != "unknown" and seen.is_clear:
        why = "timing alone would allow it, but what the host did in the lost time was seen"
        others = (*others, RuledOut(fault_class=timing, why=why, evidence=seen.evidence[:1]))
    return Classification(
        fault_class=named,
        is_clear=seen.is_clear,
        second_best=before.second_best if timing in ("unknown", named) else timing,
        ruled_out=others,
        phase=before.phase or _phase(symptoms),
        evidence=evidence,
    )


def _phase(symptoms: Sequence[RankSymptom]) -> str | None:
    parts = [part for part in symptoms[-1].phases if part.excess_s > 0]
    return parts[0].phase if parts else None


def _by_events(view: View, symptoms: Sequence[RankSymptom]) -> Seen:
    """What the runtime itself says: time in compilations, and allocations that had to be retried."""
    window, rank = view.window, symptoms[-1].rank
    if window is None:
        return Seen(shares={}, is_clear=False, evidence=())
    num = max(int(window.usable.sum()), 1)
    compiled, retried = window.events.of_kind("compile"), window.events.of_kind("alloc_retry")
    took_s = np.where(np.isfinite(compiled.dur_s), compiled.dur_s, 0.0)
    compile_s = _by_rank(window, compiled, took_s)
    retries = _by_rank(window, retried, np.maximum(retried.value, 1.0))
    row = at(window.ranks, rank)
    excess_s = max(symptoms[-1].excess_s, 1e-9)
    others = np.delete(compile_s, row)
    usual = float(np.median(others)) if others.size else 0.0
    shares = {"jit": min((compile_s[row] - usual) / num / excess_s, 1.0)}
    evidence = [Evidence(name="compile_s", value=compile_s[row] / num, unit="s", baseline=usual / num)]
    if retries[row] > 0:
        usual_retries = float(np.median(np.delete(retries, row))) if others.size else 0.0
        told = Evidence(name="alloc_retries", value=float(retries[row]), baseline=usual_retries)
        # A retry frees everything and waits for the device: it explains a slow step, but has no length itself.
        if retries[row] > usual_retries and shares["jit"] < DECISIVE:
            return Seen(shares={"allocator": DECISIVE}, is_clear=False, evidence=(told,))
    return Seen(shares=shares, is_clear=True, evidence=tuple(evidence))


def _by_rank(window: Window, events: RuntimeEvents, values: Floats) -> Floats:
    """Sum of the `values` (event,) of each rank's events in usable steps. (rank,)"""
    here = np.isin(events.step, window.steps[window.usable])
    total = np.zeros(len(window.ranks))
    np.add.at(total, np.searchsorted(window.ranks, events.rank[here]), values[here])
    return total


def _by_run_queue(view: View, symptoms: Sequence[RankSymptom]) -> Seen:
    """How long the rank's thread was ready and got no CPU, as its host's kernel counted: a launch that comes late keeps
    the device's clock running, and no CPU time of a phase tells that from slow kernels."""
    window, last = view.window, symptoms[-1]
    found = None if window is None else waited_for_cpu(window, (last.rank,))
    if found is None or last.excess_s <= 0:
        return Seen(shares={}, is_clear=False, evidence=())
    waited_s = (found.value - (found.baseline or 0.0)) * last.step_s
    return Seen(shares={"cpu": min(waited_s / last.excess_s, 1.0)}, is_clear=True, evidence=(found,))


def _by_stacks(view: View, symptoms: Sequence[RankSymptom]) -> Seen:
    """What the suspect's dumps show more often than its peers'."""
    rank, since = symptoms[-1].rank, symptoms[0].first_step
    dumps = [dump for dump in view.outside.stacks if not dump.error and dump.step >= since]
    mine = doing(dump for dump in dumps if dump.rank == rank)
    theirs = doing(dump for dump in dumps if dump.rank != rank)
    if mine.num < MIN_DUMPS:
        return Seen(shares={}, is_clear=False, evidence=())
    shares = {kind: mine.share(kind) - theirs.share(kind) for kind in CLASS_OF if mine.share(kind) > 0}
    kind = max(shares, key=lambda name: (shares[name], name), default="")
    return Seen(
        shares=shares,
        is_clear=mine.num >= SURE_DUMPS,
        evidence=(_stack_evidence(kind, mine, theirs),) if kind else (),
    )


def _stack_evidence(kind: str, mine: Doing, theirs: Doing) -> Evidence:
    return Evidence(
        name="stack_share",
        value=mine.share(kind),
        unit="ratio",
        baseline=theirs.share(kind) if theirs.num else None,
        note=f"{kind}, {mine.num} dumps, innermost {mine.frame(kind) or 'unknown'}",
    )


def _by_half(view: View, symptoms: Sequence[RankSymptom]) -> Seen:
    """Whether the lost time is that of one half of the host's ranks: memory or cores of the other socket."""
    digest, rank = view.digest, symptoms[-1].rank
    none = Seen(shares={}, is_clear=False, evidence=())
    halves = halves_of(view.topology, rank)
    if digest is None or halves is None:
        return none
    near, far = halves
    excess = digest.own_s - digest.own_peers_s
    rows = [[at(digest.ranks, r) for r in part] for part in (near, far)]
    if min(row for part in rows for row in part) < 0:
        return none
    mine, other = excess[rows[0]], excess[rows[1]]
    scale = symptoms[-1].excess_s
    if scale <= 0 or not (np.isfinite(mine).all() and np.isfinite(other).all()):
        return none
    if mine.min() < HALF_SLOW * scale or np.abs(other).max() > HALF_FLAT * scale:
        return none
    told = Evidence(
        name="half_excess_s",
        value=float(np.median(mine)),
        unit="s",
        baseline=float(np.median(other)),
        note=f"ranks {near[0]} to {near[-1]} of {view.topology.host_of(rank)}",
    )
    return Seen(shares={"numa": 1.0}, is_clear=False, evidence=(told,))


def halves_of(topology: Topology, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The half of its host's ranks a rank is of, and the other; None where a host is not told or has no halves."""
    host = topology.host_of(rank)
    local = sorted(topology.ranks_of_host(host), key=lambda r: topology.local_ranks.get(r, 0)) if host else []
    half = len(local) // 2
    if half < MIN_HALF or len(local) % 2:
        return None
    first, second = tuple(local[:half]), tuple(local[half:])
    return (first, second) if rank in first else (second, first)


def _period(view: View, rank: int) -> tuple[Evidence, ...]:
    """Every how many steps the rank's own time is high, where that repeats in the window."""
    window = view.window
    row = at(window.ranks, rank) if window is not None else -1
    if window is None or row < 0:
        return ()
    own = own_series(window)[row]
    seen = np.isfinite(own)
    if not seen.any():
        return ()
    slow = np.flatnonzero(seen & (np.where(seen, own, 0.0) >= SLOW_STEP * np.median(own[seen])))
    gaps = np.diff(slow)
    if len(slow) < MIN_REPEATS or len(set(gaps.tolist())) != 1 or gaps[0] < 2:
        return ()
    return (Evidence(name="period_steps", value=float(gaps[0]), unit="steps"),)
