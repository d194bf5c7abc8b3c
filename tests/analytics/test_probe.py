"""What a probe says: a host against its peers, a pair against what both ends do with others."""

from __future__ import annotations

import math

import pytest

from argus.analytics.fuse.counters import SPEAKS_OF
from argus.analytics.probe import Reading, events_of, judged, slow_pairs
from argus.collectors.probe.pairs import rounds_of
from argus.collectors.records.outside_event import OutsideEvent

HOSTS = ("a", "b", "c", "d")


def met(slow: dict[tuple[str, str], float], *, host: str = "", factor: float = 1.0) -> list[Reading]:
    """Every pair's all-reduce, 10 ms but for slow pairs and a slow host."""
    found = []
    for pairs in rounds_of(len(HOSTS), 3):
        for i, j in pairs:
            first, second = HOSTS[i], HOSTS[j]
            took = 0.01 * slow.get((first, second), factor if host in (first, second) else 1.0)
            found += [
                Reading(host=first, test="allreduce", p50_s=took, partner=second),
                Reading(host=second, test="allreduce", p50_s=took, partner=first),
            ]
    return found


@pytest.mark.parametrize("world", [2, 3, 4, 5, 8, 9])
def test_everybody_meets_another_partner_each_round(world: int) -> None:
    rounds = rounds_of(world, world)
    pairs = [pair for pairs in rounds for pair in pairs]
    assert len(set(pairs)) == len(pairs) == world * (world - 1) // 2
    assert all(len({rank for pair in pairs for rank in pair}) == 2 * len(pairs) for pairs in rounds)
    assert rounds_of(1, 3) == ()


def test_a_slow_host_is_slow_against_its_healthy_peers() -> None:
    readings = [Reading(host=host, test="gemm", p50_s=1.4 if host == "b" else 1.0) for host in HOSTS]
    ratios = {v.host: v.ratio for v in judged(readings, peers=("c", "d"))}
    assert ratios == {"a": 1.0, "b": 1.4, "c": 1.0, "d": 1.0}


def test_a_slow_host_is_slow_with_every_partner() -> None:
    readings = met({}, host="b", factor=3.0)
    ratios = {v.host: v.ratio for v in judged(readings, peers=("c", "d"))}
    assert ratios["b"] == pytest.approx(3.0) and ratios["a"] == pytest.approx(1.0)
    assert slow_pairs(readings) == ()


def test_a_slow_way_accuses_neither_end() -> None:
    readings = met({("a", "b"): 4.0})
    assert all(v.ratio == pytest.approx(1.0) for v in judged(readings, peers=()))
    ((first, second, ratio),) = slow_pairs(readings)
    assert (first, second) == ("a", "b") and ratio == pytest.approx(4.0)


def test_alone_there_is_nothing_to_compare_with() -> None:
    (verdict,) = judged([Reading(host="a", test="gemm", p50_s=1.0)], peers=())
    assert verdict.ratio is None and events_of([verdict], time_s=1.0) == ()


def test_bad_readings_are_left_out() -> None:
    bad = [
        Reading(host="a", test=test, p50_s=value)
        for test, value in (("gemm", math.nan), ("gemm", -1.0), ("x", 1.0))
    ]
    assert judged(bad, peers=()) == () and slow_pairs(bad) == ()


def test_the_service_takes_what_a_probe_tells() -> None:
    verdicts = judged(met({}, host="b", factor=2.0), peers=("c",))
    for event in events_of(verdicts, time_s=5.0):
        raw = {**event.to_json(), "time": event.time_s}
        assert OutsideEvent.from_json(raw) == event and event.kind in SPEAKS_OF
