"""Buffers of activity records, built from the dtypes that cupti-python ships."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from argus.collectors.rank.cupti.decode import Bytes, Decoded, Layouts, decode, find_runs
from argus.collectors.rank.cupti.fake import STAND_IN, Texts, buffer_of, record
from argus.collectors.rank.cupti.kinds import API_KINDS, CONCURRENT_KERNEL, MEMCPY, MEMCPY2, MEMSET, RUNTIME
from argus.collectors.rank.cupti.layouts import candidates
from argus.collectors.rank.cupti.path import decode_objects
from tests.collectors.rank.cupti import versions

NAMES = ("gemm", "_ZN2at6native3addE", "ncclDevKernel_AllReduce_Sum_f32_RING_LL")


def written(kinds: Sequence[int], layouts: Layouts, texts: Texts) -> list[bytes]:
    """One record a kind, each with numbers of its own."""
    return [
        record(
            layouts[kind],
            kind,
            start=1_000 * i + 1,
            end=1_000 * i + 500,
            stream_id=7 + i % 2,
            correlation_id=i + 1,
            graph_id=i % 3,
            copy_kind=1 + i % 2,
            name=texts.address(NAMES[i % len(NAMES)]),
        )
        for i, kind in enumerate(kinds)
    ]


def assert_same(decoded: Decoded, kinds: Sequence[int]) -> None:
    """Every record came back with the numbers `written` gave it."""
    work = np.sort(decoded.work, order="correlation")
    expected = [i + 1 for i, kind in enumerate(kinds) if kind not in API_KINDS]
    assert work["correlation"].tolist() == expected
    assert work["start"].tolist() == [1_000 * (i - 1) + 1 for i in expected]
    assert work["end"].tolist() == [1_000 * (i - 1) + 500 for i in expected]
    assert work["stream"].tolist() == [7 + (i - 1) % 2 for i in expected]
    assert work["graph"].tolist() == [(i - 1) % 3 for i in expected]
    for row in work:
        i = int(row["correlation"]) - 1
        name = decoded.names[row["name"]]
        if kinds[i] == CONCURRENT_KERNEL:
            assert name == NAMES[i % len(NAMES)]
        elif kinds[i] == MEMSET:
            assert name == "Memset (Device)"
        else:
            assert name == ("Memcpy HtoD", "Memcpy DtoH")[i % 2]
    launches = np.sort(decoded.launches, order="correlation")
    assert launches["correlation"].tolist() == [i + 1 for i, kind in enumerate(kinds) if kind in API_KINDS]


KINDS = st.lists(st.sampled_from((CONCURRENT_KERNEL, MEMCPY, MEMCPY2, MEMSET, RUNTIME)), max_size=150)


@pytest.mark.parametrize("version", versions.VERSIONS)
def test_every_version_of_every_record_is_read(version: int) -> None:
    layouts, texts = versions.layouts(version), Texts()
    kinds = [*[CONCURRENT_KERNEL] * 40, MEMCPY, RUNTIME, MEMCPY2, MEMSET, CONCURRENT_KERNEL, *[RUNTIME] * 20]
    decoded = decode(buffer_of(written(kinds, layouts, texts)), layouts, read_name=texts.read)
    assert_same(decoded, kinds)
    assert (decoded.lost_bytes, decoded.unknown_kind) == (0, None)


@given(kinds=KINDS, version=st.sampled_from(versions.VERSIONS))
@settings(deadline=None, max_examples=60)
def test_any_order_of_kinds_is_read(kinds: list[int], version: int) -> None:
    layouts, texts = versions.layouts(version), Texts()
    assert_same(decode(buffer_of(written(kinds, layouts, texts)), layouts, read_name=texts.read), kinds)


@given(kinds=KINDS, cut=st.integers(0, 12_000))
@settings(deadline=None, max_examples=60)
def test_a_cut_buffer_keeps_what_is_whole_and_counts_the_rest(kinds: list[int], cut: int) -> None:
    layouts, texts = versions.layouts(0), Texts()
    parts = written(kinds, layouts, texts)
    buffer = buffer_of(parts)[:cut]
    decoded = decode(buffer, layouts, read_name=texts.read)
    ends = np.cumsum([len(part) for part in parts])
    whole = int((ends <= len(buffer)).sum())
    assert decoded.num_records == whole
    assert decoded.lost_bytes == len(buffer) - (int(ends[whole - 1]) if whole else 0)


@given(data=st.binary(max_size=4096), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=200)
def test_no_bytes_make_it_raise_or_read_past_the_end(data: bytes, seed: int) -> None:
    layouts = versions.layouts(seed % 5)
    words = np.frombuffer(data[: len(data) // 8 * 8], "<u8").copy()
    # Plant plausible kinds so that the walk gets somewhere.
    rng = np.random.default_rng(seed)
    words[rng.random(len(words)) < 0.5] = CONCURRENT_KERNEL
    buffer = words.view(np.uint8)
    decoded = decode(buffer, layouts, read_name=lambda pointer: f"at {pointer}")
    runs, end, _ = find_runs(buffer, {kind: dtype.itemsize for kind, dtype in layouts.items()})
    assert 0 <= end <= len(buffer) and decoded.lost_bytes == len(buffer) - end
    assert runs["count"].sum() == decoded.num_records


def test_kinds_that_take_turns_are_read_too() -> None:
    layouts, texts = versions.layouts(0), Texts()
    kinds = [RUNTIME, CONCURRENT_KERNEL] * 300 + [CONCURRENT_KERNEL] * 100 + [MEMCPY, RUNTIME] * 50
    parts = written(kinds, layouts, texts)
    assert_same(decode(buffer_of(parts), layouts, read_name=texts.read), kinds)
    odd = np.array([78, 0], "<i4").tobytes()
    cut = decode(buffer_of([*parts[:400], odd, *parts[400:]]), layouts, read_name=texts.read)
    assert (cut.num_records, cut.unknown_kind) == (400, 78)
    short = decode(buffer_of(parts)[:-16], layouts, read_name=texts.read)
    assert (short.num_records, short.unknown_kind) == (len(parts) - 1, None)
    assert short.lost_bytes == len(parts[-1]) - 16


def test_an_unknown_kind_ends_the_buffer() -> None:
    layouts, texts = versions.layouts(0), Texts()
    parts = written([CONCURRENT_KERNEL, RUNTIME, CONCURRENT_KERNEL], layouts, texts)
    odd = np.array([77, 0, 0, 0], "<i4").tobytes()
    decoded = decode(buffer_of([parts[0], parts[1], odd, parts[2]]), layouts, read_name=texts.read)
    assert decoded.num_records == 2 and decoded.unknown_kind == 77
    assert decoded.lost_bytes == len(odd) + len(parts[2])


@pytest.mark.parametrize("version", versions.VERSIONS)
def test_objects_of_cupti_python_give_the_same_arrays(version: int) -> None:
    module = versions.module()
    layouts, texts = versions.layouts(version), Texts()
    kinds = [CONCURRENT_KERNEL, RUNTIME, MEMCPY, CONCURRENT_KERNEL, MEMSET, MEMCPY2, RUNTIME] * 3
    buffer = buffer_of(written(kinds, layouts, texts))
    raw = decode(buffer, layouts, read_name=texts.read)
    objects = decode_objects(objects_of(buffer, layouts, module))
    assert_same(objects, kinds)
    columns = ["kind", "start", "end", "stream", "correlation", "graph", "detail"]
    for one in (raw, objects):
        one.work.sort(order="correlation")
    assert (raw.work[columns] == objects.work[columns]).all()
    assert [raw.names[i] for i in raw.work["name"]] == [objects.names[i] for i in objects.work["name"]]
    assert raw.launches.tolist() == objects.launches.tolist()


def objects_of(buffer: Bytes, layouts: Layouts, module: object) -> list[object]:
    """cupti-python's own record objects over the buffer."""
    known = candidates(module)
    at, found = 0, []
    while at < len(buffer):
        kind = int(buffer[at : at + 4].view("<i4")[0])
        reader = next(c for c in known[kind] if c.dtype.itemsize == layouts[kind].itemsize)
        found.append(reader.from_pointer(int(buffer.ctypes.data) + at))
        at += layouts[kind].itemsize
    return found


def test_a_buffer_of_nothing_is_nothing() -> None:
    decoded = decode(np.zeros(0, np.uint8), STAND_IN, read_name=str)
    assert (decoded.num_records, decoded.lost_bytes, decoded.names) == (0, 0, ())


def test_long_runs_are_found_whole() -> None:
    texts = Texts()
    kinds = [CONCURRENT_KERNEL] * 5000 + [RUNTIME] + [CONCURRENT_KERNEL] * 3
    buffer = buffer_of(written(kinds, STAND_IN, texts))
    runs, end, unknown = find_runs(buffer, {kind: dtype.itemsize for kind, dtype in STAND_IN.items()})
    assert runs[["kind", "count"]].tolist() == [
        (CONCURRENT_KERNEL, 5000),
        (RUNTIME, 1),
        (CONCURRENT_KERNEL, 3),
    ]
    assert end == len(buffer) and unknown is None
