"""Metrics by OTLP: what a receiver on loopback reads is what a scrape would have got."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from argus.api import otlp
from argus.api.cli.errors import CliError
from argus.api.cli.serve_store import otlp_pusher
from tests.api.kit import FakeClock, layouts_body, service_at
from tests.api.process import wait_for

pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the extra otel is not installed")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData

CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
Point = tuple[str, tuple[tuple[str, str], ...]]


class Receiver:
    """An OTLP/HTTP receiver on loopback that keeps what it is sent."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []
        self.tokens: list[str | None] = []
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                assert self.path == "/v1/metrics" and self.headers["content-type"] == "application/x-protobuf"
                kept.requests.append(ExportMetricsServiceRequest.FromString(body))
                kept.tokens.append(self.headers["x-token"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_args: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/metrics"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def metrics(self) -> Iterator[Metric]:
        for request in self.requests:
            for told in request.resource_metrics:
                for scope in told.scope_metrics:
                    yield from scope.metrics


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


def numbers(metrics: Iterator[Metric]) -> dict[Point, float]:
    """Value of every point as Prometheus would name it."""
    found: dict[Point, float] = {}
    for metric in metrics:
        kind = metric.WhichOneof("data")
        assert kind is not None
        for point in getattr(metric, kind).data_points:
            labels = {one.key: one.value.string_value for one in point.attributes}
            if kind != "histogram":
                found[_point(metric.name, labels)] = point.as_double
                continue
            upto = 0
            for bound, count in zip(
                [*map(float, point.explicit_bounds), float("inf")], point.bucket_counts, strict=True
            ):
                upto += count
                le = "+Inf" if bound == float("inf") else str(bound)
                found[_point(f"{metric.name}_bucket", {**labels, "le": le})] = upto
            found[_point(f"{metric.name}_count", labels)] = point.count
            found[_point(f"{metric.name}_sum", labels)] = point.sum
    return found


def _point(name: str, labels: dict[str, str]) -> Point:
    return name, tuple(sorted(labels.items()))


def scraped(registry: CollectorRegistry) -> dict[Point, float]:
    families = list(registry.collect())
    return {
        _point(one.name, dict(one.labels)): one.value
        for family in families
        for one in family.samples
        if one.name != f"{family.name}_created"
    }


@pytest.mark.slow
def test_a_receiver_gets_what_a_scrape_gets(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-token=secret")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    with service_at(tmp_path / "a.sqlite", clock=FakeClock(), otlp_url=receiver.url) as service:
        service.receive_layouts(layouts_body())
        service.metrics.analysis_s.observe(0.3)
        pusher = otlp_pusher(service, "team")
        assert pusher is not None
        wanted = scraped(service.metrics.registry)
        pusher.step()
        pusher.stop()
        assert numbers(receiver.metrics()) == wanted and len(wanted) > 20
        assert service.metrics.otlp.labels(result="sent")._value.get() > 10
    kinds = {metric.name: metric for metric in receiver.metrics()}
    layouts = kinds["argus_ingest_layouts_total"].sum
    assert layouts.is_monotonic and layouts.aggregation_temporality == CUMULATIVE
    assert layouts.data_points[0].start_time_unix_nano > 0
    assert kinds["argus_analysis_duration_seconds"].histogram.aggregation_temporality == CUMULATIVE
    assert not kinds["argus_analysis_duration_seconds"].histogram.data_points[0].HasField("min")
    resource = {
        one.key: one.value.string_value
        for one in receiver.requests[0].resource_metrics[0].resource.attributes
    }
    assert resource["service.name"] == "argus" and resource["argus.project"] == "team"
    assert resource["deployment.environment"] == "test" and ":" in resource["service.instance.id"]
    assert set(receiver.tokens) == {"secret"}


class Scripted(MetricExporter):
    """Answers as told, keeps what it got."""

    def __init__(self, *fails: int) -> None:
        super().__init__()
        self.fails, self.got, self.is_shut = fails, list[MetricsData](), False

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 0, **_more: object
    ) -> MetricExportResult:
        self.got.append(metrics_data)
        is_failed = len(self.got) - 1 in self.fails
        return MetricExportResult.FAILURE if is_failed else MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 0, **_more: object) -> None:
        self.is_shut = True


def pushed(exporter: Scripted, registry: CollectorRegistry) -> dict[str, float]:
    sent = Counter("x_total", "x", ["result"], registry=CollectorRegistry())
    resource = otlp.resource_of({})
    pusher = otlp.OtlpPusher(exporter, registry, resource=resource, sent=sent, clock=lambda: 7.0)
    pusher.step()
    return {result: sent.labels(result=result)._value.get() for result in ("sent", "dropped")}


def ranks(num: int) -> CollectorRegistry:
    registry = CollectorRegistry()
    for name in ("argus_a", "argus_b"):
        gauge = Gauge(name, "x", ["rank"], registry=registry)
        for rank in range(num):
            gauge.labels(rank=str(rank)).set(rank)
    return registry


def test_no_request_is_larger_than_collectors_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "MAX_POINTS", 10)
    exporter = Scripted()
    assert pushed(exporter, ranks(24)) == {"sent": 48, "dropped": 0}
    sizes = [
        sum(len(metric.data.data_points) for metric in one.resource_metrics[0].scope_metrics[0].metrics)
        for one in exporter.got
    ]
    assert sum(sizes) == 48 and max(sizes) <= 10


def test_one_refused_request_costs_its_points_and_a_dead_receiver_the_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otlp, "MAX_POINTS", 10)
    assert pushed(Scripted(0), ranks(25)) == {"sent": 40, "dropped": 10}
    dead = Scripted(*range(100))
    assert pushed(dead, ranks(25)) == {"sent": 0, "dropped": 50}
    assert len(dead.got) == otlp.MAX_FAILS


def test_buckets_hold_their_own_and_add_up() -> None:
    rng = random.Random(4)
    registry = CollectorRegistry()
    histogram = Histogram("argus_h_seconds", "x", ["route"], registry=registry)
    for route in ("a", "b"):
        for _ in range(50):
            histogram.labels(route=route).observe(rng.expovariate(1.0))
    exporter = Scripted()
    pushed(exporter, registry)
    (metric,) = exporter.got[0].resource_metrics[0].scope_metrics[0].metrics
    for point in metric.data.data_points:
        assert sum(point.bucket_counts) == point.count == 50  # type: ignore[union-attr]
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1  # type: ignore[union-attr]


def test_a_round_that_fails_is_said_and_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(Scripted):
        rounds = 0

        def export(
            self, metrics_data: MetricsData, timeout_millis: float = 0, **more: object
        ) -> MetricExportResult:
            self.rounds += 1
            if self.rounds < 3:
                raise RuntimeError("not a number")
            return super().export(metrics_data, timeout_millis, **more)

    exporter = Failing()
    sent = Counter("x_total", "x", ["result"], registry=CollectorRegistry())
    pusher = otlp.OtlpPusher(
        exporter, ranks(1), resource=otlp.resource_of({}), sent=sent, clock=lambda: 7.0, period_s=0.01
    )
    pusher.start()
    wait_for(lambda: exporter.rounds > 3)
    pusher.stop()
    pusher._thread.join(timeout=30)
    assert [one for one in caplog.messages if "not a number" in one and "over" not in one] == [
        "metrics were not pushed by OTLP: RuntimeError: not a number"
    ]


def test_it_ends_while_it_waits() -> None:
    exporter = Scripted()
    sent = Counter("x_total", "x", ["result"], registry=CollectorRegistry())
    pusher = otlp.OtlpPusher(
        exporter, ranks(1), resource=otlp.resource_of({}), sent=sent, clock=lambda: 7.0, period_s=3600.0
    )
    pusher.start()
    pusher.stop()
    pusher._thread.join(timeout=30)
    assert exporter.is_shut and not pusher._thread.is_alive()


def test_a_receiver_that_is_no_url_is_said_before_the_service_runs(tmp_path: Path) -> None:
    wrong = service_at(tmp_path / "a.sqlite", clock=FakeClock(), otlp_url="collector:4318")
    with wrong as service, pytest.raises(CliError, match="otlp_url"):
        otlp_pusher(service)
    with service_at(tmp_path / "b.sqlite", clock=FakeClock()) as service:
        assert otlp_pusher(service) is None
