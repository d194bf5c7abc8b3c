"""Kernels, launches and NVTX ranges of an Nsight Systems export as the columns of a profile, by process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from argus.collectors.readers._columns import MAX_SPANS, Columns, Span
from argus.collectors.readers._nsight_tables import Row, Tables
from argus.collectors.records.kernel_names import is_comm

MAX_NS = 1 << 61
MAX_PROCESSES = 4096
_STANDS_STILL = re.compile("Synchronize|Memcpy")
_STEP = re.compile(
    r"(?:train(?:ing)?[-_ ]?)?(?:step|iter(?:ation)?|global[-_ ]?step)[-_ #:=]*(?P<number>\d{1,15})?$",
    re.IGNORECASE,
)
_PUSH_POP, _START_END = 59, 60

_BY_CORRELATION = ("start", "end", "streamId", "correlationId")


@dataclass(kw_only=True)
class Process:
    """One process of the report."""

    pid: int
    columns: Columns = field(default_factory=Columns)
    devices: Counter[int] = field(default_factory=Counter)
    num_numbered: int = 0
    unnumbered: list[Span] = field(default_factory=list)
    gpu_model: str = ""

    @property
    def device(self) -> str:
        """Index of the GPU most of its kernels ran on, "" without any."""
        return str(min(self.devices, key=lambda one: (-self.devices[one], one))) if self.devices else ""


def pid_of(identifier: object) -> int:
    """The process id inside of a globalPid or globalTid, 0 where a table does not tell.

    >>> pid_of((7 << 24) + 5)
    7
    """
    return (identifier >> 24) & 0xFFFFFF if isinstance(identifier, int) and identifier >= 0 else 0


def processes_of(tables: Tables) -> list[Process]:
    """Processes with kernels in the order of their GPUs; those with NVTX ranges if none has kernels."""
    found: dict[int, Process] = {}
    texts = _texts(tables)
    _kernels(tables, found, texts)
    with_gpu = {pid for pid, process in found.items() if process.devices}
    _copies(tables, found)
    _launches(tables, found, texts)
    _ranges(tables, found, texts)
    models = _models(tables)
    kept = [one for pid, one in found.items() if pid in with_gpu or (not with_gpu and _has_ranges(one))]
    for one in kept:
        one.gpu_model = models.get(one.device, "")
        one.columns.device = int(one.device) if one.device else -1
        one.columns.marks += _steps(one)
        one.columns.num_events = len(one.columns.kernels) + len(one.columns.marks)
    return sorted(kept, key=lambda one: (int(one.device or 0), one.pid))


def _of(found: dict[int, Process], pid: int) -> Process | None:
    """The process; None for one too many."""
    if pid not in found and len(found) >= MAX_PROCESSES:
        return None
    return found.setdefault(pid, Process(pid=pid))


def _texts(tables: Tables) -> dict[object, str]:
    if not tables.has("StringIds", "id", "value"):
        return {}
    return {row[0]: str(row[1])[:2000] for row in tables.rows("SELECT id, value FROM StringIds")}


def _span(process: Process, start: object, end: object) -> tuple[int, int] | None:
    """Start and end in ns; what is no span of time is counted."""
    if isinstance(start, int) and isinstance(end, int) and -MAX_NS < start <= end < MAX_NS:
        return start, end
    process.columns.num_bad += 1
    return None


def _kernels(tables: Tables, found: dict[int, Process], texts: dict[object, str]) -> None:
    table = tables.newest("CUPTI_ACTIVITY_KIND_KERNEL")
    name = tables.first_of(table, "demangledName", "shortName", "mangledName", "name")
    if name is None or not tables.has(table, *_BY_CORRELATION):
        return
    pid = tables.first_of(table, "globalPid") or "0"
    device = tables.first_of(table, "deviceId") or "0"
    columns = f'"start", "end", streamId, correlationId, {pid}, {device}, {name}'
    for row in tables.rows(f"SELECT {columns} FROM {table}"):
        process = _of(found, pid_of(row[4]))
        when = None if process is None else _span(process, row[0], row[1])
        if process is None or when is None:
            continue
        text = texts.get(row[6], row[6] if isinstance(row[6], str) else "?")
        _kernel(process, when, row, text)


def _kernel(process: Process, when: tuple[int, int], row: Row, text: str) -> None:
    columns = process.columns
    kind = int(is_comm(text))
    found = (when[0], when[1] - when[0], _whole(row[2]), _whole(row[3]))
    index = columns.kernel(found, text, kind=kind)
    if kind and index >= 0:
        columns.comm_args[index] = {}
    process.devices[_whole(row[5])] += 1


def _copies(tables: Tables, found: dict[int, Process]) -> None:
    for kept, text in (("CUPTI_ACTIVITY_KIND_MEMCPY", "Memcpy"), ("CUPTI_ACTIVITY_KIND_MEMSET", "Memset")):
        table = tables.newest(kept)
        if not tables.has(table, *_BY_CORRELATION):
            continue
        pid = tables.first_of(table, "globalPid") or "0"
        kind = tables.first_of(table, "copyKind") or "0"
        for row in tables.rows(f'SELECT "start", "end", streamId, correlationId, {pid}, {kind} FROM {table}'):
            process = found.get(pid_of(row[4]))
            when = None if process is None else _span(process, row[0], row[1])
            if process is None or when is None:
                continue
            named = f"{text} {_COPIES.get(_whole(row[5]), '')}".strip()
            found_row = (when[0], when[1] - when[0], _whole(row[2]), _whole(row[3]))
            process.columns.kernel(found_row, named, kind=2)


_COPIES = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}


def _launches(tables: Tables, found: dict[int, Process], texts: dict[object, str]) -> None:
    table = tables.newest("CUPTI_ACTIVITY_KIND_RUNTIME")
    if not tables.has(table, "start", "end", "globalTid", "correlationId", "nameId"):
        return
    for row in tables.rows(f'SELECT "start", "end", globalTid, correlationId, nameId FROM {table}'):
        process = found.get(pid_of(row[2])) or found.get(0)
        when = None if process is None else _span(process, row[0], row[1])
        if process is None or when is None:
            continue
        correlation = _whole(row[3])
        if correlation >= 0:
            process.columns.launches.append((correlation, when[0], process.columns.thread(row[2])))
        if _STANDS_STILL.search(texts.get(row[4], "")):
            process.columns.blocked.append(when)


def _ranges(tables: Tables, found: dict[int, Process], texts: dict[object, str]) -> None:
    table = tables.newest("NVTX_EVENTS")
    if not tables.has(table, "start", "end", "globalTid"):
        return
    text, number = tables.first_of(table, "text") or "NULL", tables.first_of(table, "textId") or "NULL"
    kind = tables.first_of(table, "eventType") or str(_PUSH_POP)
    query = f'SELECT "start", "end", globalTid, {text}, {number}, {kind} FROM {table} WHERE "end" IS NOT NULL ORDER BY "start"'
    for row in tables.rows(query):
        name = row[3] if isinstance(row[3], str) else texts.get(row[4], "")
        process = found.get(pid_of(row[2])) or found.get(0) or _of(found, pid_of(row[2]))
        if process is None or not name or row[5] not in (_PUSH_POP, _START_END):
            continue
        when = _span(process, row[0], row[1])
        if when is not None:
            for span in _mark(process, when, name, tid=row[2]):
                process.columns.span(span, is_comm=False)


def _mark(process: Process, when: tuple[int, int], name: str, *, tid: object) -> Iterator[Span]:
    """The range, a numbered step under the name all profiles use; steps without a number are kept aside."""
    if name.startswith("nccl"):
        return  # its launch; the kernel is the transfer
    process.columns.thread(tid)
    step = _STEP.match(name)
    if step is not None and step["number"]:
        process.num_numbered += 1
        name = f"ProfilerStep#{int(step['number'])}"
    span = Span(start_ns=when[0], end_ns=when[1], tid=tid, name=name[:200])
    if step is not None and not step["number"]:
        process.unnumbered += [span] if len(process.unnumbered) < MAX_SPANS else []
    else:
        yield span


def _has_ranges(process: Process) -> bool:
    return bool(process.columns.marks or process.unnumbered)


def _steps(process: Process) -> Iterator[Span]:
    """Ranges called `step` or `iteration`, counted, where none carries a number of its own."""
    if not process.num_numbered:
        for number, span in enumerate(process.unnumbered):
            yield replace(span, name=f"ProfilerStep#{number}")


def _models(tables: Tables) -> dict[str, str]:
    """Name of each GPU by CUDA index, by its id where that is all there is."""
    if not tables.has("TARGET_INFO_GPU", "id", "name"):
        return {}
    names = {row[0]: str(row[1])[:100] for row in tables.rows("SELECT id, name FROM TARGET_INFO_GPU")}
    if not tables.has("TARGET_INFO_CUDA_DEVICE", "gpuId", "cudaId"):
        return {str(key): name for key, name in names.items()}
    rows = tables.rows("SELECT gpuId, cudaId FROM TARGET_INFO_CUDA_DEVICE")
    return {str(row[1]): names.get(row[0], "") for row in rows}


def _whole(value: object) -> int:
    return value if isinstance(value, int) and abs(value) < MAX_NS else -1
