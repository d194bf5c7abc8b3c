"""Kernels in the window path: cut, carried, packed by host, names once, identities kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from argus.collectors.host import kernel_room
from argus.collectors.host.compress import summarise
from argus.collectors.host.identity import Identities, match
from argus.collectors.host.kernel_room import NO_ROOM, pack_kernels, texts_of
from argus.collectors.host.pack_hosts import NameBook, pack_hosts
from argus.collectors.host.window import cut
from argus.collectors.records.events import KERNEL, STEP, RankRecords
from argus.collectors.records.kernel_read import open_blob, summaries_of
from argus.collectors.records.kernels import KernelSummary, name_hash
from argus.collectors.records.layout import Layout
from argus.collectors.records.pack import pack, unpack
from argus.collectors.records.plan import WindowPlan
from argus.collectors.records.summary import _DTYPES, _LATER, RankWindow

NAMES = ("", "gemm", "softmax", "compute")


def records(rank: int, *, steps: int = 20, host: str = "h-0", factor: float = 1.0) -> RankRecords:
    rng = np.random.default_rng(rank)
    rows = np.zeros(steps * 100, KERNEL)
    rows["step"] = np.repeat(np.arange(steps), 100)
    rows["name"], rows["role"] = 1 + np.arange(len(rows)) % 2, 3
    rows["dur_ns"] = (
        10_000
        * factor
        * np.where(np.arange(len(rows)) % 4 < 2, 1, 5)
        * np.exp(0.02 * rng.normal(size=len(rows)))
    )
    ends = np.zeros(steps, STEP)
    ends["step"] = np.arange(steps)
    layout = Layout(run="r", attempt=0, rank=rank, world_size=8, host=host)
    return RankRecords(layout=layout, names=NAMES, steps=ends, kernels=rows)


def windows(*ranks: int, host: str = "h-0") -> list[RankWindow]:
    return [window for rank in ranks for window in cut(records(rank, host=host), WindowPlan())]


def summaries(window: RankWindow) -> tuple[KernelSummary, ...]:
    blob = open_blob(window.kernels)
    return summaries_of(blob, texts=blob.texts())


def test_a_window_carries_its_own_kernels_and_survives_the_wire() -> None:
    first, second = windows(3)
    for window in (first, second):
        (one,) = summaries(RankWindow.from_bytes(window.to_bytes()))
        assert (one.rank, one.events) == (3, 1000)
        assert {name for name, _ in one.kernels} == {"gemm", "softmax"}
    assert "gemm" not in first.names  # kernel names travel in the blob alone


def test_windows_of_the_version_before_are_read() -> None:
    window = replace(windows(0)[0], kernels=b"")
    meta, arrays = unpack(window.to_bytes(), {**_DTYPES, **_LATER})
    old = pack({**meta, "version": 1}, {name: (name, arrays[name]) for name in _DTYPES})
    read = RankWindow.from_bytes(old)
    assert read.kernels == b"" and len(read.details) == 0
    assert np.array_equal(read.cells, window.cells)


def test_ranks_of_a_host_share_a_blob_on_the_lowest() -> None:
    given = [*windows(5, 2, 7), *windows(1, host="h-1")]
    packed = pack_hosts(given, book=NameBook(), identities=Identities())
    assert [window.key for window in packed] == [window.key for window in given]
    carriers = {(w.rank, w.window): [s.rank for s in summaries(w)] for w in packed if w.kernels}
    assert carriers == {(2, 0): [2, 5, 7], (2, 1): [2, 5, 7], (1, 0): [1], (1, 1): [1]}
    apart = sum(len(w.kernels) for w in given if w.host == "h-0" and w.window == 0)
    together = next(len(w.kernels) for w in packed if w.rank == 2 and w.window == 0)
    assert together < 0.7 * apart


def test_definitions_go_once_and_again_on_request() -> None:
    book, identities = NameBook(), Identities()
    first, second = (pack_hosts([w], book=book, identities=identities)[0] for w in windows(0))
    assert set(open_blob(first.kernels).texts().values()) == {"gemm", "softmax", "compute"}
    assert open_blob(second.kernels).texts() == {}
    book.forget({name_hash("gemm")})
    again = pack_hosts(windows(1)[:1], book=book, identities=identities)[0]
    assert open_blob(again.kernels).texts() == {name_hash("gemm"): "gemm"}


def test_a_window_without_kernels_is_left_alone() -> None:
    plain = [replace(window, kernels=b"") for window in windows(0)]
    assert pack_hosts(plain, book=NameBook(), identities=Identities()) == plain


def test_a_mode_keeps_its_number_when_another_appears() -> None:
    assert match([10.0, 50.0], [10.1, 30.0, 49.0]) == [0, -1, 1]
    identities = Identities()
    one, two = (summaries(window)[0] for window in windows(0))
    first = identities.follow(("r", 0), one)
    assert first.clusters["ident"].tolist() == [0, 1, 0, 1]
    fewer = replace(two, clusters=two.clusters[1:])  # the first kernel lost its fast mode
    assert identities.follow(("r", 0), fewer).clusters["ident"].tolist() == [1, 0, 1]
    assert identities.follow(("r", 1), one).clusters["ident"].tolist() == [0, 1, 0, 1]


def test_the_compression_of_every_rank_is_told() -> None:
    ratios: dict[int, float] = {}
    given = windows(0)
    pack_hosts(
        given,
        book=NameBook(),
        identities=Identities(),
        told=lambda summary: ratios.__setitem__(summary.rank, summary.compression_ratio),
    )
    assert ratios.keys() == {window.rank for window in given}
    one = summaries(given[0])[0]
    assert ratios[one.rank] == one.events * 24 / (len(one.clusters) * 20) > 1


def generated(rank: int, num: int, *, chars: int = 1) -> RankWindow:
    """A window of `num` kernels each with a name of its own, the later the longer it took."""
    pairs = tuple((f"op_{rank}_{k}_".ljust(chars, "x"), "cpu") for k in range(num))
    summary = summarise(np.arange(num), 1000 + 10 * np.arange(num), pairs=pairs, rank=rank)
    (((packed,), blob),) = pack_kernels([summary])
    window = windows(rank)[0]
    lost = num - packed.events
    return replace(window.with_loss(NO_ROOM, lost) if lost else window, kernels=blob)


def test_what_one_blob_does_not_hold_rides_on_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_room, "MAX_KERNEL_BYTES", 30_000)
    given = [generated(rank, 150, chars=30) for rank in (4, 1, 2, 3)]
    book = NameBook()
    packed = pack_hosts(given, book=book, identities=Identities())
    assert [window.key for window in packed] == [window.key for window in given]
    assert all(len(window.kernels) <= 30_000 and not window.dropped for window in packed)
    carriers = {w.rank: [s.rank for s in summaries(w)] for w in packed if w.kernels}
    assert carriers == {1: [1, 2], 3: [3, 4]}
    assert all(s.events == 150 for w in packed if w.kernels for s in summaries(w))
    assert len(book.fresh(texts_of(summaries(given[0])))) == 0  # each half brought its names


def test_of_a_rank_that_is_too_large_the_longest_kernels_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_room, "MAX_KERNEL_BYTES", 30_000)
    window = generated(0, 1000, chars=30)
    (kept,) = summaries(window)
    assert len(window.kernels) <= 30_000 and window.dropped == {NO_ROOM: 1000 - kept.events}
    assert 300 < kept.events == len(kept.kernels) and kept.dropped == dict(window.dropped)
    assert {name.rstrip("x") for name, _ in kept.kernels} == {
        f"op_0_{k}_" for k in range(1000 - kept.events, 1000)
    }
    monkeypatch.setattr(kernel_room, "MAX_CLUSTERS", 100)
    book = NameBook()
    (again,) = pack_hosts([window], book=book, identities=Identities())
    (fewer,) = summaries(again)
    assert fewer.events <= 100 and again.dropped == {NO_ROOM: 1000 - fewer.events}
    gone = {name for name, _ in kept.kernels} - {name for name, _ in fewer.kernels}
    assert len(book.fresh(gone)) == len(gone)  # what was not sent is not taken for sent


def test_of_a_window_that_is_cut_the_rest_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_room, "MAX_CLUSTERS", 3)
    window = windows(0)[0]
    (kept,) = summaries(window)
    assert kept.kernels == (("gemm", "compute"),) or kept.kernels == (("softmax", "compute"),)
    assert window.dropped == {NO_ROOM: 500} and kept.events == 500 and len(window.steps) == 10
