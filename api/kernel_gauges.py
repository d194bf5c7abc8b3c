"""Series of the few kernels a run shows, as far as the budget of series goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from argus.analytics.kernels.tops import KernelTop

DURATION, CALLS, INFO = "argus_kernel_duration_seconds", "argus_kernel_calls_total", "argus_kernel_info"
Family = GaugeMetricFamily | CounterMetricFamily
STATS = ("p50", "p99")
PER_RANK = len(STATS) + 1
"""Series of one kernel on one rank: its durations and its calls."""


def kernel_id(top: KernelTop) -> str:
    """The content hash that joins the series with `argus_kernel_info`."""
    return f"{top.ident:016x}"


def that_fit(tops: Sequence[KernelTop], *, left: int) -> tuple[KernelTop, ...]:
    """The first kernels whose series fit into `left`, each with its line of `argus_kernel_info`."""
    shown = []
    for top in tops:
        left -= num_series([top])
        if left < 0:
            break
        shown.append(top)
    return tuple(shown)


def num_series(tops: Sequence[KernelTop]) -> int:
    """Series the kernels take."""
    return sum(PER_RANK * len(top.ranks) + 1 for top in tops)


def show(tops: Sequence[KernelTop], labels: Sequence[str], *, families: Mapping[str, Family]) -> None:
    """Add the kernels' samples; `labels` are the run's."""
    for top in tops:
        ident = kernel_id(top)
        for i, rank in enumerate(top.ranks.tolist()):
            where = [*labels, str(rank), ident]
            for stat, values in zip(STATS, (top.p50_s, top.p99_s), strict=True):
                families[DURATION].add_metric([*where, stat], float(values[i]))
            families[CALLS].add_metric(where, float(top.calls[i]))


def name(runs: Sequence[Sequence[KernelTop]], family: Family) -> None:
    """One line a kernel, whatever the number of runs that show it."""
    texts = {kernel_id(top): (top.name, top.role) for tops in runs for top in tops}
    for ident, (text, role) in sorted(texts.items()):
        family.add_metric([ident, text, role], 1)
