"""Remote write: the body as a receiver reads it, retries only where they help, bounded waiting."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge

from argus.api.cli.errors import CliError
from argus.api.cli.serve_store import remote_writer
from argus.api.remote_write import (
    MAX_SERIES,
    MAX_WAITING,
    RemoteWriter,
    Sample,
    encode_request,
    receiver_at,
    snappy,
)
from argus.collectors.host.client import Answer
from tests.api.kit import FakeClock, service_at
from tests.api.process import wait_for


def unsnappy(raw: bytes) -> bytes:
    """Snappy's block format, as far as literals go."""
    size, at = read_varint(raw, 0)
    out = b""
    while at < len(raw):
        tag, at = raw[at], at + 1
        assert tag & 3 == 0
        length = tag >> 2
        if length >= 60:
            width = length - 59
            length, at = int.from_bytes(raw[at : at + width], "little"), at + width
        out, at = out + raw[at : at + length + 1], at + length + 1
    assert len(out) == size
    return out


def read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value, at, more = value | (raw[at] & 0x7F) << shift, at + 1, raw[at] & 0x80
        shift += 7
        if not more:
            return value, at


def fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(number, value) of each field of a message."""
    at = 0
    while at < len(raw):
        key, at = read_varint(raw, at)
        if key & 7 == 0:
            value, at = read_varint(raw, at)
            yield key >> 3, value
        else:
            length, at = (8, at) if key & 7 == 1 else read_varint(raw, at)
            yield key >> 3, raw[at : at + length]
            at += length


def series(body: bytes) -> list[tuple[dict[str, str], float, int]]:
    """(labels, value, time) of each series, labels in the order they came."""
    found = []
    for _, raw in fields(unsnappy(body)):
        assert isinstance(raw, bytes)
        labels: dict[str, str] = {}
        for number, part in fields(raw):
            assert isinstance(part, bytes)
            inner = dict(fields(part))
            if number == 1:
                labels[bytes(inner[1]).decode()] = bytes(inner[2]).decode()
            else:
                value, ts_ms = struct.unpack("<d", inner[1])[0], inner[2]  # type: ignore[arg-type]
        found.append((labels, value, int(ts_ms)))
    return found


class Receiver:
    """Answers as told, keeps what came."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.bodies: list[bytes] = []

    def __call__(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
        assert headers["X-Prometheus-Remote-Write-Version"] == "0.1.0" and not path
        self.bodies.append(body)
        return Answer(status=self.statuses.pop(0) if self.statuses else 204)


def writer(receiver: Receiver, *, num_gauges: int = 1) -> tuple[RemoteWriter, Counter]:
    registry = CollectorRegistry()
    gauge = Gauge("argus_step_duration_seconds", "x", ["run", "rank"], registry=registry)
    for rank in range(num_gauges):
        gauge.labels(run="r", rank=str(rank)).set(rank)
    sent = Counter("argus_remote_write_samples_total", "x", ["result"], registry=CollectorRegistry())
    made = RemoteWriter(receiver, registry, sent=sent, clock=lambda: 7.0, rng=random.Random(1))
    return made, sent


def count(counter: Counter, result: str) -> float:
    return float(counter.labels(result=result)._value.get())


def test_series_arrive_with_sorted_labels() -> None:
    body = encode_request([Sample(name="m", labels={"z": "1", "A": "2"}, value=0.5)], ts_ms=1234)
    ((labels, value, ts_ms),) = series(body)
    assert (list(labels), value, ts_ms) == (["A", "__name__", "z"], 0.5, 1234)


def test_labels_without_a_value_are_not_sent() -> None:
    body = encode_request([Sample(name="m", labels={"host": "h", "pp": ""}, value=1.0)], ts_ms=1)
    ((labels, _, _),) = series(body)
    assert labels == {"__name__": "m", "host": "h"}


@given(st.binary(max_size=300_000))
def test_snappy_comes_back(raw: bytes) -> None:
    assert unsnappy(snappy(raw)) == raw


def test_everything_is_sent_in_batches() -> None:
    receiver = Receiver()
    made, sent = writer(receiver, num_gauges=MAX_SERIES + 10)
    assert made.step() == pytest.approx(15.0)
    assert [len(series(body)) for body in receiver.bodies] == [MAX_SERIES, 10]
    assert count(sent, "sent") == MAX_SERIES + 10


@pytest.mark.parametrize(
    ("status", "is_kept"), [(500, True), (503, True), (429, True), (0, True), (400, False), (404, False)]
)
def test_only_what_may_pass_is_tried_again(status: int, is_kept: bool) -> None:
    receiver = Receiver(status)
    made, sent = writer(receiver)
    pause_s = made.step()
    assert count(sent, "refused") == (not is_kept)
    assert (pause_s > 14.9) and count(sent, "sent") == 0
    made.step()
    assert count(sent, "sent") == (2 if is_kept else 1)


def test_the_oldest_are_dropped_and_counted_when_the_receiver_is_gone() -> None:
    receiver = Receiver(*[0] * (MAX_WAITING + 20))
    made, sent = writer(receiver)
    for _ in range(MAX_WAITING + 20):
        made.step()
    assert count(sent, "dropped") == 20
    receiver.statuses.clear()
    made.step()
    assert count(sent, "sent") == MAX_WAITING and count(sent, "dropped") == 21


def test_replicas_push_series_of_their_own(tmp_path: Path) -> None:
    names = []
    for port in (1, 2):
        with service_at(
            tmp_path / f"{port}.sqlite", clock=FakeClock(), remote_write_url="http://h/w", port=port
        ) as service:
            made = remote_writer(service, project="team")
            assert made is not None
            receiver = made._post = Receiver()
            made.step()
            labels, _, _ = series(receiver.bodies[0])[0]
            assert (labels["job"], labels["project"]) == ("argus", "team")
            names.append(labels["instance"])
    assert len(set(names)) == 2


def test_a_receiver_that_is_no_url_is_said_before_the_service_runs(tmp_path: Path) -> None:
    wrong = service_at(tmp_path / "a.sqlite", clock=FakeClock(), remote_write_url="ftp://x")
    with wrong as service, pytest.raises(CliError, match="remote_write_url"):
        remote_writer(service)
    with service_at(tmp_path / "b.sqlite", clock=FakeClock()) as service:
        assert remote_writer(service) is None
    with pytest.raises(ValueError, match="remote_write_token") as refused:
        receiver_at("https://me:s3cret@h/write", token="")
    assert "s3cret" not in str(refused.value)


def test_a_receiver_is_asked_at_its_whole_url() -> None:
    """Some name the database in the query; others know the path with its last slash only."""
    assert receiver_at("http://h:1/w?db=a&u=b", token="t").url == "http://h:1/w?db=a&u=b"
    assert receiver_at("http://h/w/", token="").url == "http://h/w/"
    assert receiver_at("http://h?db=a", token="").url == "http://h/?db=a"


def test_what_the_receiver_has_against_it_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    receiver = Receiver(401, 401, 204, 429, 204, *[503] * 6)
    made, _ = writer(receiver)
    made.step()
    made.step()
    assert len(caplog.messages) == 1 and "answers 401" in caplog.text
    for _ in range(3):
        made.step()
    # One 429 is nothing to tell of.
    assert caplog.messages[1:] == ["metrics by remote write: taken again"]
    for _ in range(4):
        made.step()
    assert len(caplog.messages) == 3 and "answers 503" in caplog.messages[2]


def test_a_round_that_fails_is_said_and_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Receiver):
        def __call__(self, path: str, body: bytes, *, headers: Mapping[str, str]) -> Answer:
            answer = super().__call__(path, body, headers=headers)
            if len(self.bodies) < 3:
                raise RuntimeError("not a header")
            return answer

    receiver, registry = Broken(), CollectorRegistry()
    Gauge("x", "x", registry=registry).set(1)
    sent = Counter("y_total", "y", ["result"], registry=CollectorRegistry())
    writer = RemoteWriter(
        receiver, registry, sent=sent, clock=lambda: 7.0, rng=random.Random(1), period_s=0.01
    )
    writer.start()
    wait_for(lambda: count(sent, "sent") > 0)
    writer.stop()
    writer._thread.join(timeout=30)
    assert len([one for one in caplog.messages if "not pushed by remote write" in one]) >= 1
