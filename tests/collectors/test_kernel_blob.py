"""Packed kernel summaries: precision, one kernel alone, and bytes that lie."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from argus.collectors.host.compress import summarise
from argus.collectors.records import kernel_read
from argus.collectors.records.errors import WireError
from argus.collectors.records.kernel_blob import LOG_STEP, MEAN_STEP, encode
from argus.collectors.records.kernel_read import bundle, open_blob, read, summaries_of
from argus.collectors.records.kernels import CLUSTER, KernelSummary, name_hash

KERNELS = tuple((f"kernel_{i}", "comm:dp" if i % 5 == 0 else "compute") for i in range(30))


def summaries(num_ranks: int = 8, *, mode: str = "default", seed: int = 0) -> list[KernelSummary]:
    rng = np.random.default_rng(seed)
    out = []
    for rank in range(num_ranks):
        key = rng.integers(0, len(KERNELS), 4000)
        durations = (
            1e4 * (1 + key) * np.where(rng.random(4000) < 0.3, 3, 1) * np.exp(rng.normal(0, 0.05, 4000))
        )
        out.append(summarise(key, np.rint(durations), pairs=KERNELS, rank=rank * 3, mode=mode))
    return out


def by_pair(summary: KernelSummary) -> dict[tuple[str, str], np.ndarray[tuple[int], np.dtype[np.void]]]:
    return {p: summary.clusters[summary.clusters["kernel"] == i] for i, p in enumerate(summary.kernels)}


@pytest.mark.parametrize("mode", ["default", "paper"])
@pytest.mark.parametrize("num_ranks", [1, 8, 40])
def test_what_comes_back_is_within_the_stated_precision(num_ranks: int, mode: str) -> None:
    given = summaries(num_ranks, mode=mode)
    blob = open_blob(encode(given))
    back = summaries_of(blob, texts=blob.texts())
    assert [(s.rank, s.events, s.mode) for s in back] == [(s.rank, s.events, mode) for s in given]
    for one, other in zip(given, back, strict=True):
        ours, theirs = by_pair(one), by_pair(other)
        assert ours.keys() == theirs.keys()
        for pair, clusters in ours.items():
            assert (clusters["count"] == theirs[pair]["count"]).all()
            for column, step in (
                ("p50_ns", LOG_STEP),
                ("p99_ns", LOG_STEP),
                ("max_ns", LOG_STEP),
                ("sum_ns", MEAN_STEP),
            ):
                error = np.abs(np.log(theirs[pair][column] / clusters[column]))
                assert (
                    np.isnan(error).all()
                    if mode == "paper" and column in ("max_ns", "sum_ns")
                    else (error <= 0.51 * step + 1e-6).all()
                )


def test_one_kernel_is_read_without_the_others() -> None:
    blob = open_blob(encode(summaries()))
    everything = read(bundle([blob]))
    damaged = bytearray(blob.chunks)
    entry = 7
    begin, end = (int(blob.index["offset"][i]) for i in (entry, entry + 1))
    for at in range(len(damaged)):
        if not begin <= at < end:
            damaged[at] ^= 0xFF
    alone = read(bundle([replace(blob, chunks=bytes(damaged))]), entries=np.array([entry]))
    mine = everything.entry == entry
    assert (alone.log_p50 == everything.log_p50[mine]).all()
    assert (alone.member == everything.member[mine]).all()


def test_many_blobs_read_at_once_equal_each_read_alone() -> None:
    blobs = [open_blob(encode(summaries(num, seed=num))) for num in (8, 3, 33)]
    together = read(bundle(blobs))
    begin = 0
    for blob in blobs:
        alone = read(bundle([blob]))
        here = slice(begin, begin + len(alone.count))
        assert (together.count[here] == alone.count).all() and (
            together.log_mean[here] == alone.log_mean
        ).all()
        begin = here.stop
    assert begin == len(together.count)


def test_definitions_travel_only_when_asked_for() -> None:
    given = summaries(2)
    known = encode(given, names={})
    assert len(known) < len(encode(given))
    blob = open_blob(known)
    assert blob.texts() == {}
    names = {name for summary in summaries_of(blob, texts={}) for name, _ in summary.kernels}
    assert f"kernel:{name_hash('kernel_3'):016x}" in names


def test_ranks_without_kernels_and_drops_are_kept() -> None:
    empty = KernelSummary(rank=9, dropped={"kernel_zero": 4})
    blob = open_blob(encode([*summaries(2), empty]))
    back = summaries_of(blob, texts=blob.texts())
    assert back[2].rank == 9 and back[2].events == 0 and back[2].dropped == {"kernel_zero": 4}
    alone = open_blob(encode([empty]))
    assert len(read(bundle([alone])).count) == 0 and len(summaries_of(alone, texts={})) == 1


@pytest.mark.parametrize(
    "bad", [[], summaries(65), summaries(2) + summaries(2), summaries(1) + summaries(2, mode="paper")[1:]]
)
def test_what_cannot_share_a_blob_is_refused(bad: list[KernelSummary]) -> None:
    with pytest.raises(ValueError):
        encode(bad)


def test_cut_or_changed_bytes_give_a_wire_error_or_a_summary() -> None:
    payload = encode(summaries(4))
    rng = np.random.default_rng(1)
    for length in (0, 3, 20, 100, len(payload) // 2, len(payload) - 1):
        with pytest.raises(WireError):
            open_blob(payload[:length])
    refused = 0
    for _ in range(400):
        changed = bytearray(payload)
        for at in rng.integers(0, len(payload), 3):
            changed[at] = rng.integers(0, 256)
        try:
            blob = open_blob(bytes(changed))
            read(bundle([blob]))
            blob.texts()
            blob.dropped()
        except WireError:
            refused += 1
    assert 0 < refused < 400


def test_a_few_bytes_that_become_many_clusters_are_refused_before_they_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_read, "MAX_CLUSTERS", 52_000)
    clusters = np.zeros(10 * 100, CLUSTER)
    clusters["kernel"], clusters["count"] = np.repeat(np.arange(10), 100), 1
    for column in ("p50_ns", "p99_ns", "max_ns", "sum_ns"):
        clusters[column] = 1.0
    kernels = tuple((f"k{i}", "compute") for i in range(10))
    given = [KernelSummary(rank=rank, kernels=kernels, clusters=clusters) for rank in range(53)]
    full, over = open_blob(encode(given[:52])), open_blob(encode(given))
    assert len(over.chunks) < 8000
    assert len(read(bundle([full, full])).count) == 2 * 52_000  # the limit is each one's
    tracemalloc.start()
    with pytest.raises(WireError, match="53000 clusters"):
        read(bundle([full, over]))
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_a_chunk_is_of_one_kernel() -> None:
    blob = open_blob(encode(summaries()))
    index = blob.index.copy()
    index["offset"] = 0
    with pytest.raises(WireError, match="cut inside"):
        read(bundle([replace(blob, index=index)]))


def test_a_blob_beyond_the_limit_is_refused() -> None:
    names = {name_hash(text): text for text in (f"{i}" * 400 for i in range(10_000))}
    with pytest.raises(WireError, match="more than 4194304 bytes"):
        open_blob(encode(summaries(1), names=names))


def test_another_version_is_named() -> None:
    payload = bytearray(encode(summaries(1)))
    payload[3] = 9
    with pytest.raises(WireError, match="version 9"):
        open_blob(bytes(payload))
