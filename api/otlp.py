"""Metrics by OTLP/HTTP: what a scrape of /metrics would get, pushed to an OpenTelemetry collector.

Read from the same registry at the moment of sending, so that names, labels and the series budget are those of
/metrics and the series of a finished run end with it; instruments of the SDK would keep every series that ever was.
Mapping: opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExporter,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry, Counter
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

from argus.api.complaints import Complaints

LOG = logging.getLogger("argus.service")

PERIOD_S = 60.0
"""OpenTelemetry's own default; 150,000 series of 10,000 ranks take two to three seconds of one core."""

MAX_POINTS = 5000
"""Points of one request, half a megabyte: collectors refuse 20, and no more of them are held in memory."""

MAX_FAILS = 3
"""Requests of a round that may fail before the rest is not tried: one may be refused, a receiver may be gone."""

SCOPE = InstrumentationScope("argus")
CUMULATIVE = AggregationTemporality.CUMULATIVE

Labels = tuple[tuple[str, str], ...]


def resource_of(attributes: Mapping[str, str]) -> Resource:
    """Who sends; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word."""
    return Resource(dict(attributes)).merge(OTELResourceDetector().detect())


def metrics_of(family: Family, *, now_ns: int) -> Iterator[Metric]:
    """A family of the registry as metrics of at most MAX_POINTS points."""
    created = f"{family.name}_created"
    starts = {_key(one): int(one.value * 1e9) for one in family.samples if one.name == created}
    told: dict[str, list[Sample]] = {}
    for one in family.samples:
        if one.name != created:
            told.setdefault(one.name, []).append(one)
    if family.type == "histogram":
        series = list(_histograms(family.name, told, starts=starts, now_ns=now_ns))
        if series:
            yield _metric(family, family.name, Histogram(series, CUMULATIVE))
        return
    is_sum = family.type == "counter"
    for name, samples in told.items():
        for first in range(0, len(samples), MAX_POINTS):
            part = samples[first : first + MAX_POINTS]
            points = [_point(one, starts=starts, now_ns=now_ns) for one in part]
            yield _metric(family, name, Sum(points, CUMULATIVE, True) if is_sum else Gauge(points))


def _metric(family: Family, name: str, points: Sum | Gauge | Histogram) -> Metric:
    return Metric(name=name, description=family.documentation, unit="", data=points)


def _point(sample: Sample, *, starts: Mapping[Labels, int], now_ns: int) -> NumberDataPoint:
    start_ns = starts.get(_key(sample), 0) if starts else 0
    return NumberDataPoint(dict(sample.labels), start_ns, now_ns, float(sample.value))


def _key(sample: Sample) -> Labels:
    return tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))


def _histograms(
    name: str, told: Mapping[str, Sequence[Sample]], *, starts: Mapping[Labels, int], now_ns: int
) -> Iterator[HistogramDataPoint]:
    """One point per series; Prometheus counts a bucket's and all smaller values, OTLP the bucket's own."""
    sums = {_key(one): one.value for one in told.get(f"{name}_sum", ())}
    series: dict[Labels, list[tuple[float, int]]] = {}
    for one in told.get(f"{name}_bucket", ()):
        series.setdefault(_key(one), []).append((float(one.labels["le"]), int(one.value)))
    for key, pairs in series.items():
        pairs.sort()
        upto = [0, *(count for _, count in pairs)]
        yield HistogramDataPoint(
            attributes=dict(key),
            start_time_unix_nano=starts.get(key, 0),
            time_unix_nano=now_ns,
            count=upto[-1],
            sum=sums.get(key, 0.0),
            bucket_counts=[more - less for less, more in pairwise(upto)],
            explicit_bounds=[bound for bound, _ in pairs[:-1]],  # the last is +Inf, which OTLP leaves out
            min=None,  # type: ignore[arg-type]  # neither is known; the encoder leaves them out then
            max=None,  # type: ignore[arg-type]
        )


def requests_of(
    families: Iterable[Family], *, resource: Resource, now_ns: int
) -> Iterator[tuple[MetricsData, int]]:
    """What is sent, a request at a time, with the number of its points."""
    held: list[Metric] = []
    num = 0
    for metric in (one for family in families for one in metrics_of(family, now_ns=now_ns)):
        if held and num + len(metric.data.data_points) > MAX_POINTS:
            yield _request(held, resource), num
            held, num = [], 0
        held.append(metric)
        num += len(metric.data.data_points)
    if held:
        yield _request(held, resource), num


def _request(metrics: Sequence[Metric], resource: Resource) -> MetricsData:
    scope = ScopeMetrics(scope=SCOPE, metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])


class OtlpPusher:
    """Collects every period and sends; `step` is one round of it."""

    def __init__(
        self,
        exporter: MetricExporter,
        registry: CollectorRegistry,
        *,
        resource: Resource,
        sent: Counter,
        clock: Callable[[], float],
        period_s: float = PERIOD_S,
    ) -> None:
        self._exporter, self._registry, self._resource = exporter, registry, resource
        self._sent, self._clock, self._period_s = sent, clock, period_s
        self._complaints = Complaints(LOG)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="argus-otlp", daemon=True)

    def start(self) -> None:
        """Begin to push."""
        self._thread.start()

    def stop(self) -> None:
        """End; what waits to be sent again is given up."""
        self._stopping.set()
        self._exporter.shutdown()

    def step(self) -> None:
        """Send everything once; the exporter tries each request for some seconds.

        What is not taken is not kept: sums are cumulative, the next round makes up for it.
        """
        num_fails = 0
        now_ns = int(self._clock() * 1e9)
        for request, num in requests_of(self._registry.collect(), resource=self._resource, now_ns=now_ns):
            if self._stopping.is_set():
                return
            is_taken = num_fails < MAX_FAILS and self._exporter.export(request) is MetricExportResult.SUCCESS
            num_fails += not is_taken
            self._sent.labels(result="sent" if is_taken else "dropped").inc(num)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.step()
            except Exception as error:  # noqa: BLE001 - a round that fails must not be the last
                self._complaints.about("metrics were not pushed by OTLP", error)
            else:
                self._complaints.over()
            self._stopping.wait(self._period_s)
