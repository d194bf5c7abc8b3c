"""Gauges about the ranks of live runs, as far as the budget of series goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from statistics import fmean

import numpy as np

from argus.analytics.finding import Finding
from argus.analytics.kernels.tops import KernelTop
from argus.analytics.numbers import WindowNumbers
from argus.analytics.window import Window
from argus.api import kernel_gauges
from argus.api.kernel_gauges import Family
from argus.collectors.records.channels import CHANNELS
from argus.collectors.records.launch_series import HOST_GAP
from argus.topology.layout import Topology

DIMS = ("tp", "cp", "dp", "pp", "ep")
"""Coordinates that `argus_rank_info` carries; "" where the layout has no such dimension."""

MAX_RUNS = 1000
"""Live attempts that have series at all; an ingest key makes as many as it likes."""

MAX_CHANNELS = 16
"""Channels of one run that have a cost; a host names them."""

NAMES = (
    "argus_rank_info",
    "argus_step_duration_seconds",
    "argus_phase_duration_seconds",
    "argus_phase_wait_seconds",
    "argus_host_gap_ratio",
    "argus_straggler_score",
    "argus_window_coverage_ratio",
    "argus_ranks_lost",
    "argus_hosts_silent",
    "argus_run_silence_seconds",
    "argus_window_dropped_records",
    "argus_overhead_ratio",
    "argus_channel_off",
    kernel_gauges.DURATION,
    kernel_gauges.CALLS,
    kernel_gauges.INFO,
    "argus_series_hidden",
)

Make = Callable[[str], Family]


@dataclass(frozen=True, kw_only=True)
class RunNow:
    """The last analysed window of a live attempt.

    `scores` maps (rank, level) to the significance of what was found of the rank, `host_gaps` a rank to the
    share of its kernels' time in which none ran, `kernels` are the few that are shown one by one. `overhead` is
    step time with a channel to without, `dropped` counts the records the collectors lost, `silence_s` is since
    when nothing came in of it.
    """

    run: str
    numbers: WindowNumbers | None
    coverage_ratio: float | None
    ranks_lost: int
    attempt: int = 0
    topology: Topology | None = None
    channels_off: tuple[str, ...] = ()
    scores: Mapping[tuple[int, str], float] = field(default_factory=dict)
    host_gaps: Mapping[int, float] = field(default_factory=dict)
    overhead: Mapping[str, float] = field(default_factory=dict)
    dropped: int = 0
    hosts_silent: int = 0
    silence_s: float = 0.0
    kernels: tuple[KernelTop, ...] = ()

    @property
    def labels(self) -> list[str]:
        """`run_id`, one for each attempt so that a restart begins new series, and `run`."""
        return [f"{self.run}/{self.attempt}", self.run]


def run_gauges(runs: Iterable[RunNow], *, max_series: int, make: Make) -> Iterator[Family]:
    """A run that does not fit keeps who its ranks are and their step times; if those do not fit, nothing.

    Kernels come last: as many as fit into what the phases of their run leave.
    """
    families = {name: make(name) for name in NAMES}
    left, num_hidden, shown = max_series, 0, list[tuple[KernelTop, ...]]()
    for item in islice(runs, MAX_RUNS):
        _of_the_run(item, families)
        base, details = _num_series(item)
        has_base, has_details = base <= left, base + details <= left
        if has_base:
            _info(item, families["argus_rank_info"])
            _steps(item, families["argus_step_duration_seconds"])
        if has_details:
            _details(item, families)
        taken = base * has_base + details * has_details
        fitting = kernel_gauges.that_fit(item.kernels, left=(left - taken) * has_details)
        kernel_gauges.show(fitting, item.labels, families=families)
        shown.append(fitting)
        taken += kernel_gauges.num_series(fitting)
        wanted = base + details + kernel_gauges.num_series(item.kernels)
        left, num_hidden = left - taken, num_hidden + wanted - taken
    kernel_gauges.name(shown, families[kernel_gauges.INFO])
    families["argus_series_hidden"].add_metric([], num_hidden)
    yield from families.values()


def _num_series(item: RunNow) -> tuple[int, int]:
    """Series of a run's ranks: those it keeps longest, and the others."""
    ranks = 0 if item.numbers is None else len(item.numbers.ranks)
    phases = 0 if item.numbers is None else len(item.numbers.phases)
    infos = 0 if item.topology is None else item.topology.world_size
    return ranks + infos, 2 * ranks * phases + len(item.host_gaps) + len(item.scores)


def _of_the_run(item: RunNow, families: Mapping[str, Family]) -> None:
    families["argus_ranks_lost"].add_metric(item.labels, item.ranks_lost)
    families["argus_hosts_silent"].add_metric(item.labels, item.hosts_silent)
    families["argus_run_silence_seconds"].add_metric(item.labels, item.silence_s)
    families["argus_window_dropped_records"].add_metric(item.labels, item.dropped)
    for channel, ratio in sorted(item.overhead.items())[:MAX_CHANNELS]:
        families["argus_overhead_ratio"].add_metric([*item.labels, channel], ratio)
    if item.coverage_ratio is not None:
        families["argus_window_coverage_ratio"].add_metric(item.labels, item.coverage_ratio)
    for channel in CHANNELS:
        families["argus_channel_off"].add_metric([*item.labels, channel], channel in item.channels_off)


def _info(item: RunNow, family: Family) -> None:
    topology = item.topology
    for rank in topology.ranks if topology is not None else ():
        assert topology is not None
        at = topology.coordinates_of(rank)
        place = [topology.host_of(rank), topology.devices.get(rank, "")]
        family.add_metric([*item.labels, str(rank), *place, *(str(at.get(dim, "")) for dim in DIMS)], 1)


def _steps(item: RunNow, family: Family) -> None:
    numbers = item.numbers
    if numbers is None:
        return
    for column, rank in enumerate(numbers.ranks):
        if not np.isnan(numbers.step_s[column]):
            family.add_metric([*item.labels, str(rank)], float(numbers.step_s[column]))


def _details(item: RunNow, families: Mapping[str, Family]) -> None:
    for rank, ratio in sorted(item.host_gaps.items()):
        families["argus_host_gap_ratio"].add_metric([*item.labels, str(rank)], ratio)
    for (rank, level), score in sorted(item.scores.items()):
        families["argus_straggler_score"].add_metric([*item.labels, str(rank), level], score)
    numbers = item.numbers
    if numbers is None:
        return
    phase, wait = families["argus_phase_duration_seconds"], families["argus_phase_wait_seconds"]
    for column, rank in enumerate(numbers.ranks):
        if np.isnan(numbers.step_s[column]):
            continue
        for row, name in enumerate(numbers.phases):
            where = [*item.labels, str(rank), name]
            phase.add_metric([*where, numbers.clocks[row]], float(numbers.phase_s[row, column]))
            wait.add_metric(where, float(numbers.wait_s[row, column]))


def scores_of(findings: Iterable[Finding]) -> dict[tuple[int, str], float]:
    """The most significant finding of each rank and level; what has no significance tells no score."""
    scores: dict[tuple[int, str], float] = {}
    for finding in findings:
        for rank in finding.ranks if finding.significance is not None else ():
            assert finding.significance is not None
            key = (rank, finding.level)
            scores[key] = max(scores.get(key, 0.0), finding.significance)
    return scores


def host_gaps_of(window: Window) -> dict[int, float]:
    """The mean gap of each rank over the window's steps; none from ranks without kernels."""
    gaps: dict[int, list[float]] = {}
    for event in window.events.of_kind(HOST_GAP):
        gaps.setdefault(event.rank, []).append(event.value)
    return {rank: fmean(values) for rank, values in gaps.items()}
