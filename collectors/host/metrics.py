"""The processor's counters as Prometheus metrics on loopback."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from argus.collectors.host.counters import Counters

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


@dataclass(frozen=True, kw_only=True)
class Spec:
    """One metric: `kind` is counter, gauge or summary; `label` is "" if it has none."""

    kind: str
    help: str
    label: str = ""


METRICS = {
    "argus_collector_ranks": Spec(kind="gauge", help="Ranks connected now."),
    "argus_collector_rows_total": Spec(kind="counter", help="Record rows taken from ranks.", label="kind"),
    "argus_collector_windows_total": Spec(kind="counter", help="Rank windows cut."),
    "argus_collector_dropped_events_total": Spec(
        kind="counter", help="Records lost in a rank, or here before they were in a window.", label="reason"
    ),
    "argus_collector_dropped_windows_total": Spec(
        kind="counter", help="Rank windows that were cut, yet never reached the service.", label="reason"
    ),
    "argus_collector_dropped_observations_total": Spec(
        kind="counter", help="Stack dumps and host samples that never reached the service.", label="reason"
    ),
    "argus_collector_rejected_total": Spec(
        kind="counter", help="Connections and uploads refused.", label="reason"
    ),
    "argus_collector_upload_seconds": Spec(kind="summary", help="Time of a request to the service."),
    "argus_collector_upload_failures_total": Spec(
        kind="counter", help="Requests to the service that will be tried again.", label="reason"
    ),
    "argus_collector_uploaded_windows_total": Spec(
        kind="counter", help="Rank windows the service acknowledged."
    ),
    "argus_collector_uploaded_observations_total": Spec(
        kind="counter", help="Stack dumps and host samples the service acknowledged."
    ),
    "argus_collector_heartbeats_total": Spec(kind="counter", help="Heartbeats the service acknowledged."),
    "argus_collector_spool_bytes": Spec(kind="gauge", help="Bytes waiting in the spool."),
    "argus_collector_recorded_bytes_total": Spec(kind="counter", help="Bytes written to the recording."),
    "argus_collector_stack_dumps_total": Spec(
        kind="counter", help="Stack dumps, by what came of them.", label="result"
    ),
    "argus_collector_stack_skipped_total": Spec(
        kind="counter", help="Stack dumps that were due but over the host's budget."
    ),
    "argus_collector_host_samples_total": Spec(
        kind="counter", help="Host samples, by what came of them.", label="result"
    ),
    "argus_collector_host_pressure_ratio": Spec(
        kind="gauge",
        help="Share of the last sample in which tasks of the host stood still.",
        label="resource",
    ),
    "argus_collector_ranks_kernel_ratio": Spec(
        kind="gauge",
        help="Of all ranks' threads per second: CPU and run-queue seconds, throttled seconds, major faults.",
        label="what",
    ),
    "argus_collector_kernel_events_total": Spec(
        kind="counter", help="Lines of the kernel log about hardware.", label="kind"
    ),
    "argus_collector_kernel_compression_ratio": Spec(
        kind="gauge",
        help="Bytes of a rank's kernel events over bytes of their summary, last window.",
        label="rank",
    ),
    "argus_collector_ring_bytes": Spec(kind="gauge", help="Bytes of raw records kept on this host."),
    "argus_collector_ring_bytes_per_rank_step": Spec(
        kind="gauge", help="Raw bytes a step of one rank took so far, on average."
    ),
    "argus_collector_orders_total": Spec(
        kind="counter", help="Orders of the service that were followed.", label="kind"
    ),
    "argus_collector_overhead_ratio": Spec(
        kind="gauge", help="Step time with a channel to step time without, in the run.", label="channel"
    ),
    "argus_collector_overhead_low_ratio": Spec(
        kind="gauge", help="Lower end of the 95 % interval of that ratio.", label="channel"
    ),
    "argus_collector_overhead_high_ratio": Spec(
        kind="gauge", help="Upper end of the 95 % interval of that ratio.", label="channel"
    ),
    "argus_collector_overhead_pairs": Spec(
        kind="gauge", help="Shadow steps behind that ratio.", label="channel"
    ),
    "argus_collector_channel_off": Spec(
        kind="gauge", help="1 while the governor keeps a channel off.", label="channel"
    ),
    "argus_collector_channel_changes_total": Spec(
        kind="counter", help="Times the governor took a channel off or brought one back.", label="what"
    ),
    "argus_collector_cpu_seconds_total": Spec(kind="counter", help="CPU time this processor used."),
}
"""Every metric of the processor besides `argus_build_info{version}`."""


class _Families:
    """Counters in the shape prometheus_client collects."""

    def __init__(self, counters: Counters, *, version: str, cpu_s: Callable[[], float]) -> None:
        self._counters = counters
        self._version = version
        self._cpu_s = cpu_s

    def collect(self) -> Iterator[Metric]:
        """One family per metric, also those never touched."""
        from prometheus_client.metrics_core import InfoMetricFamily

        yield InfoMetricFamily("argus_build", "Version of Argus.", value={"version": self._version})
        values = {**self._counters.snapshot(), ("argus_collector_cpu_seconds_total", ""): self._cpu_s()}
        for name, spec in METRICS.items():
            yield _family(name, spec, {k: v for k, v in values.items() if k[0].startswith(name)})


def _family(name: str, spec: Spec, values: dict[tuple[str, str], float]) -> Metric:
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily

    if spec.kind == "summary":
        count, total = (int(values.get((f"{name}_count", ""), 0)), values.get((f"{name}_sum", ""), 0.0))
        return SummaryMetricFamily(name, spec.help, count_value=count, sum_value=total)
    labels = {label: value for (full, label), value in values.items() if full == name}
    kind = CounterMetricFamily if spec.kind == "counter" else GaugeMetricFamily
    family = kind(name, spec.help, labels=[spec.label] if spec.label else [])
    if not spec.label:
        family.add_metric([], labels.get("", 0.0))
    for label, value in sorted(labels.items()) if spec.label else ():
        family.add_metric([label], value)
    return family


@dataclass(frozen=True, kw_only=True)
class MetricsServer:
    """A running `/metrics`; `close` stops it."""

    port: int
    close: Callable[[], None]


def serve_metrics(
    counters: Counters, *, port: int, version: str, cpu_s: Callable[[], float]
) -> MetricsServer:
    """Serve on 127.0.0.1:`port`, 0 = any free one. OSError if the port is taken."""
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry()
    registry.register(_Families(counters, version=version, cpu_s=cpu_s))
    server, thread = start_http_server(port, addr="127.0.0.1", registry=registry)

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return MetricsServer(port=server.server_port, close=close)
