"""Garbage to every endpoint: a 4xx with a reason or a counted drop, never a 500, never a dead thread."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
import zstandard
from starlette.testclient import TestClient

from argus.api.http.app import make_app
from argus.api.service import Service
from argus.collectors.records.events import COLLECTIVE, EVENT, STEP
from argus.collectors.records.host_sample import HostSample
from argus.collectors.records.outside_event import OutsideEvent
from argus.collectors.records.pack import pack
from argus.collectors.records.report import Report
from argus.collectors.records.stacks import StackDump, Thread, encode_stacks
from argus.collectors.records.summary import PHASE_CELL
from argus.collectors.records.upload import CONTENT_TYPE, encode_windows
from tests.api.kit import (
    FakeClock,
    beats_body,
    layouts_body,
    make_beat,
    make_window,
    new_service,
    new_store,
    upload,
)

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("FUZZ_ROUNDS", "170"))
"""Inputs of each test: more than 2,000 of them go to ingest, with the 8,500 of `make soak` more than 100,000."""

TURNS = 50
"""Turns of the worker in which a window must be analysed."""

JSON_TYPE = "application/json"

ODD: tuple[object, ...] = (
    None,
    True,
    -1,
    0,
    1 << 31,
    1 << 53,
    1 << 63,
    10**400,
    float("nan"),
    float("inf"),
    -0.0,
    1e308,
    "",
    "\x00",
    "a\x00b",
    "\ud800",
    "\u202e\u200f",
    "x" * 5000,
    "../../etc/passwd",
    "'; DROP TABLE attempts; --",
    "%s%n{}",
    [],
    {},
    [[[[[]]]]],
    {"a": {"a": {"a": 1}}},
    ["running"],
    "NaN",
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["sqlite", "postgres"])
def service(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Service]:
    if request.param == "postgres":
        store = request.getfixturevalue("postgres")
    else:
        store = new_store(tmp_path / "a.sqlite")
        request.addfinalizer(store.close)
    service = new_service(store, clock=clock)
    service.receive_layouts(layouts_body())
    yield service
    service.worker.stop()  # or it would go on leading on this server


def check(client: TestClient, path: str, body: bytes, media: str) -> None:
    where = "/v1/events" if path == "events" else f"/v1/ingest/{path}"
    answer = client.post(where, content=body, headers={"content-type": media})
    assert answer.status_code in (200, 400, 413, 415, 422, 426), (path, body[:300], answer.text)
    if answer.status_code != 200:
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"]


def still_works(client: TestClient, service: Service, clock: FakeClock) -> None:
    """A true job goes through after all that."""
    body = layouts_body(run="true")
    assert (
        client.post("/v1/ingest/layouts", content=body, headers={"content-type": JSON_TYPE}).status_code
        == 200
    )
    rows = upload(*(make_window(rank, 0, run="true") for rank in range(4)))
    answer = client.post("/v1/ingest/windows", content=rows, headers={"content-type": CONTENT_TYPE})
    assert answer.json()["accepted"] == 4
    for _ in range(TURNS):
        clock.now_s += 20
        service.worker.turn(clock.now_s)
        window = client.get("/v1/runs/true/windows/0").json()
        if window["status"] == "analysed":
            break
    assert window["status"] == "analysed"
    assert client.get("/metrics").status_code == 200


def mutate(value: object, rng: random.Random) -> object:
    """The document with one leaf, key or branch replaced by something odd."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(sorted(value))
        if rng.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: mutate(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        index = rng.randrange(len(value))
        return [*value[:index], mutate(value[index], rng), *value[index + 1 :]]
    return rng.choice(ODD)


def document(path: str, now_s: float) -> object:
    """A good body of a route."""
    if path == "layouts":
        return json.loads(layouts_body())
    if path == "heartbeats":
        report = Report(host="h-0", parts={"pyspy": "ok"}, dropped={"windows full": 1.0}).to_json()
        beats = beats_body(*(make_beat(rank, ts_s=now_s) for rank in range(4)))
        return {**json.loads(beats), "processor": report}
    if path == "events":
        event = OutsideEvent(time_s=now_s, node="host:h-0", source="dmesg", text="Xid 63", kind="xid")
        return {"events": [event.to_json()]}
    thread = Thread(kind="main", name="MainThread", state="S", stack="a;b")
    dump = StackDump(run="job", attempt=0, rank=1, host="h-0", ts_s=now_s, step=2, threads=(thread,))
    sample = HostSample(host="h-0", start_s=now_s - 10, end_s=now_s, numbers={"cpu_some_s": 0.5})
    return {**encode_stacks([dump]), "host": "h-0", "samples": [sample.to_json()]}


@pytest.mark.parametrize("path", ["layouts", "heartbeats", "observations", "events"])
def test_mutated_documents(path: str, service: Service, clock: FakeClock) -> None:
    rng = random.Random(7)
    client = TestClient(make_app(service), raise_server_exceptions=False)
    base = document(path, clock.now_s)
    for number in range(ROUNDS):
        text = json.dumps(mutate(base, rng), ensure_ascii=rng.random() < 0.5)
        body = text.encode("utf-8", "surrogatepass")
        if rng.random() < 0.2:
            cut = rng.randrange(len(body))
            body = body[:cut] + rng.randbytes(rng.randrange(4)) + body[cut + rng.randrange(4) :]
        check(client, path, body, JSON_TYPE)
        if number % 50 == 0:
            service.worker.turn(clock.now_s)
    still_works(client, service, clock)


def test_mutated_uploads(service: Service, clock: FakeClock) -> None:
    rng = random.Random(8)
    client = TestClient(make_app(service), raise_server_exceptions=False)
    for number in range(ROUNDS):
        item = bytearray(make_window(rng.randrange(5), rng.randrange(20)).to_bytes())
        for _ in range(rng.choice((1, 1, 2, 20))):
            item[rng.randrange(len(item))] = rng.randrange(256)
        body = encode_windows([bytes(item)])
        if rng.random() < 0.3:
            at = rng.randrange(len(body))
            body = body[:at] + rng.randbytes(3) + body[at + 3 :]
        check(client, "windows", body, CONTENT_TYPE)
        if number % 20 == 0:
            clock.now_s += 5
            service.worker.turn(clock.now_s)
    still_works(client, service, clock)


def odd_meta(rng: random.Random) -> dict[str, object]:
    meta: dict[str, object] = {
        "version": 1,
        "run": "job",
        "attempt": 0,
        "rank": rng.randrange(4),
        "window": rng.randrange(30),
        "first_step": 0,
        "num_steps": 10,
        "host": "h",
        "names": ["", "forward"],
        "dropped": {},
        "unseen": [],
    }
    meta["first_step"] = int(str(meta["window"])) * 10
    for _ in range(rng.choice((0, 1, 1, 2))):
        meta[rng.choice(sorted(meta))] = rng.choice(ODD)
    return meta


def test_uploads_of_odd_values(service: Service, clock: FakeClock) -> None:
    rng = random.Random(9)
    client = TestClient(make_app(service), raise_server_exceptions=False)
    dtypes = {"steps": STEP, "cells": PHASE_CELL, "collectives": COLLECTIVE, "events": EVENT}
    for number in range(ROUNDS):
        meta = odd_meta(rng)
        arrays = {}
        for name, dtype in dtypes.items():
            rows = np.frombuffer(rng.randbytes(dtype.itemsize * rng.randrange(4)), dtype).copy()
            if isinstance(meta["first_step"], int) and 0 <= meta["first_step"] < 1 << 60 and len(rows):
                rows["step"] = meta["first_step"] + np.arange(len(rows))
            if name == "steps" and rng.random() < 0.7:
                rows["start_ns"], rows["end_ns"] = np.int64(-(1 << 63)), np.int64((1 << 63) - 1)
            arrays[name] = (name, rows)
        check(client, "windows", encode_windows([pack(meta, arrays)]), CONTENT_TYPE)
        if number % 20 == 0:
            clock.now_s += 5
            service.worker.turn(clock.now_s)
    still_works(client, service, clock)


def test_hostile_envelopes(service: Service, clock: FakeClock) -> None:
    client = TestClient(make_app(service), raise_server_exceptions=False)
    good = make_window(0, 0).to_bytes()
    squeeze = zstandard.ZstdCompressor().compress
    stream = zstandard.ZstdCompressor().compressobj()
    unsized = stream.compress(bytes(300 << 20)) + stream.flush()
    for body in (
        unsized,
        squeeze(struct.pack("<I", 0xFFFFFFFF) + good),
        squeeze(struct.pack("<I", 0)),
        squeeze(b"\x00\x00"),
        squeeze(b""),
        squeeze(struct.pack("<I", 0) * 200_000),
        squeeze(struct.pack("<I", 16) + b"AGP1" + struct.pack("<I", 4) + b"[[[[" + bytes(4)),
        encode_windows([good])[:-5],
        b"\x28\xb5\x2f\xfd",
        b"\x50\x2a\x4d\x18\x00\x00\x00\x00",
    ):
        check(client, "windows", body, CONTENT_TYPE)
    for body in (b"[" * 1_000_000, b'{"layouts":' * 50_000, b"\xef\xbb\xbf{}", b"1e999999", b"9" * 10_000):
        check(client, "layouts", body, JSON_TYPE)
        check(client, "heartbeats", body, JSON_TYPE)
    still_works(client, service, clock)


def questions(rng: random.Random) -> Iterator[str]:
    words: tuple[Callable[[], str], ...] = (
        lambda: quote(str(rng.choice(ODD)), safe="", errors="surrogatepass"),
        lambda: quote(rng.randbytes(rng.randrange(1, 9))),
        lambda: str(rng.choice((0, -1, 1 << 53, 1 << 63, 1 << 64, 10**30))),
        lambda: rng.choice(("job", "open", "L2", "1", "analysed", "nan", "-inf", "host:h-0", "host:%25_")),
    )
    paths = (
        "/v1/runs",
        "/v1/runs/{}",
        "/v1/runs/{}/topology",
        "/v1/runs/{}/heartbeats",
        "/v1/runs/{}/windows",
        "/v1/runs/job/windows/{}",
        "/v1/runs/job/series",
        "/v1/runs/job/findings",
        "/v1/runs/{}/facts",
        "/v1/runs/{}/report",
        "/v1/history",
        "/v1/history/offenders",
        "/v1/events",
        "/v1/incidents",
        "/v1/incidents/{}",
        "/v1/incidents/{}/diagnosis",
        "/v1/incidents/{}/card",
        "/v1/case",
        "/v1/conversations",
        "/v1/conversations/{}",
        "/v1/diagnoses",
        "/v1/evidence",
        "/v1/evidence/{}",
        "/v1/findings/{}",
        "/v1/keys",
        "/v1/audit",
    )
    asked = "limit offset attempt window level status class run rank host device subject days node kind since_s verdict action"
    names = (*asked.split(), "until_s", "incident")
    while True:
        query = "&".join(f"{rng.choice(names)}={rng.choice(words)()}" for _ in range(rng.randrange(4)))
        yield rng.choice(paths).replace("{}", rng.choice(words)()) + "?" + query


def test_odd_questions(service: Service, clock: FakeClock) -> None:
    rng = random.Random(10)
    service.receive_heartbeats(beats_body(make_beat(0, ts_s=clock.now_s)))
    service.receive_windows(upload(*(make_window(rank, 0) for rank in range(4))))
    service.worker.turn(clock.now_s)
    client = TestClient(make_app(service), raise_server_exceptions=False)
    asked = questions(rng)
    codes = set()
    for _ in range(ROUNDS):
        path = next(asked)
        answer = client.get(path)
        codes.add(answer.status_code)
        assert answer.status_code in (200, 307, 404, 422), (path, answer.text)
    assert codes >= {200, 404, 422}
