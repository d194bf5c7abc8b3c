"""Prometheus remote write 1.0: the service's own metrics, pushed where nothing can scrape it.

Protocol: prometheus.io/docs/specs/prw/remote_write_spec. Labels sorted, samples in order, snappy block format,
retry on 5xx and 429 only.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter

from argus.api.complaints import Complaints
from argus.api.protobuf import bytes_field, double_field, text_field, varint, varint_field
from argus.collectors.host.client import Answer, HttpPost, Post, parse_server

LOG = logging.getLogger("argus.service")

PERIOD_S = 15.0
MAX_SERIES = 2000
"""Series of one request: what receivers advise."""

MAX_WAITING = 500
"""Requests that may wait for the receiver, a million samples; the oldest go first and are counted."""

MAX_PAUSE_S = 30.0
FEW_FAILS = 3
"""Requests in a row without an answer that are nothing to tell of: a receiver was restarted."""

LITERAL = 1 << 16
"""Bytes of one snappy literal with a two-byte length."""

HEADERS = {
    "Content-Encoding": "snappy",
    "Content-Type": "application/x-protobuf",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One series at one moment."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, kw_only=True)
class _Request:
    body: bytes
    num: int


def encode_request(samples: Iterable[Sample], *, ts_ms: int) -> bytes:
    """The body of a write request, compressed."""
    return snappy(b"".join(bytes_field(1, _series(sample, ts_ms)) for sample in samples))


def snappy(raw: bytes) -> bytes:
    r"""`raw` in snappy's block format as literals only: valid, not smaller (format_description.txt).

    >>> snappy(b"abc")
    b'\x03\x08abc'
    """
    parts = [varint(len(raw))]
    for start in range(0, len(raw), LITERAL):
        part = raw[start : start + LITERAL]
        last = len(part) - 1
        parts += [bytes([last << 2]) if last < 60 else bytes([61 << 2]) + last.to_bytes(2, "little"), part]
    return b"".join(parts)


def _series(sample: Sample, ts_ms: int) -> bytes:
    labels = sorted({**sample.labels, "__name__": sample.name}.items())
    # A label without a value is one that is not there, and a request must not hold any.
    held = [text_field(1, name) + text_field(2, value) for name, value in labels if value]
    told = b"".join(bytes_field(1, one) for one in held)
    return told + bytes_field(2, double_field(1, sample.value) + varint_field(2, ts_ms))


def samples_of(registry: CollectorRegistry) -> Iterator[Sample]:
    """Every sample a scrape would get."""
    for family in registry.collect():
        for item in family.samples:
            yield Sample(name=item.name, labels=item.labels, value=float(item.value))


def receiver_at(url: str, *, token: str) -> HttpPost:
    """Who takes the requests; the URL is asked for as it is, with its query. ValueError names what is wrong with it."""
    post, parts = parse_server(url, key=token), urlsplit(url if "://" in url else f"http://{url}")
    if parts.username or parts.password:
        raise ValueError("a name and password in the URL are not sent; a bearer token is remote_write_token")
    query = f"?{parts.query}" if parts.query else ""
    return replace(post, prefix=f"{parts.path or '/'}{query}")


class RemoteWriter:
    """Collects every period and sends; `run` is the thread's body, `step` one round of it."""

    def __init__(
        self,
        post: Post,
        registry: CollectorRegistry,
        *,
        sent: Counter,
        clock: Callable[[], float],
        rng: random.Random,
        period_s: float = PERIOD_S,
        labels: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._labels = labels
        self._post, self._registry, self._sent = post, registry, sent
        self._clock, self._rng, self._period_s = clock, rng, period_s
        self._waiting: deque[_Request] = deque()
        self._num_fails = 0
        self._trouble = ""
        self._complaints = Complaints(LOG)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="argus-remote-write", daemon=True)

    def start(self) -> None:
        """Begin to push."""
        self._thread.start()

    def stop(self) -> None:
        """End after the request at hand."""
        self._stopping.set()

    def step(self) -> float:
        """Collect, send what can be sent; how long to pause."""
        self._collect()
        trouble = ""
        while self._waiting:
            answer = self._post("", self._waiting[0].body, headers=HEADERS)
            if _is_worth_a_retry(answer):
                self._num_fails = min(self._num_fails + 1, 8)
                self._tell(_why(answer) if self._num_fails > FEW_FAILS else self._trouble)
                pause_s = min(MAX_PAUSE_S, self._period_s * 2.0**self._num_fails)
                return float(answer.retry_after_s or pause_s * self._rng.uniform(0.5, 1.0))
            is_taken = 200 <= answer.status < 300
            trouble = trouble if is_taken else _why(answer)
            self._sent.labels(result="sent" if is_taken else "refused").inc(self._waiting.popleft().num)
            self._num_fails = 0
        self._tell(trouble)
        return self._period_s

    def _tell(self, trouble: str) -> None:
        """Say in the log what stands in the way, once: where nothing scrapes, the counters of it are read by nobody."""
        if trouble != self._trouble:
            LOG.warning("metrics by remote write: %s", trouble or "taken again")
        self._trouble = trouble

    def _run(self) -> None:
        pause_s = 0.0
        while not self._stopping.wait(pause_s):
            try:
                pause_s = self.step()
            except Exception as error:  # noqa: BLE001 - a round that fails must not be the last
                pause_s = self._period_s
                self._complaints.about("metrics were not pushed by remote write", error)
            else:
                self._complaints.over()

    def _collect(self) -> None:
        ts_ms, samples = (
            int(self._clock() * 1000),
            [replace(one, labels={**self._labels, **one.labels}) for one in samples_of(self._registry)],
        )
        for start in range(0, len(samples), MAX_SERIES):
            part = samples[start : start + MAX_SERIES]
            self._waiting.append(_Request(body=encode_request(part, ts_ms=ts_ms), num=len(part)))
        while len(self._waiting) > MAX_WAITING:
            self._sent.labels(result="dropped").inc(self._waiting.popleft().num)


def _why(answer: Answer) -> str:
    if not answer.status:
        return f"no answer: {answer.error}"
    return f"the receiver answers {answer.status}: {' '.join(answer.error.split())[:200] or 'without a word'}"


def _is_worth_a_retry(answer: Answer) -> bool:
    return answer.status == 0 or answer.status == 429 or answer.status >= 500
