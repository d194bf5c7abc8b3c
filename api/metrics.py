"""What the service tells Prometheus, of itself and of the jobs it watches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from argus.analytics.incident import Incident
from argus.api.kernel_gauges import CALLS, Family
from argus.api.run_gauges import RunNow, run_gauges


class Watched(Protocol):
    """Where the scrape reads the jobs' state from; every answer is a value of its own."""

    def runs_now(self) -> Iterable[RunNow]:
        """The live attempts, one per run."""

    def open_now(self) -> Iterable[Incident]:
        """The open incidents of live attempts."""

    def backlog_now(self) -> tuple[int, float]:
        """Closed windows that wait for their analysis, and how long the oldest has, in seconds."""

    def leads_now(self) -> bool:
        """Whether this replica analyses."""

    def troubles_now(self) -> tuple[str, ...]:
        """Why the analysis is degraded."""


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """The service's own counters; names as in docs/metrics.md."""

    registry: CollectorRegistry
    windows: Counter
    heartbeats: Counter
    layouts: Counter
    observations: Counter
    events: Counter
    requests: Counter
    body_bytes: Counter
    analysed: Counter
    analysis_s: Histogram
    errors: Counter
    incidents: Counter
    pushed: Counter
    otlp: Counter
    channel_changes: Counter
    notices: Counter
    repairs: Counter


METRICS: tuple[tuple[str, str, str, str], ...] = (
    ("argus_ingest_windows_total", "counter", "result", "rank windows by what became of them"),
    ("argus_ingest_heartbeats_total", "counter", "result", "heartbeats by what became of them"),
    ("argus_ingest_layouts_total", "counter", "result", "layout records by what became of them"),
    ("argus_ingest_observations_total", "counter", "result", "stack dumps and host samples by result"),
    ("argus_ingest_events_total", "counter", "result", "out-of-band events by result"),
    ("argus_ingest_requests_total", "counter", "route,code", "ingest requests by answer"),
    ("argus_ingest_body_bytes_total", "counter", "", "bytes of ingest bodies as sent"),
    (
        "argus_windows_analysed_total",
        "counter",
        "result",
        "windows by outcome of their analysis: analysed, failed; `late` and `late_failed` are those that came after their time",
    ),
    ("argus_analysis_duration_seconds", "histogram", "", "time one window's analysis took"),
    ("argus_analysis_errors_total", "counter", "part", "errors the analysis thread survived"),
    ("argus_incident_events_total", "counter", "what", "incidents opened, changed, resolved, reopened"),
    (
        "argus_channel_changes_total",
        "counter",
        "what",
        "times a run's channels stepped down (`down`) or came back (`up`)",
    ),
    (
        "argus_remote_write_samples_total",
        "counter",
        "result",
        "samples pushed by remote write: sent, refused, dropped",
    ),
    ("argus_otlp_points_total", "counter", "result", "points pushed by OTLP: sent, dropped"),
    (
        "argus_notices_total",
        "counter",
        "notifier,result",
        "what notifiers were told, by result: sent, later, refused, digested",
    ),
    ("argus_store_repairs_total", "counter", "", "damaged SQLite files that were set aside and replaced"),
    ("argus_analysis_backlog_windows", "gauge", "", "closed windows that wait for their analysis"),
    ("argus_analysis_lag_seconds", "gauge", "", "how long the oldest of them has waited"),
    ("argus_leader", "gauge", "", "1 while this replica analyses, 0 where another one does"),
    ("argus_degraded", "gauge", "", "1 while `/readyz` tells of a trouble"),
    ("argus_step_duration_seconds", "gauge", "run_id,run,rank", "mean step of the last window"),
    ("argus_phase_duration_seconds", "gauge", "run_id,run,rank,phase,clock", "time per step in a phase"),
    ("argus_phase_wait_seconds", "gauge", "run_id,run,rank,phase", "waiting per step inside a phase"),
    (
        "argus_host_gap_ratio",
        "gauge",
        "run_id,run,rank",
        "share of a step's kernel time in which no kernel ran; ranks with a GPU",
    ),
    (
        "argus_straggler_score",
        "gauge",
        "run_id,run,rank,level",
        "significance of what the last window's detectors found of a rank, by level; no series where nothing was found",
    ),
    (
        "argus_kernel_duration_seconds",
        "gauge",
        "run_id,run,rank,kernel_id,stat",
        "p50 and p99 of a kernel in the last window; only the few kernels that are shown",
    ),
    (
        "argus_kernel_calls_total",
        "counter",
        "run_id,run,rank,kernel_id",
        "launches of a kernel since it is shown",
    ),
    (
        "argus_kernel_info",
        "gauge",
        "kernel_id,name,role",
        "1: which kernel a `kernel_id` is; join with `* on(job,instance,project,kernel_id) group_left(name,role) argus_kernel_info`",
    ),
    (
        "argus_rank_info",
        "gauge",
        "run_id,run,rank,host,gpu_uuid,tp,cp,dp,pp,ep",
        "1: where a rank is; join with `* on(job,instance,project,run_id,rank) group_left(host,pp) argus_rank_info`",
    ),
    ("argus_window_coverage_ratio", "gauge", "run_id,run", "rank-steps of the last window that arrived"),
    ("argus_ranks_lost", "gauge", "run_id,run", "ranks whose process or host is gone"),
    ("argus_hosts_silent", "gauge", "run_id,run", "hosts whose processor was not heard of for `silent_s`"),
    ("argus_run_silence_seconds", "gauge", "run_id,run", "since when nothing came in of a run"),
    ("argus_window_dropped_records", "gauge", "run_id,run", "records the collectors lost in the last window"),
    (
        "argus_overhead_ratio",
        "gauge",
        "run_id,run,channel",
        "step time with a channel to step time without, as the hosts measured it in the run; `all` = everything",
    ),
    (
        "argus_channel_off",
        "gauge",
        "run_id,run,channel",
        "1 while the governor keeps a channel off on all hosts of the run",
    ),
    ("argus_series_hidden", "gauge", "", "series of ranks that the series budget leaves out"),
    ("argus_incident_active", "gauge", "run_id,run,class,severity", "open incidents"),
)
"""(name, type, labels, meaning) of every family on /metrics."""

PARTS = (
    "attempt",
    "diagnosis",
    "heartbeats",
    "history",
    "kernels",
    "late",
    "replay",
    "store",
    "turn",
    "window",
)
"""Where the analysis may fail; each is told from the start, as `increase()` sees nothing of a series that begins at 1."""


def make_metrics(watched: Watched, *, max_series: int) -> Metrics:
    """Fresh counters, and gauges read from `watched` at each scrape; ranks have `max_series` in all."""
    registry = CollectorRegistry()
    registry.register(_Gauges(watched, max_series=max_series))
    own = [name for name, kind, _, _ in METRICS if kind == "counter" and name != CALLS]
    counters = {name: _make(name, registry) for name in own}
    for part in PARTS:
        counters["argus_analysis_errors_total"].labels(part=part)
    return Metrics(
        registry=registry,
        windows=counters["argus_ingest_windows_total"],
        heartbeats=counters["argus_ingest_heartbeats_total"],
        layouts=counters["argus_ingest_layouts_total"],
        observations=counters["argus_ingest_observations_total"],
        events=counters["argus_ingest_events_total"],
        requests=counters["argus_ingest_requests_total"],
        body_bytes=counters["argus_ingest_body_bytes_total"],
        analysed=counters["argus_windows_analysed_total"],
        errors=counters["argus_analysis_errors_total"],
        incidents=counters["argus_incident_events_total"],
        pushed=counters["argus_remote_write_samples_total"],
        otlp=counters["argus_otlp_points_total"],
        channel_changes=counters["argus_channel_changes_total"],
        notices=counters["argus_notices_total"],
        repairs=counters["argus_store_repairs_total"],
        analysis_s=Histogram(
            "argus_analysis_duration_seconds", _meaning("argus_analysis_duration_seconds"), registry=registry
        ),
    )


def render(metrics: Metrics) -> bytes:
    """The text of /metrics."""
    return generate_latest(metrics.registry)


def _make(name: str, registry: CollectorRegistry) -> Counter:
    return Counter(name, _meaning(name), _labels(name), registry=registry)


def _meaning(name: str) -> str:
    found = next(meaning for other, _, _, meaning in METRICS if other == name)
    return found.replace("`", "")


def _labels(name: str) -> list[str]:
    labels = next(labels for other, _, labels, _ in METRICS if other == name)
    return labels.split(",") if labels else []


class _Gauges(Collector):
    """Reads the jobs' state at scrape time, so that the series of a finished run end."""

    def __init__(self, watched: Watched, *, max_series: int) -> None:
        self._watched, self._max_series = watched, max_series

    def collect(self) -> Iterator[Family]:
        count, lag_s = self._watched.backlog_now()
        backlog = _gauge("argus_analysis_backlog_windows")
        backlog.add_metric([], count)
        lag = _gauge("argus_analysis_lag_seconds")
        lag.add_metric([], lag_s)
        leader = _gauge("argus_leader")
        leader.add_metric([], self._watched.leads_now())
        degraded = _gauge("argus_degraded")
        degraded.add_metric([], bool(self._watched.troubles_now()))
        yield from (
            backlog,
            lag,
            leader,
            degraded,
            *run_gauges(self._watched.runs_now(), max_series=self._max_series, make=_family),
            _active(self._watched.open_now()),
        )


def _family(name: str) -> Family:
    if name == CALLS:
        return CounterMetricFamily(name.removesuffix("_total"), _meaning(name), labels=_labels(name))
    return _gauge(name)


def _gauge(name: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, _meaning(name), labels=_labels(name))


MAX_ACTIVE = 1000
"""Series of open incidents."""


def _active(incidents: Iterable[Incident]) -> GaugeMetricFamily:
    family = _gauge("argus_incident_active")
    counts: dict[tuple[str, str, str, str], int] = {}
    for incident in incidents:
        key = (
            f"{incident.run}/{incident.attempt}",
            incident.run,
            incident.cause.fault_class,
            incident.severity,
        )
        counts[key] = counts.get(key, 0) + 1
    for key, count in sorted(counts.items())[:MAX_ACTIVE]:
        family.add_metric(list(key), count)
    return family
