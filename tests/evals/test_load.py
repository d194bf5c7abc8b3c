"""What the played hosts send is what the service takes: as large as told, at the right steps, from every rank."""

from __future__ import annotations

import json
import random
import time
from functools import cache

import pytest

from argus.api import ingest
from argus.collectors.records.summary import RankWindow
from argus.evals.bench import chaos
from argus.evals.bench import ingest as ingest_bench
from argus.evals.load.bodies import Cluster, layouts_body, make_cluster
from argus.evals.load.play import Player
from argus.evals.simulator.kernel_blobs import RANKS_PER_HOST

BYTES = 18_700
RANKS, STEPS = 64, 2

pytestmark = pytest.mark.slow


@cache
def cluster() -> Cluster:
    return make_cluster(run="r", num_ranks=RANKS, window_steps=STEPS, bytes_per_rank_step=BYTES)


@pytest.mark.parametrize("window", [0, 1, 5])
def test_every_upload_is_taken_and_as_large_as_told(window: int) -> None:
    sizes, ranks = [], []
    for host in range(cluster().num_hosts):
        body, raw = cluster().upload(host, window, start_s=1e9)
        parsed = ingest.parse_windows(body, max_bytes=1 << 28)
        assert not parsed.rejected and len(parsed.items) == RANKS_PER_HOST
        assert {(item.window, item.first_step) for item in parsed.items} == {(window, window * STEPS)}
        assert [bool(item.kernels) for item in parsed.items] == [True] + [False] * (RANKS_PER_HOST - 1)
        ranks += [item.rank for item in parsed.items]
        sizes.append(raw)
    assert ranks == list(range(RANKS))
    assert sum(sizes) / RANKS / STEPS == pytest.approx(BYTES, rel=0.03)


def test_time_goes_on_from_window_to_window() -> None:
    first, later = (RankWindow.from_bytes(cluster().windows(0, window, start_s=1e9)[3]) for window in (0, 4))
    assert later.steps["step"].tolist() == [8, 9] and first.steps["step"].tolist() == [0, 1]
    assert int(later.steps["start_ns"][0] - first.steps["start_ns"][0]) == round(4 * cluster().window_s * 1e9)
    assert (later.collectives["entry_ns"] > first.collectives["entry_ns"].max()).all()
    assert len(later.details) > 100 and set(later.details["step"].tolist()) == {8, 9}


def test_heartbeats_and_layouts_are_taken() -> None:
    body = cluster().beats(3, now_s=1e9, step=17)
    parsed, reports = ingest.parse_heartbeats(body)
    assert not parsed.rejected and {beat.status.step for beat in parsed.items} == {17}
    assert len(reports.items) == 1
    assert len(ingest.parse_layouts(layouts_body(cluster().layouts)).items) == RANKS


@pytest.mark.parametrize(
    ("told", "twice"),
    [
        ([("a", "opened"), ("a", "changed"), ("a", "resolved"), ("a", "reopened")], 0),
        ([("a", "opened"), ("a", "opened")], 1),
        ([("a", "opened"), ("b", "opened"), ("a", "resolved"), ("a", "resolved")], 1),
    ],
)
def test_what_is_told_twice_is_seen(told: list[tuple[str, str]], twice: int) -> None:
    assert chaos._told_twice(told) == twice


def test_uploads_are_packed_before_the_load_begins_for_the_time_they_are_sent_at() -> None:
    player = Player(cluster(), "http://127.0.0.1:9", seconds=14.0, rng=random.Random(0))
    before_s = time.time()
    player.pack()
    assert before_s < player._begun_s <= time.time()
    body, raw = player._packed.get((3, 0))
    player.close()
    assert (body, raw) == cluster().upload(3, 0, start_s=player._begun_s)


def report(acknowledged: dict[str, int]) -> dict[str, object]:
    return {
        "took_s": 30.0,
        "cpu_s": 3.0,
        "raw_bytes": 100 * BYTES * 20,
        "sent_bytes": 1,
        "acknowledged": acknowledged,
        "statuses": {"200": 10},
        "missed_beats": 0,
        "latencies_ms": [1.0],
        "late_s": [1.0],
    }


@pytest.mark.parametrize(
    ("stored", "ratio", "lost", "ok"),
    [(100, 1.0, 0, True), (100, 0.5, 0, False), (99, 1.0, 1, False), (0, 0.0, 100, False)],
)
def test_what_was_acknowledged_must_be_there_and_in_its_window(
    stored: int, ratio: float, lost: int, ok: bool
) -> None:
    rows = [
        {"window": 0, "status": "analysed", "ranks_in": stored, "coverage": json.dumps({"ratio": ratio})},
        {"window": 1, "status": "analysed", "ranks_in": 100, "coverage": '{"ratio": 1.0}'},
    ]
    watch = ingest_bench._Watch(1, rss_mb=[100.0, 100.0, 100.0])
    kept = {"windows": rows, "attempts": 1, "incidents": []}
    result = ingest_bench._result(
        report({"0": 100, "1": 100}),
        watch,
        kept,
        size="full",
        scale={"ranks": 100, "seconds": 30.0, "window_steps": 3},
    )
    assert result["lost"] == lost and result["ok"] == ok
    assert {"mb_per_s", "rank_steps_per_s", "p99_ms", "peak_rss_mb", "lost"} <= result.keys()
