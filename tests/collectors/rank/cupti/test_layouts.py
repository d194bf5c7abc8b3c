"""Layouts are trusted where libcupti's walk and cupti-python's records agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from argus.collectors.rank.cupti.fake import Texts, buffer_of, record
from argus.collectors.rank.cupti.kinds import CONCURRENT_KERNEL, MEMCPY, RUNTIME
from argus.collectors.rank.cupti.layouts import Candidate, LayoutError, learn
from argus.collectors.rank.cupti.raw import loaded_libraries
from tests.collectors.rank.cupti import versions


def kernels(version: int, texts: Texts) -> list[bytes]:
    dtype = versions.layouts(version)[CONCURRENT_KERNEL]
    common = {"start": 10, "end": 20, "stream_id": 3, "graph_id": 0, "name": texts.address("gemm")}
    return [record(dtype, CONCURRENT_KERNEL, correlation_id=i, **common) for i in range(5)]


@pytest.mark.parametrize("version", versions.VERSIONS)
def test_the_version_is_known_by_its_length(version: int) -> None:
    texts = Texts()
    parts = kernels(version, texts)
    hops = [i * len(parts[0]) for i in range(len(parts))]
    found = learn(
        buffer_of(parts),
        CONCURRENT_KERNEL,
        known=versions.known(),
        hops=lambda _buffer: hops,
        read_name=texts.read,
    )
    assert found == versions.layouts(version)[CONCURRENT_KERNEL]


def test_a_length_nobody_describes_is_refused() -> None:
    texts = Texts()
    buffer = buffer_of([part + bytes(8) for part in kernels(0, texts)])
    size = len(buffer) // 5
    with pytest.raises(LayoutError, match="does not describe"):
        learn(
            buffer,
            CONCURRENT_KERNEL,
            known=versions.known(),
            hops=lambda _buffer: [i * size for i in range(5)],
            read_name=texts.read,
        )


def test_two_lengths_of_one_kind_are_refused() -> None:
    texts = Texts()
    parts = [*kernels(0, texts)[:2], *(part + bytes(8) for part in kernels(0, texts)[:2])]
    lengths = [len(part) for part in parts]
    hops = [sum(lengths[:i]) for i in range(4)]
    with pytest.raises(LayoutError, match="lengths"):
        learn(
            buffer_of(parts),
            CONCURRENT_KERNEL,
            known=versions.known(),
            hops=lambda _buffer: hops,
            read_name=texts.read,
        )


def test_a_record_that_cupti_python_reads_otherwise_is_refused() -> None:
    texts = Texts()
    parts = kernels(0, texts)
    newest = versions.known()[CONCURRENT_KERNEL][-1]
    elsewhere = buffer_of([parts[1]])
    other = newest.from_pointer(int(elsewhere.ctypes.data))
    liar = Candidate(dtype=versions.layouts(0)[CONCURRENT_KERNEL], from_pointer=lambda _pointer: other)
    with pytest.raises(LayoutError, match="correlation_id"):
        learn(
            buffer_of(parts[:1]),
            CONCURRENT_KERNEL,
            known={CONCURRENT_KERNEL: (liar,)},
            hops=lambda _buffer: [0],
            read_name=texts.read,
        )


def test_every_collected_kind_has_a_candidate() -> None:
    known = versions.known()
    assert all(known[kind] for kind in (CONCURRENT_KERNEL, MEMCPY, RUNTIME))
    assert all(c.dtype.itemsize % 8 == 0 for kind in known for c in known[kind])


def test_the_loaded_library_is_found_in_the_maps(tmp_path: Path) -> None:
    maps = tmp_path / "maps"
    line = "7f00-7f01 r-xp 00000000 08:01 12 /opt/cuda/lib/libcupti.so.13\n"
    maps.write_text(line * 2 + "7f02-7f03 r--p 00000000 08:01 13 /usr/lib/libc.so.6\n")
    assert loaded_libraries(maps) == ["/opt/cuda/lib/libcupti.so.13"]
    assert loaded_libraries(tmp_path / "absent") == []
