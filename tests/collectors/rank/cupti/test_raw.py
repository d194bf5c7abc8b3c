"""The raw path's callbacks, called by a compiled library on a thread of its own, as libcupti does."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from argus.collectors.rank.cupti.api import Refused, Unavailable
from argus.collectors.rank.cupti.fake import Texts, record
from argus.collectors.rank.cupti.kinds import CONCURRENT_KERNEL, MEMCPY, RUNTIME
from argus.collectors.rank.cupti.pool import Pool
from argus.collectors.rank.cupti.raw import LibCupti, RawPath, loaded_library
from tests.collectors.rank.cupti import versions

STUB = """
#include <pthread.h>
#include <stdint.h>
#include <string.h>
typedef void (*requested_t)(uint8_t **, size_t *, size_t *);
typedef void (*completed_t)(void *, uint32_t, uint8_t *, size_t, size_t);
static requested_t requested; static completed_t completed;
static const uint8_t *data; static size_t size; static int status, lost;
static struct { uint32_t kind; size_t size; } kinds[8];
int cuptiActivitySetAttribute(int attribute, size_t *bytes, void *value) {
  return attribute == 5 && *bytes == 1 && *(uint8_t *)value == 1 ? 0 : 1;
}
int cuptiActivityRegisterCallbacks(requested_t r, completed_t c) { requested = r; completed = c; return status; }
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **record) {
  uint8_t *next = buffer;
  if (*record)
    for (int i = 0; i < 8; i++)
      if (kinds[i].size && kinds[i].kind == *(uint32_t *)*record) next = *record + kinds[i].size;
  if (next >= buffer + valid) return 12;
  *record = next;
  return 0;
}
static void *deliver(void *unused) {
  uint8_t *buffer = 0; size_t room = 0, most = 1;
  requested(&buffer, &room, &most);
  if (!buffer || room < size || most) { lost++; return 0; }
  memcpy(buffer, data, size);
  completed(0, 0, buffer, room, size);
  return 0;
}
void stub_kind(int at, uint32_t kind, size_t bytes) { kinds[at].kind = kind; kinds[at].size = bytes; }
void stub_status(int value) { status = value; }
int stub_lost(void) { return lost; }
void stub_emit(const uint8_t *bytes, size_t length) {
  pthread_t thread; data = bytes; size = length;
  pthread_create(&thread, 0, deliver, 0); pthread_join(thread, 0);
}
"""


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in library")
    folder = tmp_path_factory.mktemp("stub")
    source, library = folder / "stub.c", folder / "libstub.so"
    source.write_text(STUB)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source), "-lpthread"], check=True)
    return library


def start(stub: Path, *, num_buffers: int = 2) -> tuple[RawPath, ctypes.CDLL]:
    """A raw path registered with the stub, which knows the newest records."""
    path = RawPath(
        LibCupti(str(stub)), module=versions.module(), pool=Pool(num_buffers=num_buffers, num_bytes=1 << 14)
    )
    library = ctypes.CDLL(str(stub))
    for at, (kind, dtype) in enumerate(versions.layouts(0).items()):
        library.stub_kind(at, kind, ctypes.c_size_t(dtype.itemsize))
    path.register()
    return path, library


def test_buffers_filled_on_a_foreign_thread_come_out_decoded(stub: Path) -> None:
    path, library = start(stub)
    layouts, texts = versions.layouts(0), Texts()
    name = texts.address("gemm")
    parts = [
        record(layouts[RUNTIME], RUNTIME, start=1, end=2, correlation_id=5),
        *(
            record(
                layouts[CONCURRENT_KERNEL],
                CONCURRENT_KERNEL,
                start=10 * i,
                end=10 * i + 4,
                correlation_id=5 + i,
                stream_id=7,
                name=name,
            )
            for i in range(1, 20)
        ),
        record(layouts[MEMCPY], MEMCPY, start=300, end=310, correlation_id=40, copy_kind=2),
    ]
    data = b"".join(parts)
    for _ in range(5):  # more often than there are buffers: they come back
        library.stub_emit(data, ctypes.c_size_t(len(data)))
        decoded = path.take()
        assert decoded is not None and decoded.num_records == 21 and not decoded.lost_bytes
        kernels = decoded.work[decoded.work["kind"] == CONCURRENT_KERNEL]
        assert np.array_equal(kernels["start"], np.arange(1, 20) * 10)
        assert {decoded.names[i] for i in kernels["name"]} == {"gemm"}
    assert path.take() is None and path.take_lost() == 0 and library.stub_lost() == 0
    assert path.verified[CONCURRENT_KERNEL] == layouts[CONCURRENT_KERNEL].itemsize


def test_a_declined_buffer_is_no_buffer(stub: Path) -> None:
    path, library = start(stub, num_buffers=1)
    data = record(versions.layouts(0)[RUNTIME], RUNTIME, start=1, end=2)
    for _ in range(3):
        library.stub_emit(data, ctypes.c_size_t(len(data)))
    assert library.stub_lost() == 2 and path.take_lost() == 2
    assert path.take() is not None


def test_an_error_of_the_library_is_a_refusal(stub: Path) -> None:
    library = ctypes.CDLL(str(stub))
    library.stub_status(39)
    try:
        with pytest.raises(Refused, match="39"):
            start(stub)
    finally:
        library.stub_status(0)


def test_no_library_or_several_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    from argus.collectors.rank.cupti import raw

    for found in ([], ["/a/libcupti.so.12", "/b/libcupti.so.13"]):
        monkeypatch.setattr(raw, "loaded_libraries", lambda found=found: found)
        with pytest.raises(Unavailable, match=str(len(found))):
            loaded_library()
