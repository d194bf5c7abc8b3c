"""What a probe of some hosts says: each one's time over that of its healthy peers, test by test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from argus.collectors.records.outside_event import OutsideEvent

TESTS = ("gemm", "copy", "allreduce")

SOURCE = "argus probe"


@dataclass(frozen=True, kw_only=True)
class Reading:
    """One measurement of a host; `partner` is the host it met in an all-reduce, "" otherwise."""

    host: str
    test: str
    p50_s: float
    partner: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A host's time over its peers' in one test; `ratio` None = nothing to compare with."""

    host: str
    test: str
    p50_s: float
    ratio: float | None
    note: str = ""


def judged(readings: Iterable[Reading], *, peers: Sequence[str]) -> tuple[Verdict, ...]:
    """A verdict per host and test. `peers` are the healthy hosts; without any, all others serve.

    An all-reduce is as slow as the slower of its two ends: what a host shows with its best partner is its own.
    """
    by_test: dict[str, dict[str, list[Reading]]] = {test: {} for test in TESTS}
    for reading in readings:
        if reading.test in by_test and math.isfinite(reading.p50_s) and reading.p50_s > 0:
            by_test[reading.test].setdefault(reading.host, []).append(reading)
    found = []
    for test in TESTS:
        times = {host: _own(mine) for host, mine in by_test[test].items()}
        for host in sorted(times):
            best = times[host]
            found.append(
                Verdict(
                    host=host,
                    test=test,
                    p50_s=best.p50_s,
                    ratio=_ratio(host, times, peers),
                    note=f"with {best.partner}" if best.partner else "",
                )
            )
    return tuple(found)


def _own(mine: Sequence[Reading]) -> Reading:
    return min(mine, key=lambda reading: reading.p50_s)


def _ratio(host: str, times: Mapping[str, Reading], peers: Sequence[str]) -> float | None:
    others = [times[name].p50_s for name in times if name != host and name in peers]
    if not others:
        others = [times[name].p50_s for name in times if name != host]
    return times[host].p50_s / float(np.median(others)) if others else None


def slow_pairs(readings: Iterable[Reading], *, factor: float = 1.5) -> tuple[tuple[str, str, float], ...]:
    """Pairs that are slow although both ends are well with others: the way between them, or nobody's fault.

    `factor` 1.5 is the least split of pair bandwidths that was a fault in the field (incidents.md §2.3).
    """
    pairs: dict[tuple[str, str], list[float]] = {}
    for reading in readings:
        if reading.test == "allreduce" and reading.partner:
            first, second = sorted((reading.host, reading.partner))
            pairs.setdefault((first, second), []).append(reading.p50_s)
    times = {pair: float(np.median(both)) for pair, both in pairs.items()}
    best = {
        host: min(took for pair, took in times.items() if host in pair)
        for host in {host for pair in times for host in pair}
    }
    return tuple(
        (*pair, took / max(best[pair[0]], best[pair[1]]))
        for pair, took in sorted(times.items())
        if took >= factor * max(best[pair[0]], best[pair[1]])
    )


def events_of(verdicts: Iterable[Verdict], *, time_s: float) -> tuple[OutsideEvent, ...]:
    """Verdicts as events for `/v1/events`, which confirm or contradict."""
    return tuple(
        OutsideEvent(
            time_s=time_s,
            node=f"host:{verdict.host}",
            source=SOURCE,
            kind=f"probe_{verdict.test}",
            value=round(verdict.ratio, 4),
            text=f"{verdict.test} took {verdict.p50_s:.4g} s, {verdict.ratio:.2f} times its peers' {verdict.note}",
        )
        for verdict in verdicts
        if verdict.ratio is not None
    )
