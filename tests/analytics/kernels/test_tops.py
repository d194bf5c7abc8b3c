"""The kernels that become time series: which they are, and that their numbers are those of the records."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.finding import Finding
from argus.analytics.kernels.kinds import short_name
from argus.analytics.kernels.tops import (
    NUM_FOUND,
    NUM_LONGEST,
    SAMPLED_HOSTS,
    KernelTop,
    added_up,
    kernel_tops,
)
from argus.analytics.window import Window, assemble
from argus.collectors.host.compress import summarise
from argus.collectors.host.window import cut
from argus.collectors.records.errors import WireError
from argus.collectors.records.events import RankRecords
from argus.collectors.records.kernel_blob import encode
from argus.collectors.records.kernel_read import open_blob
from argus.collectors.records.plan import WindowPlan
from argus.evals.simulator.job import Job
from argus.evals.simulator.simulate import simulate
from argus.topology.layout import build

DONE = simulate(Job(ranks=4, ranks_per_host=2, steps=20, kernels=24), rng=np.random.default_rng(3))


def window() -> Window:
    parts = [cut(records, WindowPlan())[1] for records in DONE.records]
    return assemble(parts, build(DONE.layouts))


def durations(records: RankRecords, top: KernelTop) -> np.ndarray:
    rows = records.kernels[records.kernels["step"] >= 10]
    mine = [
        (records.name(int(r["name"])), records.name(int(r["role"]))) == (top.name, top.role) for r in rows
    ]
    found: np.ndarray = rows["dur_ns"][mine] * 1e-9
    return found


def finding(kernel: str, significance: float) -> Finding:
    return Finding(
        run="r",
        attempt=0,
        window=1,
        level="L3",
        detector="d",
        kind="kernel_shift",
        role="culprit",
        ranks=(1,),
        kernel=kernel,
        significance=significance,
    )


def test_the_longest_come_first_with_the_numbers_of_the_records() -> None:
    tops = kernel_tops(window())
    assert len(tops) == NUM_LONGEST
    total = [sum(durations(records, top).sum() for records in DONE.records) for top in tops]
    assert total == sorted(total, reverse=True)
    for top in tops:
        for rank, calls, p50_s, p99_s in zip(top.ranks, top.calls, top.p50_s, top.p99_s, strict=True):
            seen = durations(DONE.records[int(rank)], top)
            assert calls == len(seen)
            assert np.quantile(seen, 0.25) * 0.99 <= p50_s <= np.quantile(seen, 0.75) * 1.01
            assert p50_s <= p99_s <= seen.max() * 1.01


def test_kernels_of_findings_are_shown_too_the_most_significant_first_and_not_all() -> None:
    longest = {top.name for top in kernel_tops(window())}
    others = sorted({name for one in DONE.records for name in one.names if name} - longest)
    names = [name for name in others if kernel_tops(window(), [finding(name, 1.0)])[NUM_LONGEST:]]
    assert len(names) > NUM_FOUND
    told = [finding(name, float(i)) for i, name in enumerate(names)]
    found = kernel_tops(window(), told)[NUM_LONGEST:]
    assert len(found) == NUM_FOUND and found[0].name == names[-1]


def named_as_by_a_compiler(records: RankRecords) -> RankRecords:
    used = set(records.kernels["name"].tolist())
    names = (f"void at::{name}<4>(int)" if at in used else name for at, name in enumerate(records.names))
    return replace(records, names=tuple(names))


def test_a_finding_names_its_kernel_without_template_arguments_and_parameters() -> None:
    parts = [cut(named_as_by_a_compiler(records), WindowPlan())[1] for records in DONE.records]
    seen = assemble(parts, build(DONE.layouts))
    longest = {top.name for top in kernel_tops(seen)}
    other = next(
        name
        for name in named_as_by_a_compiler(DONE.records[0]).names
        if name.endswith("(int)") and name not in longest
    )
    found = kernel_tops(seen, [finding(short_name(other), 1.0)])[NUM_LONGEST:]
    assert [top.name for top in found] == [other] * len(found) != []


def test_calls_add_up_and_begin_anew_for_what_was_not_shown() -> None:
    first = kernel_tops(window())
    twice = added_up(first, first[:2])
    assert (twice[0].calls == 2 * first[0].calls).all() and (twice[2].calls == first[2].calls).all()
    fewer = replace(first[0], ranks=first[0].ranks[:1], calls=first[0].calls[:1])
    assert added_up(first[:1], [fewer])[0].calls.tolist()[1:] == first[0].calls.tolist()[1:]


def test_without_kernels_nothing_is_shown_and_damage_is_an_error() -> None:
    assert kernel_tops(replace(window(), kernels=())) == ()
    payload = window().kernels[0]
    blob = open_blob(payload)
    at = len(payload) - len(blob.tail) - len(blob.chunks)
    broken = payload[:at] + b"\xff" * len(blob.chunks) + payload[at + len(blob.chunks) :]
    with pytest.raises(WireError):
        kernel_tops(replace(window(), kernels=(broken,)))


def blob_of(rank: int, launches: dict[str, tuple[int, float]], *, mode: str = "default") -> bytes:
    """A rank's kernels: how often each was launched, and how long each time (ns)."""
    key = np.repeat(np.arange(len(launches)), [num for num, _ in launches.values()])
    took_ns = np.concatenate([np.full(num, each_ns) for num, each_ns in launches.values()])
    pairs = tuple((name, "compute") for name in launches)
    return encode([summarise(key, took_ns, pairs=pairs, rank=rank, mode=mode)])


def test_a_rank_that_was_sent_twice_is_shown_by_what_came_first() -> None:
    blobs = [blob_of(rank, {"gemm": (50, 1e6)}) for rank in range(2 * SAMPLED_HOSTS)]
    blobs.insert(2, blob_of(1, {"other": (50, 1e6)}))  # every second blob decides which are the longest
    tops = kernel_tops(replace(window(), kernels=tuple(blobs), kernel_names={}))
    assert [(top.name, len(top.ranks)) for top in tops] == [("gemm", 2 * SAMPLED_HOSTS)]


def test_without_means_the_longest_are_not_those_launched_most_often() -> None:
    launches = {f"short_{i}": (100, 1e3) for i in range(NUM_LONGEST)} | {"gemm": (10, 1e6)}
    tops = kernel_tops(replace(window(), kernels=(blob_of(0, launches, mode="paper"),), kernel_names={}))
    assert tops[0].name == "gemm"
