"""The L3 detector on whole windows: what it says of odd input, of ratios that fall, of groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.analytics.detectors.l3_kernel import detect
from argus.analytics.digest import digest_of
from argus.analytics.finding import Finding
from argus.analytics.kernels.digest import KEPT, digest_kernels
from argus.analytics.view import Digest, View
from argus.analytics.window import Window, assemble
from argus.collectors.host.compress import summarise
from argus.collectors.records.events import STEP
from argus.collectors.records.kernel_blob import encode
from argus.collectors.records.kernels import KernelSummary
from argus.collectors.records.layout import GroupInfo, Layout
from argus.collectors.records.summary import RankWindow
from argus.topology.layout import build

RANKS, STEPS, STEP_NS = 8, 10, 10_000_000
PAIRS = (("gemm", "compute"), ("norm", "compute"), ("ncclAllReduce", "comm:dp"))


def window(number: int, kernels: tuple[bytes, ...]) -> Window:
    layouts = [Layout(run="r", attempt=0, rank=r, world_size=RANKS, host="h") for r in range(RANKS)]
    steps = np.zeros(STEPS, STEP)
    steps["step"] = np.arange(STEPS) + number * STEPS
    steps["start_ns"] = steps["step"] * STEP_NS
    steps["end_ns"] = steps["start_ns"] + STEP_NS
    parts = [
        RankWindow(
            run="r",
            attempt=0,
            rank=rank,
            window=number,
            first_step=number * STEPS,
            num_steps=STEPS,
            steps=steps,
        )
        for rank in range(RANKS)
    ]
    return replace(assemble(parts, build(layouts)), kernels=kernels)


def view_of(windows: list[Window]) -> View:
    past: list[Digest] = []
    for one in windows:
        digest = digest_of(one)
        past.append(replace(digest, kernels=digest.kernels.slim()) if digest.kernels is not None else digest)
    last = windows[-1]
    past = past[:-1][-KEPT:]
    return View(
        run="r",
        attempt=0,
        topology=last.topology,
        now_s=0.0,
        window=last,
        past=tuple(past),
        digest=digest_of(last),
    )


def findings(windows: list[Window]) -> tuple[Finding, ...]:
    return detect(view_of(windows))


def plain(rank: int, number: int, *, num: int = 200, kernels: int = 3) -> KernelSummary:
    rng = np.random.default_rng([rank, number])
    key = np.repeat(np.arange(kernels), num)
    durations = 2e5 * (key + 1) * np.exp(0.02 * rng.normal(size=len(key)))
    return summarise(key, np.rint(durations), pairs=PAIRS[:kernels], rank=rank)


def of_durations(rank: int, durations: list[float]) -> KernelSummary:
    return summarise(np.zeros(len(durations), np.int64), np.array(durations), pairs=PAIRS[:1], rank=rank)


ODD = {
    "no event at all": [of_durations(r, []) for r in range(RANKS)],
    "one sample a rank": [of_durations(r, [1e5]) for r in range(RANKS)],
    "identical durations": [of_durations(r, [1e5] * 50) for r in range(RANKS)],
    "zeros, negatives and NaN": [of_durations(r, [0.0, -5.0, float("nan"), 1e5]) for r in range(RANKS)],
    "a kernel on one rank alone": [plain(0, 0), *(plain(r, 0, kernels=1) for r in range(1, RANKS))],
    "a rank without kernels": [plain(r, 0) for r in range(RANKS - 1)] + [KernelSummary(rank=RANKS - 1)],
    "names nobody defined": [
        summarise(np.zeros(9, np.int64), np.full(9, 1e5), pairs=(("?", "?"),), rank=r) for r in range(RANKS)
    ],
    "ranks of another job": [replace(plain(r, 0), rank=1000 + r) for r in range(RANKS)],
}


@pytest.mark.parametrize("name", ODD)
def test_odd_windows_pass_without_a_finding(name: str) -> None:
    windows = [window(number, (encode(ODD[name]),)) for number in range(4)]
    assert findings(windows) == ()


def test_windows_with_and_without_kernels_may_alternate() -> None:
    blob = encode([plain(r, 1) for r in range(RANKS)])
    windows = [window(number, (blob,) if number % 2 else ()) for number in range(6)]
    assert findings(windows) == () and findings(windows[:-1]) == ()


def test_a_blob_damaged_in_the_middle_costs_its_own_ranks_only() -> None:
    good = encode([plain(r, 0) for r in range(4)])
    bad = bytearray(encode([plain(r, 0) for r in range(4, 8)]))
    start = round(0.4 * len(bad))  # in the chunks: the head and the names at the end are whole
    for at in range(start, start + 8):
        bad[at] ^= 0xFF
    digest = digest_kernels(window(0, (good, bytes(bad))))
    assert digest is not None and digest.table is not None
    assert digest.ranks.tolist() == [0, 1, 2, 3]
    assert sum(digest.table.refused.values()) == 1


def test_a_rank_sent_twice_counts_the_first_time_and_costs_no_other() -> None:
    def slower(rank: int) -> KernelSummary:
        summary = plain(rank, 1)
        clusters = summary.clusters.copy()
        clusters["p50_ns"] *= 2
        return replace(summary, clusters=clusters, kernels=(*summary.kernels[:2], ("its own", "compute")))

    first = encode([plain(r, 0) for r in range(5)])
    second = encode([slower(3), slower(4), *(plain(r, 0) for r in range(5, RANKS))])
    digest = digest_kernels(window(0, (first, second, first)))
    once = digest_kernels(window(0, (first, encode([plain(r, 0) for r in range(5, RANKS)]))))
    assert digest is not None and digest.table is not None and once is not None
    assert digest.ranks.tolist() == list(range(RANKS))
    assert dict(digest.table.refused) == {"a rank was sent twice": 7}
    there = [digest.keys.index(key) for key in once.keys]
    assert (
        np.array_equal(digest.mean[there], once.mean, equal_nan=True) and (digest.ratio == once.ratio).all()
    )
    assert np.isnan(np.delete(digest.mean, there, axis=0)).all()  # a kernel of the second time alone


def test_blobs_of_another_version_are_counted() -> None:
    good = encode([plain(r, 0) for r in range(4)])
    other = bytearray(encode([plain(r, 0) for r in range(4, 8)]))
    other[3] = 9
    digest = digest_kernels(window(0, (good, bytes(other))))
    assert digest is not None and digest.table is not None
    assert digest.ranks.tolist() == [0, 1, 2, 3]
    assert [(reason[:25], count) for reason, count in digest.table.refused.items()] == [
        ("kernel blob of version 9,", 1)
    ]


def test_a_rank_whose_kernels_stop_repeating_is_told_in_two_of_three_windows() -> None:
    def scattered(rank: int, number: int) -> KernelSummary:
        rng = np.random.default_rng([rank, number])
        modes = 2e5 * 1.6 ** rng.integers(0, 6, 600) * np.exp(0.01 * rng.normal(size=600))
        return summarise(np.repeat(np.arange(3), 200), np.rint(modes), pairs=PAIRS, rank=rank)

    def at(number: int) -> Window:
        sick = number >= 5
        return window(
            number,
            (encode([scattered(r, number) if sick and r == 2 else plain(r, number) for r in range(RANKS)]),),
        )

    falls = [
        [one.ranks for one in findings([at(i) for i in range(upto)]) if one.kind == "ratio_fall"]
        for upto in (5, 6, 7, 8)
    ]
    assert falls == [[], [], [(2,)], [(2,)]]


@pytest.mark.parametrize("is_scattered", [False, True])
def test_fewer_launches_alone_are_no_fall(is_scattered: bool) -> None:
    """From eight micro-batches to two; told only where a rank's launches spread over more modes as well."""

    def one(rank: int, number: int) -> KernelSummary:
        rng = np.random.default_rng([rank, number])
        num = 800 if number < 5 else 200
        modes = 1.6 ** rng.integers(0, 6, num) if is_scattered and rank == 2 and number >= 5 else 1.0
        durations = 2e5 * modes * np.exp(0.01 * rng.normal(size=num))
        return summarise(np.arange(num) % 3, np.rint(durations), pairs=PAIRS, rank=rank)

    windows = [window(number, (encode([one(rank, number) for rank in range(RANKS)]),)) for number in range(8)]
    told = [[fall.ranks for fall in findings(windows[:n]) if fall.kind == "ratio_fall"] for n in (6, 7, 8)]
    assert told == ([[], [(2,)], [(2,)]] if is_scattered else [[], [], []])


@pytest.mark.parametrize(("factor", "is_told"), [(1.3, False), (1.8, True)])
def test_of_two_groups_only_a_gross_one_is_told_and_a_silent_member_changes_nothing(
    factor: float, is_told: bool
) -> None:
    layouts = [
        Layout(
            run="r",
            attempt=0,
            rank=rank,
            world_size=RANKS,
            host="h",
            groups=(GroupInfo(name=f"dp{rank % 2}", desc="dp", ranks=tuple(range(rank % 2, RANKS, 2))),),
        )
        for rank in range(RANKS)
    ]
    topology = build(layouts)
    group = next(one for one in topology.groups if one.kind == "dp" and 1 in one.ranks)

    def at(number: int) -> Window:
        rng = np.random.default_rng(number)
        summaries = []
        for rank in range(RANKS):
            slow = factor if rank in group.ranks else 1.0
            durations = np.rint(slow * 1e5 * np.exp(0.02 * rng.normal(size=200)))
            none = KernelSummary(rank=rank)
            key = np.zeros(200, np.int64)
            summaries.append(none if rank == 3 else summarise(key, durations, pairs=PAIRS[2:], rank=rank))
        return replace(window(number, (encode(summaries),)), topology=topology)

    told = [one for one in findings([at(number) for number in range(3)]) if one.kind == "group_shift"]
    assert [one.group for one in told] == ([group.id] if is_told else [])


def test_groups_of_stages_that_send_more_are_not_compared_with_the_others() -> None:
    """Four stages of two replicas: the first reduces an embedding too, which makes it no slow group."""
    layouts = [
        Layout(
            run="r",
            attempt=0,
            rank=rank,
            world_size=RANKS,
            host="h",
            groups=(
                GroupInfo(name=f"dp{rank // 2}", desc="dp", ranks=(rank // 2 * 2, rank // 2 * 2 + 1)),
                GroupInfo(name=f"pp{rank % 2}", desc="pp", ranks=tuple(range(rank % 2, RANKS, 2))),
            ),
        )
        for rank in range(RANKS)
    ]
    topology = build(layouts)
    assert {group.kind for group in topology.groups} >= {"dp", "pp"}

    def at(number: int) -> Window:
        key = np.zeros(200, np.int64)
        rng = np.random.default_rng(number)
        blob = encode(
            [
                summarise(
                    key,
                    np.rint((3e5 if rank < 2 else 1e5) * np.exp(0.02 * rng.normal(size=200))),
                    pairs=PAIRS[2:],
                    rank=rank,
                )
                for rank in range(RANKS)
            ]
        )
        return replace(window(number, (blob,)), topology=topology)

    assert findings([at(number) for number in range(4)]) == ()


def slow_in(*sick: tuple[int, int]) -> list[Window]:
    """Windows in which these (rank, kernel) take three times as long."""
    windows = []
    for number in range(4):
        summaries = []
        for rank in range(RANKS):
            key = np.repeat(np.arange(3), 200)
            times = np.array([3.0 if (rank, kernel) in sick else 1.0 for kernel in range(3)])
            scatter = np.exp(0.02 * np.random.default_rng([rank, number]).normal(size=len(key)))
            summaries.append(
                summarise(key, np.rint(2e5 * times[key] * (key + 1) * scatter), pairs=PAIRS, rank=rank)
            )
        windows.append(window(number, (encode(summaries),)))
    return windows


def test_the_costliest_are_kept_and_whoever_they_do_not_name() -> None:
    apart, one = view_of(slow_in((1, 0), (6, 1))), view_of(slow_in((1, 0), (1, 1)))
    assert {finding.ranks for finding in detect(apart, max_findings=1)} == {(1,), (6,)}
    assert len(detect(one)) == 2 and [finding.kernel for finding in detect(one, max_findings=1)] == ["norm"]
