"""Make small Nsight Systems exports, for tests: a data-parallel step with NVTX ranges and one all-reduce."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

EPOCH_NS = 1_700_000_000 * 10**9
_MS = 1_000_000
_TEXTS = {
    1: "void gemm<float, 4>(float*)",
    2: "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)",
    3: "cudaLaunchKernel_v7000",
    4: "cudaStreamSynchronize_v3020",
    5: "forward",
}
_SCHEMA = """
CREATE TABLE META_DATA_EXPORT (name TEXT, value TEXT);
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
  globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER,
  gridX INTEGER NOT NULL, gridY INTEGER NOT NULL, gridZ INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
  globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
  streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
  category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER, domainId INTEGER);
CREATE TABLE TARGET_INFO_SYSTEM_ENV (globalVid INTEGER, devStateName TEXT, name TEXT, nameEnum INTEGER, value TEXT);
CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT, busLocation TEXT, uuid TEXT);
CREATE TABLE TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT);
"""


def fake_report(
    path: Path,
    *,
    late_ms: Mapping[int, float] | Sequence[float] = (0.0,),
    num_steps: int = 6,
    host: str = "node-1",
    step_name: str = "iteration {step}",
    latest_ms: float | None = None,
) -> Path:
    """A report whose process i computes `late_ms[i]` longer in its forward; all all-reduces end together."""
    late = dict(late_ms) if isinstance(late_ms, Mapping) else dict(enumerate(late_ms))
    latest = max(late.values()) if latest_ms is None else latest_ms
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executescript(_SCHEMA)
        connection.executemany("INSERT INTO StringIds VALUES (?, ?)", _TEXTS.items())
        connection.execute("INSERT INTO META_DATA_EXPORT VALUES ('EXPORT_SCHEMA_VERSION', '3.14.1')")
        connection.execute("INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES (0, '', 'Hostname', 0, ?)", (host,))
        connection.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, '', '')", (EPOCH_NS,))
        for device, one in sorted(late.items()):
            connection.execute("INSERT INTO TARGET_INFO_GPU VALUES (0, ?, 'Fake GPU', '', '')", (device,))
            connection.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (?, ?, 0, '')", (device, device))
            for step in range(num_steps):
                begin = round(step * (20 + latest) * _MS)
                _step(connection, device, begin, late=one, latest=latest, name=step_name.format(step=step))
    return path


def _step(
    connection: sqlite3.Connection, device: int, begin: int, *, late: float, latest: float, name: str
) -> None:
    pid = (1000 + device) << 24
    tid = pid + 1000 + device

    def at(ms: float) -> int:
        return begin + round(ms * _MS)

    computed, done = 5 + late, 15 + latest
    ranges: Sequence[tuple[float, float, str | None, int | None]] = (
        (0.0, 18 + latest, name, None),
        (0.5, 4 + late, None, 5),
        (4.2 + late, 14 + latest, "backward", None),
        (16 + latest, 17.5 + latest, "optimizer", None),
    )
    connection.executemany(
        "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, NULL, NULL, NULL, ?, ?, NULL, ?, 0)",
        [(at(start), at(end), text, tid, number) for start, end, text, number in ranges],
    )
    kernels = (
        (1.0, computed - 1.5, 7, 1),
        (computed, computed + 2, 7, 1),
        (computed + 2.2, done, 20, 2),
        (16.2 + latest, 17 + latest, 7, 1),
    )
    for number, (start, end, stream, text) in enumerate(kernels):
        correlation = begin // 1000 + number
        connection.execute(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, 1, NULL, ?, ?, ?, ?, ?, NULL, 1, 1, 1)",
            (at(start), at(end), device, stream, correlation, pid, text, text),
        )
        launch = (at(start - 0.1), at(start - 0.05), 0, tid, correlation, 3, 0)
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?, ?)", launch)
    wait = (at(computed + 2.5), at(done), 0, tid, begin // 1000 + 9, 4, 0)
    connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (?, ?, ?, ?, ?, ?, ?)", wait)
